"""Each operation answers an agent as it answers its user over HTTP: the same status, rows and fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from mcp_django import expose
from mcp_django import site as default_site
from mcp_django.bridge.sites import MCPSite
from mcp_django.protocol.types import JSON
from mcp_django.test import MCPClient
from tests.api.comparing import by_tool, difference, operation_of, over_http, rolled_back
from tests.api.ninja_project import requests as of_workshop
from tests.api.project import requests as of_shop
from tests.projects import differences
from tests.projects.apis.known import wrong_lines
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peers, WSGIPeer
from tests.support.restoring import put_back

CALLERS = ["anna", "anonymous", "otto", "stella"]
SCOPES = ["read", "write"]
#: ``CALLER METHOD path note: difference -- reason``, with ``*`` for any text, and for each caller.
_KNOWN_OF_SHOP = Path(__file__).with_name("shop_differences.txt")
_KNOWN_OF_WORKSHOP = Path(__file__).with_name("ninja_differences.txt")


@pytest.mark.every_database
@pytest.mark.parametrize("caller", CALLERS)
def test_an_agent_gets_what_its_user_gets_over_http(
    caller: str, shop: SimpleNamespace, settings: Any, declared: Declared
) -> None:
    found = _compared(_calls_of(shop, of_shop.CASES), caller, _KNOWN_OF_SHOP, shop, settings, declared)

    assert not found, "\n" + "\n".join(found)


@pytest.mark.more("one handler is enough for each landing")
@pytest.mark.parametrize("transport", ["http-view-asgi"])
@pytest.mark.parametrize("caller", CALLERS)
def test_an_agent_gets_the_same_under_asgi(
    caller: str, shop: SimpleNamespace, transactional_db: None, settings: Any, declared: Declared, peers: Peers
) -> None:
    """Threads of the server have transactions of their own there, which the test cannot roll back."""
    calls = _calls_of(shop, of_shop.CASES)

    found = _compared(calls, caller, _KNOWN_OF_SHOP, shop, settings, declared, peers, put_back)

    assert not found, "\n" + "\n".join(found)


@pytest.mark.every_database
@pytest.mark.parametrize("caller", CALLERS)
def test_an_agent_gets_what_its_user_gets_of_django_ninja(
    caller: str, workshop: SimpleNamespace, settings: Any, declared: Declared
) -> None:
    cases = [case for case in of_workshop.CASES if not case.headers]
    calls = [
        (case.path, case.path_of(workshop), case.query_of(workshop), partial(case.body_of, workshop), case)
        for case in cases
    ]

    found = _compared(calls, caller, _KNOWN_OF_WORKSHOP, workshop, settings, declared)

    assert not found, "\n" + "\n".join(found)


def _calls_of(rows: SimpleNamespace, cases: Iterable[Any]) -> list[Any]:
    taken = [case for case in cases if "with a format" not in case.note]
    return [
        (case.operation_path, case.path(rows), case.parameters(rows), partial(case.data, rows), case) for case in taken
    ]


def _compared(
    calls: list[Any],
    caller: str,
    known: Path,
    rows: SimpleNamespace,
    settings: Any,
    declared: Declared,
    peer_of: Callable[[str | None], Any] = WSGIPeer,
    taken_back: Callable[[], AbstractContextManager[None]] = rolled_back,
) -> list[str]:
    """How the calls differ that an agent makes from those over HTTP."""
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": SCOPES}
    user = getattr(rows, caller, None)
    _expose_all(declared)
    switch_on("change_api")
    expected_lines = [one for one in differences.read(known) if one.partition(" ")[0] in (caller, "*")]
    found, compared = [], 0
    with _Client(user, peer_of) as client:
        for name, path, query, body, case in calls:
            target = operation_of(default_site, path, case.method)
            if target is None:
                continue
            operation, values = target
            status, expected = over_http(user, partial(_send, path=path, query=query, body=body(), case=case))
            arguments = {"params": {**values, **query}, **_body(client, body())}
            outcome, got = by_tool(client, operation, arguments, taken_back)
            compared += 1
            if differs := difference(status, expected, outcome, got):
                found.append(f"{caller} {case.method} {name} {case.note}: {differs}")
    assert compared > 0.8 * len(calls)
    return wrong_lines(expected_lines, found, is_whole=True)


class _Client(MCPClient):
    """A client whose requests come to the endpoint by one of Django's handlers."""

    def __init__(self, user: Any, peer_of: Callable[[str | None], Any]) -> None:
        super().__init__(user, None if user is None else SCOPES)
        token = None if user is None else token_of(user, *SCOPES)
        self._peer, self._uploads = peer_of(token), peer_of(token)

    def request(self, method: str, params: JSON | None = None) -> JSON:
        found: JSON = self._peer.result(MODERN, method, params)
        return found

    def upload(self, content: bytes, name: str = "upload.txt", content_type: str = "") -> str:
        """Nobody without a token may upload."""
        self._uploads.path, self._uploads.query = "/mcp/upload", urlencode({"name": name})
        made = self._uploads.http("POST", content, {"Content-Type": content_type})
        assert made.status == (201 if self._uploads.token else 401)
        return str(made.json["uri"]) if made.status == 201 else "upload://of-nobody"


def _expose_all(declared: Declared) -> None:
    """Expose all of the API, also what the defaults leave out."""
    looked = MCPSite("looked")
    expose("api/", site=looked)
    names = [one.name for one in looked.api.all]
    declared.expose("api/", include=["*", *names], consent={"*": "preview"})


def _send(http: Any, path: str, query: Any, body: Any, case: Any) -> Any:
    url = quote(path) + (f"?{urlencode(query, doseq=True)}" if query else "")
    if case.method == "GET":
        return http.get(url)
    send = getattr(http, case.method.lower())
    if case.format == "form":
        return send(url, data=urlencode(body or {}, doseq=True), content_type="application/x-www-form-urlencoded")
    return send(url, data=body, format=case.format)


def _body(client: MCPClient, body: Any) -> dict[str, Any]:
    """The body as an agent gives it: a file is uploaded first."""
    if body is None:
        return {}
    if isinstance(body, dict):
        body = {name: _uploaded(client, one) for name, one in body.items()}
    return {"body": body}


def _uploaded(client: MCPClient, value: Any) -> Any:
    if isinstance(value, list):
        return [_uploaded(client, one) for one in value]
    return client.upload(value.read(), value.name, value.content_type) if hasattr(value, "read") else value
