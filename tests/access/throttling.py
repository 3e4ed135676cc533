"""Callers with budgets, and a clock that stands still until a test moves it."""

from __future__ import annotations

import json
from itertools import count
from typing import Any

from django.test import override_settings

from mcp_django import site
from mcp_django.exchange.connection import Connection
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import from_settings
from mcp_django.models import AccessToken
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.jsonrpc import decode
from mcp_django.server.dispatch import Reply, respond
from tests.support import schemas
from tests.support.peers import MODERN, Message, meta

#: 12 seconds before a minute ends, and before a day ends too.
START = 1_796_169_588
TILL_END = 12
CANCEL = "flights_flight_mark_cancelled"

_ids = count(1)


class Clock:
    """The time of all limits."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now


class _NoConnection(Connection):
    push = False


class Caller:
    """A caller with a token and an address, who asks the dispatcher itself."""

    def __init__(
        self,
        user: Any,
        token: AccessToken | None = None,
        address: str = "",
        scopes: tuple[str, ...] = ("read", "actions"),
    ) -> None:
        self.principal = Principal(user, frozenset(scopes), token, None if token is None else token.pk)
        self.address = address

    def reply(self, method: str, params: Message | None = None, *, revision: str = MODERN) -> Reply:
        params = {**(params or {}), **({"_meta": meta()} if revision == MODERN else {})}
        request = from_settings()
        request.META["REMOTE_ADDR"] = self.address
        return respond(Exchange(
            site=site, principal=self.principal, revision=revision, method=method, params=decode(json.dumps(params)),
            request_id=next(_ids), client=Client(), connection=_NoConnection(),
            request=request.for_principal(self.principal),
        ))  # fmt: skip

    def ask(self, method: str = "prompts/list", params: Message | None = None, *, revision: str = MODERN) -> Message:
        message: Message = json.loads(self.reply(method, params, revision=revision).body)
        schemas.check(message, revision, method)
        return message

    def call(self, tool: str, **arguments: Any) -> Message:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def is_admitted(self, method: str = "prompts/list", params: Message | None = None) -> bool:
        return is_admitted(self.ask(method, params))

    def admitted(self, attempts: int) -> int:
        """How many of so many calls are answered."""
        return sum(self.is_admitted() for _ in range(attempts))


def is_admitted(message: Message) -> bool:
    return bool(message.get("error", {}).get("data", {}).get("reason") != "THROTTLED")


def limits(**subjects: Any) -> Any:
    """The setting THROTTLES, and more settings in upper case."""
    more = {name: subjects.pop(name) for name in list(subjects) if name.isupper()}
    return override_settings(MCP={"THROTTLES": subjects, "SWEEP_SECONDS": 0.2, **more})
