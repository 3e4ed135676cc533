"""Requests of a user without a transport, in the test's own thread and transaction."""

from __future__ import annotations

import json
from typing import Any

from django.db import models

from mcp_django import MCPSite, site
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading import rows
from mcp_django.exchange.connection import Connection
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_settings
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.jsonrpc import decode
from mcp_django.server.dispatch import respond
from tests.support import schemas
from tests.support.peers import MODERN, Message, Peer, Watching, meta


class _NoConnection(Connection):
    push = False
    reads_anew = True


class DirectPeer(Peer):
    """A user who calls the dispatcher itself, for tests that do not depend on the transport."""

    push = False

    def __init__(self, user: Any, *scopes: str, site: MCPSite = site) -> None:
        super().__init__(None)
        self.user = user
        self.scopes = scopes
        self.site = site

    def request(self, revision: str, method: str, params: Message | None = None) -> Message:
        params = {**(params or {}), **({"_meta": meta()} if revision == MODERN else {})}
        request = request_of(self.user, *self.scopes)
        exchange = Exchange(
            site=self.site, principal=request.mcp.principal, revision=revision, method=method,
            params=decode(json.dumps(params)), request_id=next(self.ids), client=Client(),
            connection=_NoConnection(), request=request,
        )  # fmt: skip
        message: Message = json.loads(respond(exchange).body)
        schemas.check(message, revision, method)
        return message

    def watch(self, revision: str, uris: list[str], *, tools: bool = False, prompts: bool = False) -> Watching:
        raise NotImplementedError("there is no connection")

    def close(self) -> None:
        pass


def request_of(user: Any, *scopes: str) -> MCPRequest:
    """A request of the user; with all scopes, if none is named."""
    return from_settings().for_principal(Principal(user, frozenset(scopes or ("read", "actions"))))


def rights_on(model: type[models.Model], user: Any) -> ModelRights:
    """The user's rights on the model. The test fails if there are none."""
    rights = Rights(site, request_of(user)).of_model(model)
    assert rights is not None
    return rights


def all_rows(model: type[models.Model], user: Any, *, watched: bool = False, **asked: Any) -> list[list[Any]]:
    """The rows of all pages, in order. Each page takes a request. ``watched``: see ``rows.find``."""
    found: list[list[Any]] = []
    cursor = None
    while True:
        page = rows.find(rights_on(model, user), rows.RecordQuery(**asked, cursor=cursor), watched=watched)
        found += page.rows
        assert len(found) < 10_000, "the pages do not end"
        if page.next_cursor is None:
            return found
        assert page.rows
        cursor = page.next_cursor


def errors_of(result: Any) -> list[dict[str, Any]]:
    """The entries for wrong arguments in a result with ``isError``."""
    assert result["isError"] is True, result
    errors: list[dict[str, Any]] = json.loads(result["content"][0]["text"])["errors"]
    return errors


def text_of(result: Any) -> str:
    """The text of a result that is one block of text; the words of a refusal that lists nothing else."""
    [block] = result["content"]
    assert block["type"] == "text"
    return words_of(block["text"]) if result.get("isError") else block["text"]


def words_of(text: str) -> str:
    """The words of a refusal that lists no wrong arguments; any other text as it is."""
    refused: dict[str, Any] = json.loads(text) if text.startswith('{"error":') else {"errors": [text]}
    return text if refused["errors"] else str(refused["error"])


def columns(peer: DirectPeer, model: str = "flights.flight") -> list[str]:
    """The names of the columns that the peer gets."""
    names: list[str] = peer.call("find_records", model=model)["structuredContent"]["columns"]
    return names


def keys(peer: DirectPeer, model: str = "flights.flight", **asked: Any) -> list[Any]:
    """The keys of the rows that the peer finds."""
    result = peer.call("find_records", model=model, **asked)
    return [row[0] for row in result["structuredContent"]["rows"]]


def described(peer: DirectPeer, model: str = "flights.flight") -> Any:
    """The description of a model by describe_models."""
    return peer.call("describe_models", model=model)["structuredContent"]


def listed(peer: Peer, name: str) -> Any:
    """A tool as tools/list has it."""
    [tool] = [tool for tool in peer.result(MODERN, "tools/list")["tools"] if tool["name"] == name]
    return tool
