"""A project without the app mcp_django.oauth: a client that looks for a login is told how to get a token."""

from __future__ import annotations

import json
from typing import Any

from tests.push.processes import ROOT, environment
from tests.support import forkserver

DOCUMENTS = ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration")
PATHS = [f"/.well-known/{document}/mcp{slash}" for document in DOCUMENTS for slash in ("", "/")]

#: Writes what a client is answered by the documents and by the endpoint. Nothing of it reads the database.
_ASK = f"""
import json
from django.conf import settings
settings.INSTALLED_APPS.remove("mcp_django.oauth")
import django
django.setup()
from django.test import Client
client = Client(headers={{"Host": "localhost", "Accept": "application/json, text/event-stream"}})
ping = {{"jsonrpc": "2.0", "id": 1, "method": "ping"}}
answers = {{path: client.get(path) for path in {PATHS}}}
answers["/mcp"] = client.post("/mcp", ping, content_type="application/json")
print(json.dumps({{path: [one.status_code, dict(one.headers), one.content.decode()] for path, one in answers.items()}}))
"""


def test_a_program_gets_a_404_that_it_can_read_and_the_endpoint_says_who_makes_tokens() -> None:
    done = forkserver.run(["-c", _ASK], cwd=ROOT, env=environment(""))
    assert done.returncode == 0, done.stderr
    answers: dict[str, Any] = json.loads(done.stdout)

    status, headers, body = answers.pop("/mcp")
    assert (status, headers["WWW-Authenticate"]) == (401, 'Bearer realm="mcp"')  # It names no document.
    assert json.loads(body)["error"]["message"] == (
        "Credentials are needed: send Authorization: Bearer <token>. An administrator makes tokens."
    )
    assert list(answers) == PATHS
    for status, headers, body in answers.values():
        assert (status, headers["Content-Type"]) == (404, "application/json")
        assert headers["Access-Control-Allow-Origin"] == "*"
        assert json.loads(body) == {
            "error": "not_found",
            "error_description": "There is no such document. Send Authorization: Bearer <token>; an administrator of "
            "this site makes tokens.",
        }
