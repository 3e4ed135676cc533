"""Talking on a connection on which both sides speak: any frames or lines, and everything that comes back, judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Protocol

from hypothesis import strategies as st

from mcp_django.protocol.batches import MAX_MESSAGES
from tests.fuzz import oracle
from tests.fuzz.jsontext import write
from tests.fuzz.mutations import values
from tests.fuzz.reading import Sent, member, refuses_batch
from tests.fuzz.seeds import CAPABILITIES, World, messages
from tests.support import schemas
from tests.support.base import LEGACY, MODERN, Message

Draw = Callable[[st.SearchStrategy[Any]], Any]


class Line(Protocol):
    """A connection under test."""

    def put(self, *frames: str | bytes) -> None:
        """Send frames, one close upon the other."""

    def next(self, seconds: float = 60) -> Message:
        """What the server says next: ``{"text": ...}``, or ``{"code": ...}`` where it closes the connection."""

    def read(self, frame: str | bytes) -> Sent | int | None:
        """What a frame says; the close code, if it ends the connection; None if it is passed over."""

    def leave(self) -> None:
        """The client is gone."""


class Talk:
    """A connection that is talked on."""

    def __init__(self, line: Line, revision: str | None, reply: Message | None = None) -> None:
        self.revision = revision
        #: What is said to every question of the server's; None where it is left open.
        self.reply = reply
        self.closed: int | None = None
        self.line = line
        self._probes = 0
        self._said = ""
        if revision in LEGACY:
            given = {"protocolVersion": revision, "capabilities": CAPABILITIES[1]}
            given["clientInfo"] = {"name": "fuzz", "version": "1"}
            self.line.put(json.dumps({"jsonrpc": "2.0", "id": "opening", "method": "initialize", "params": given}))
            try:
                assert self.answer()["result"]["protocolVersion"] == revision
            except BaseException:
                self.line.leave()
                raise

    def say(self, frame: str | bytes) -> None:
        """Send a frame and hear what is said to it, if anything is to be."""
        self.line.put(frame)
        self._said += str(frame)
        sent = self.line.read(frame)
        if isinstance(sent, int):
            assert self.answer() is None
            assert self.closed == sent
            return
        if sent is None:
            sent = Sent("notification")
        if self._is_answered(sent):
            self._judge(sent, self.answer())
        self._probes += 1
        probe = f"probe {self._probes}"
        self.line.put(json.dumps({"jsonrpc": "2.0", "id": probe, "method": "ping"}))
        while (answer := self.answer()) != {"jsonrpc": "2.0", "id": probe, "result": {}}:
            # Where it cannot be said from outside whether a frame is JSON, one answer more may come.
            assert sent.doubtful, (sent, answer)
            self._judge(sent, answer)

    def _is_answered(self, sent: Sent) -> bool:
        if sent.kind != "batch":
            return sent.kind in ("request", "malformed", "no json")
        if self.revision not in ("2024-11-05", "2025-03-26") or not 0 < len(sent.value) <= MAX_MESSAGES:
            return True
        return any(member(one).kind in ("request", "malformed") or refuses_batch(one) for one in sent.value)

    def _judge(self, sent: Sent, answer: Any) -> None:
        assert answer is not None, (sent, self.closed)
        if "method" in answer:
            assert sent.method == "subscriptions/listen" and sent.is_modern, (sent, answer)
            tag = answer["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
            assert oracle.same(tag, sent.id), (sent, answer)
            return
        legacy = self.revision if self.revision in LEGACY else "2025-11-25"
        revision = MODERN if sent.is_modern else legacy
        if sent.method == "initialize" and not sent.is_modern and "result" in answer:
            assert self.revision not in LEGACY
            self.revision = answer["result"]["protocolVersion"]
        oracle.check_answer(sent, answer, revision)

    def answer(self) -> Any:
        """The next answer or acknowledgement, None where the connection is closed. Notifications before are judged."""
        while True:
            message = self.line.next()
            if "text" not in message:
                self.closed = message["code"]
                return None
            oracle.check_text(message["text"], self._said)
            value = json.loads(message["text"])
            if not isinstance(value, dict) or "method" not in value:
                return value
            if "id" in value and self.reply is not None:
                self.line.put(json.dumps({"jsonrpc": "2.0", "id": value["id"], **self.reply}))
            self._check_notice(value)
            if value["method"] == "notifications/subscriptions/acknowledged":
                return value

    def _check_notice(self, notice: Message) -> None:
        envelope = notice.get("params", {}).get("_meta", {})
        modern = "io.modelcontextprotocol/subscriptionId" in envelope
        schemas.check(notice, MODERN if modern else self.revision or MODERN)

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self.line.leave()


@st.composite
def frames(draw: Draw, world: World, revision: str) -> str | bytes:
    """A frame: as a rule a message, as a rule in text."""
    text = write(draw(messages(world, revision)), escaped=draw(st.booleans()))
    match draw(st.sampled_from(["as it is"] * 12 + ["cut", "inside", "after", "bytes", "blank", "long", "json"])):
        case "cut":
            return text[: draw(st.integers(0, len(text)))]
        case "inside":
            place = draw(st.integers(0, len(text)))
            return text[:place] + draw(st.text(max_size=4)) + text[place + draw(st.integers(0, 4)) :]
        case "after":
            return text + draw(st.sampled_from(["\x00", "\n", "{}", "]", ",", "\ufeff", text]))
        case "bytes":
            return draw(st.sampled_from([b"", b"\xff", text.encode("utf-8", "replace")]))
        case "blank":
            return draw(st.sampled_from(["", " ", "\n", "\ufeff", "null", "[]", "{}"]))
        case "long":
            return text + " " * draw(st.sampled_from([20_000, 99_000, 100_001, 200_000]))
        case "json":
            return write(draw(values))
    return text


def sendable(frame: str | bytes) -> str | bytes:
    """The frame as a server hands it on: text that is not UTF-8 never gets that far (RFC 6455 §8.1)."""
    return frame if isinstance(frame, bytes) else frame.encode("utf-8", "replace").decode()
