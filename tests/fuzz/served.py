"""The server under test, and the proof after each example that it is as it was."""

from __future__ import annotations

import gc
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mcp_django import site
from mcp_django.exchange.principals import Principal, Source
from mcp_django.models import AccessToken, Session, WatchedResource, digest
from tests.axes import OVER_HTTP
from tests.fuzz import footprint, oracle
from tests.fuzz.entry_points import (
    ASGIEntry,
    Entry,
    Frames,
    Got,
    Lines,
    Sending,
    WSGIEntry,
    authorization,
    discover,
    ping,
)
from tests.fuzz.limits import LIMITS
from tests.fuzz.seeds import CAPABILITIES, World
from tests.fuzz.wires import GRPCService, Messages
from tests.support.base import LEGACY, MODERN
from tests.support.loop import LoopThread


@dataclass
class Served:
    """A server behind one transport."""

    transport: str
    world: World
    loop: LoopThread
    log: pytest.LogCaptureFixture
    application: Any = None
    entry: Entry = field(init=False)
    before: footprint.Footprint = field(init=False)
    #: What every client is answered while nothing is wrong.
    healthy: list[Any] = field(init=False)
    grpc: GRPCService | None = None
    #: Revision of each session that was opened for the fuzzer.
    sessions: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.transport == "grpc":
            self.grpc = GRPCService(self.loop)
        is_wsgi = self.transport == "http-view-wsgi"
        self.entry = WSGIEntry() if is_wsgi else ASGIEntry(self.application, self.loop)
        self.healthy = self._probe()
        assert all("result" in message for message in self.healthy), self.healthy
        self.before = footprint.settled(self.loop)

    def _probe(self) -> list[Any]:
        token = self.world.tokens["admin"]
        if self.transport in OVER_HTTP:
            return [self._ask(ping(token)), self._ask(discover(token))]
        line = self.connect("admin")
        try:
            answers = []
            for sending in (ping(token), discover(token)):
                line.put(sending.body.decode())
                answers.append(json.loads(line.next()["text"]))
        finally:
            line.leave()
        return answers

    def _ask(self, sending: Sending) -> Any:
        got = self.entry.send(sending)
        assert got is not None and got.status == 200, got
        return json.loads(got.body)

    def connect(self, who: str) -> Frames | Lines | Messages:
        """A new connection of somebody's, where both sides speak."""
        token = self.world.tokens[who]
        if self.grpc is not None:
            return self.grpc.connect(token)
        if self.transport == "stdio":
            found = AccessToken.objects.select_related("user").get(hash=digest(str(token)))
            principal = Principal(found.user, frozenset(found.scopes), source=Source.COMMAND)
            return Lines(site, principal, self.loop)
        return Frames(self.application, self.loop, authorization(token), ["mcp"])

    def send(self, sending: Sending) -> Got | None:
        """Send and judge one HTTP request."""
        got = self.entry.send(sending)
        if got is not None:
            oracle.check_http(sending, got, self.sessions)
        return got

    def open_sessions(self) -> None:
        """A live session in each legacy revision, which an example before may have ended."""
        live = set(Session.objects.filter(pk__in=list(self.world.sessions.values())).values_list("pk", flat=True))
        for revision in LEGACY:
            if self.world.sessions.get(revision) not in live:
                self.world.sessions[revision] = self._open_session(revision)
                self.sessions[self.world.sessions[revision]] = revision

    def _open_session(self, revision: str) -> str:
        given = {
            "protocolVersion": revision,
            "capabilities": CAPABILITIES[1],
            "clientInfo": {"name": "fuzz", "version": "1"},
        }
        sending = ping(self.world.tokens["admin"])
        sending.body = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": given}).encode()
        got = self.entry.send(sending)
        assert got is not None and got.status == 200, got
        return got.headers["mcp-session-id"]

    def assert_unharmed(self) -> None:
        """Others are served as before, nothing is held that was not, and nothing failed unseen."""
        answers = self._probe()
        assert answers == self.healthy, answers
        before, now = self.before, footprint.settle(self.before, self.loop)
        if now != before:
            # What an example has left behind does not count against those after it.
            self.before = footprint.settled(self.loop)
        assert now == before, (before, now, footprint.tasks(self.loop))
        self.assert_log_is_clean()

    def assert_log_is_clean(self) -> None:
        loud = [record for record in self.log.records if record.levelno >= logging.ERROR]
        assert not loud, [f"{record.name}: {record.getMessage()} {record.exc_text or ''}" for record in loud]
        self.log.clear()

    def assert_bounded(self) -> None:
        """At the end: what is stored stays within its settings, and no task was lost."""
        owners = Session.objects.values_list("principal_key", flat=True).distinct().count()
        assert Session.objects.count() <= owners * LIMITS["MAX_SESSIONS"]
        assert WatchedResource.objects.count() <= Session.objects.count() * LIMITS["MAX_SUBSCRIPTIONS"]
        gc.collect()
        self.assert_log_is_clean()

    def close(self) -> None:
        if self.grpc is not None:
            self.grpc.close()


def cursors_of(ask: Callable[[str, str, Any], Any]) -> list[str]:
    """Cursors of real pages."""
    found = [ask(MODERN, method, {}).get("nextCursor") for method in ("tools/list", "resources/list")]
    for model in ("flights.flight", "flights.airport"):
        page = ask(MODERN, "tools/call", {"name": "find_records", "arguments": {"model": model, "limit": 1}})
        found.append(page["structuredContent"].get("next_cursor"))
    return [cursor for cursor in found if cursor]
