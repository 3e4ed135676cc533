"""A client that polls."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from tests.support import schemas
from tests.support.http import Answered, HTTPPeer
from tests.support.peers import Message
from tests.support.talking import in_session

REVISION = "2025-11-25"


class Polling:
    """Polls for the session of a peer, and acknowledges what it gets."""

    def __init__(self, peer: HTTPPeer, revision: str = REVISION) -> None:
        self.peer = peer
        self.revision = revision
        self.last_id = ""

    def send(self, wait: int | None = 30, **headers: str) -> Answered:
        """One poll, which acknowledges what the last one brought."""
        prefer = {} if wait is None else {"Prefer": f"wait={wait}"}
        last = {"Last-Event-ID": self.last_id} if self.last_id else {}
        given = {"Accept": "application/json", **in_session(self.peer, self.revision), **prefer, **last, **headers}
        return self.peer.http("GET", headers=given)

    def take(self, answer: Answered) -> list[Message]:
        """The messages of an answer, which the next poll acknowledges."""
        if answer.status == 204:
            assert answer.body == b""
            self.last_id = answer.headers["last-event-id"]
            return []
        assert answer.status == 200, answer
        messages: list[Message] = answer.json
        for message in messages:
            schemas.check(message, self.revision, None if "id" in message else "subscriptions/listen")
        key, _, number = answer.headers["last-event-id"].rpartition("-")
        last_key, _, last_number = self.last_id.rpartition("-")
        # What was acknowledged never comes again.
        assert key != last_key or int(number) >= int(last_number) + len(messages)
        self.last_id = answer.headers["last-event-id"]
        return messages

    def next(self, wait: int = 30) -> list[Message]:
        return self.take(self.send(wait))

    def uris(self, wait: int = 30) -> list[str]:
        """The resources that the next answer says have changed, in its order."""
        return [message["params"]["uri"] for message in self.next(wait)]

    def begin(self, wait: int = 50, **headers: str) -> Future[Answered]:
        """A poll that waits in the background."""
        return in_background(lambda: self.send(wait, **headers))


def in_background(work: Callable[[], Any]) -> Future[Any]:
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - raised where the result is asked for
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done
