"""Bad input where both sides speak on one connection, a socket or the pipes of stdio: one by one, and all at once."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.axes import DUPLEX
from tests.fuzz import oracle
from tests.fuzz.jsontext import write
from tests.fuzz.profile import fuzz
from tests.fuzz.seeds import replies, requests
from tests.fuzz.served import Served
from tests.fuzz.talking import Talk, frames, sendable
from tests.support.base import LEGACY, MODERN

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("transport", [*DUPLEX, "grpc"])]


def test_any_frame_is_answered_as_the_protocol_has_it(served: Served) -> None:
    world = served.world

    @fuzz(80)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        revision = data.draw(st.sampled_from([None, *LEGACY, MODERN]))
        who = data.draw(st.sampled_from(["admin", "admin", "viewer", "ops"]))
        reply = data.draw(replies)
        with Talk(served.connect(who), revision, reply) as talk:
            for _ in range(data.draw(st.integers(1, 4))):
                spoken = data.draw(st.sampled_from([revision or MODERN] * 4 + [MODERN, "2025-06-18"]))
                talk.say(sendable(data.draw(frames(world, spoken))))
                if talk.closed is not None:
                    break

        served.assert_unharmed()

    run()


def test_frames_that_come_all_at_once_leave_nothing_behind(served: Served) -> None:
    world = served.world

    @fuzz(30)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        revision = data.draw(st.sampled_from([*LEGACY, MODERN, MODERN]))
        cancel = st.sampled_from([1, 0, "1", "x"]).map(
            lambda one: {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": one}}
        )
        one = requests(world, revision)
        sent = data.draw(st.lists(st.one_of(one, one, cancel), min_size=1, max_size=14))
        ids = [message["id"] for message in sent if "id" in message]
        heard = data.draw(st.integers(0, len(sent)))
        with Talk(served.connect("admin"), revision) as talk:
            talk.line.put(*(write(message) for message in sent))
            for _ in range(heard):
                try:
                    message = talk.line.next(0.2)
                except TimeoutError:
                    break  # Cancelled requests and notifications have no answer.
                oracle.check_text(message["text"], str(sent))
                value = json.loads(message["text"])
                if "method" in value:
                    continue
                if "id" in value:
                    ids.remove(value["id"])
                else:
                    assert value["error"]["data"]["reason"] in ("PARSE_ERROR", "INVALID_REQUEST", "LIMIT_EXCEEDED")

        served.assert_unharmed()

    run()
