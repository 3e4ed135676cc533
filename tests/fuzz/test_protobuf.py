"""Bytes that are nearly a message in Protobuf, over HTTP and over gRPC."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_django.transports.http.formats import PROTOBUF_TYPE
from tests.fuzz import oracle
from tests.fuzz.entry_points import Sending, authorization
from tests.fuzz.jsontext import write
from tests.fuzz.profile import fuzz
from tests.fuzz.seeds import World, http_headers, messages
from tests.fuzz.served import Served
from tests.fuzz.talking import Talk
from tests.fuzz.test_http import Draw, spoilt_bytes
from tests.fuzz.wires import packed, unpacked
from tests.support.base import LEGACY, MODERN, REVISIONS

pytestmark = pytest.mark.slow


@st.composite
def spoilt(draw: Draw, world: World, revision: str) -> tuple[object, bytes]:
    """A message of a client, and bytes that are nearly the same message in Protobuf."""
    message = draw(messages(world, revision))
    body = packed(write(message))
    for _ in range(draw(st.integers(0, 3))):
        # A bit that is another one: another field, another type, another length.
        place, bit = draw(st.integers(0, max(0, len(body) - 1))), draw(st.integers(0, 7))
        body = body[:place] + bytes(byte ^ (1 << bit) for byte in body[place : place + 1]) + body[place + 1 :]
    return message, draw(spoilt_bytes(body))


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_any_bytes_over_http_are_answered_as_the_protocol_has_it(served: Served) -> None:
    """The answer is asked for as JSON: each direction has a format of its own."""
    world = served.world

    @fuzz(60)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        served.open_sessions()
        revision = data.draw(st.sampled_from(REVISIONS))
        message, body = data.draw(spoilt(world, revision))
        token = world.tokens[data.draw(st.sampled_from(["admin", "admin", "viewer", "none"]))]
        headers = [*authorization(token), ("Accept", "application/json, text/event-stream")]
        headers += http_headers(message, revision, world).items()
        sending = Sending(headers=[*headers, ("Content-Type", PROTOBUF_TYPE)], body=body)

        got = served.entry.send(sending)

        assert got is not None
        read = unpacked(body)
        got.heard = b"no message" if read is None else read
        oracle.check_http(replace(sending, body=got.heard), got, served.sessions)
        served.assert_unharmed()

    run()


@pytest.mark.parametrize("transport", ["grpc"])
def test_any_bytes_over_grpc_are_answered_as_the_protocol_has_it(served: Served) -> None:
    world = served.world

    @fuzz(60)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        revision = data.draw(st.sampled_from([None, *LEGACY, MODERN]))
        with Talk(served.connect("admin"), revision) as talk:
            for _ in range(data.draw(st.integers(1, 4))):
                talk.say(data.draw(spoilt(world, revision or MODERN))[1])
                if talk.closed is not None:
                    break

        served.assert_unharmed()

    run()
