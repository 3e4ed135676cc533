"""Bad input to the opening of a socket, and a socket on which nothing else comes."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz import oracle
from tests.fuzz.entry_points import Frames, authorization
from tests.fuzz.profile import fuzz
from tests.fuzz.reading import Sent
from tests.fuzz.served import Served
from tests.fuzz.talking import Talk
from tests.fuzz.test_http import LATIN, VALUES, spoilt_headers

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("transport", ["websocket"])]

_POLICY = 1008
_OFFERS = [[], ["mcp"], ["mcp", "x"], ["x"], [""], ["MCP"], ["mcp", "mcp"]]


def test_a_client_that_sends_nothing_but_faults_is_shown_out(served: Served) -> None:
    with Talk(served.connect("admin"), None) as talk:
        for _ in range(10):
            talk.line.put("{")
            assert talk.answer()["error"]["code"] == -32700

        assert talk.answer() is None
        assert talk.closed == _POLICY
    served.assert_unharmed()


def test_any_upgrade_is_taken_or_refused_with_json(served: Served) -> None:
    world = served.world

    @fuzz(80)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        token = world.tokens[data.draw(st.sampled_from(["admin", "admin", "viewer", "unknown", "none"]))]
        others = [[], [("Cookie", "sessionid=x")], [("Authorization", "Basic OnBhc3M=")]]
        start = data.draw(st.sampled_from([authorization(token), *others]))
        headers = data.draw(spoilt_headers(start, most=4))
        offered = data.draw(st.one_of(st.sampled_from(_OFFERS), st.lists(st.one_of(VALUES, LATIN), max_size=2)))

        upgrade = Frames(served.application, served.loop, headers, offered)

        if upgrade.accepted:
            assert upgrade.opened.get("subprotocol") == ("mcp" if offered else None)
            upgrade.leave()
        else:
            assert upgrade.opened["type"] == "websocket.http.response.start", upgrade.opened
            _check_refusal(upgrade)
        served.assert_unharmed()

    run()


def _check_refusal(upgrade: Frames) -> None:
    status, headers = upgrade.opened["status"], dict(upgrade.opened["headers"])
    message = json.loads(upgrade.opened["content"])
    assert status in (400, 401, 403), upgrade.opened
    assert headers[b"content-type"] == b"application/json"
    assert int(headers[b"content-length"]) == len(upgrade.opened["content"])
    assert (status == 401) == (b"www-authenticate" in headers)
    oracle.check_text(upgrade.opened["content"].decode(), str(upgrade.scope))
    oracle.check_answer(Sent("malformed"), message, "2025-11-25")
