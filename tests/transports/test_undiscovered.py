"""Where clients look for a login that is not there."""

from __future__ import annotations

from django.test import Client


def test_a_program_gets_a_404_that_it_can_read(client: Client) -> None:
    for document in ("oauth-authorization-server", "openid-configuration"):
        for slash in ("", "/"):
            answer = client.get(f"/.well-known/{document}/mcp{slash}", headers={"Origin": "https://app.example"})

            assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
            assert answer["Access-Control-Allow-Origin"] == "*"
            assert "Authorization: Bearer" in answer.json()["error_description"]


def test_what_may_be_the_projects_own_is_left_to_it(client: Client) -> None:
    for path in ("/register", "/authorize", "/token"):
        answer = client.post(path)

        assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
