"""Where clients look for a login that is not there."""

from __future__ import annotations

import pytest
from django.test import Client


@pytest.mark.parametrize("document", ["oauth-authorization-server", "openid-configuration"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_program_gets_a_404_that_it_can_read(client: Client, document: str, slash: str) -> None:
    answer = client.get(f"/.well-known/{document}/mcp{slash}", headers={"Origin": "https://app.example"})

    assert (answer.status_code, answer["Content-Type"]) == (404, "application/json")
    assert answer["Access-Control-Allow-Origin"] == "*"
    assert "Authorization: Bearer" in answer.json()["error_description"]


@pytest.mark.parametrize("path", ["/register", "/authorize", "/token"])
def test_what_may_be_the_projects_own_is_left_to_it(client: Client, path: str) -> None:
    answer = client.post(path)

    assert (answer.status_code, answer["Content-Type"]) == (404, "text/html; charset=utf-8")
