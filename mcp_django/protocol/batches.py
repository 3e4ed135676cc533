"""Several messages in one, as old revisions have them (2025-03-26 basic#batching)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.protocol.envelope import claims_modern
from mcp_django.protocol.errors import InvalidRequest, LimitExceeded
from mcp_django.protocol.jsonrpc import (
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
    encode,
    error_message,
    parse,
)
from mcp_django.protocol.revisions import BATCH_REVISIONS, LEGACY

#: Of one batch. Clients of the revisions that have batches send a few messages in one, if any.
MAX_MESSAGES = 50


class Batch:
    """A batch of a session of ``revision``, and the encoded answers to it: one message, of at most ``limit`` bytes.

    Raises InvalidRequest and LimitExceeded where the batch as a whole may not be answered.
    """

    def __init__(self, members: list[Any], revision: str | None, limit: int) -> None:
        _check(members, revision)
        self._members = members
        self._limit = min(limit, get_conf().MAX_RESULT_BYTES)
        self._answers: list[bytes] = []
        self._size = 0

    def requests(self, receive: Callable[[Notification | Response], None]) -> Iterator[Request]:
        """The requests, to be answered one after the other. ``receive`` takes the messages that want no answer."""
        for member in self._members:
            try:
                message = parse(member)
            except Malformed as malformed:
                self.add(encode(error_message(malformed.request_id, malformed.error, LEGACY)))
                continue
            if isinstance(message, Request):
                yield message
            else:
                receive(message)

    def add(self, answer: bytes, request_id: RequestId | None = None) -> None:
        """Add one answer. An error takes the place of an answer that would make the whole too large."""
        if self._size + len(answer) > self._limit:
            left_out = LimitExceeded(
                "The request was done, but its answer is left out: the answers of the batch are larger than "
                f"{self._limit} bytes together (MAX_RESULT_BYTES)."
            )
            answer = encode(error_message(request_id, left_out, LEGACY))
        self._answers.append(answer)
        self._size += len(answer) + 1

    @property
    def body(self) -> bytes:
        """The array of the answers, in the order of their requests; empty, if there is none."""
        return b"[" + b",".join(self._answers) + b"]" if self._answers else b""


def _check(members: list[Any], revision: str | None) -> None:
    if revision not in BATCH_REVISIONS:
        raise InvalidRequest(f"Send one message at a time: {revision or 'an unopened session'} knows no batches.")
    if not members:
        raise InvalidRequest("A batch must not be empty.")
    if len(members) > MAX_MESSAGES:
        raise LimitExceeded(f"A batch may hold at most {MAX_MESSAGES} messages.")
    for member in members:
        if not isinstance(member, dict):
            continue  # Answered by itself.
        params = member.get("params")
        if member.get("method") == "initialize":
            raise InvalidRequest("initialize must not be part of a batch.")
        if isinstance(params, dict) and claims_modern(params):
            raise InvalidRequest("A message with a modern _meta must not be part of a batch.")
