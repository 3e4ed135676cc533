"""Results of some megabytes, through official clients, of which many give up a stream or a socket that sends 1 MiB."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256

import pytest

from tests.end_to_end.clients.clients import CLIENTS, Conversations, RealClient, job
from tests.end_to_end.clients.conftest import report_of
from tests.end_to_end.clients.serving import serve_desk

SIZE = 5_000_000
LINES = 100_000
LETTER = sha256(b"abcdefghij" * (SIZE // 10)).hexdigest()
LEDGER = sha256(json.dumps({"lines": ["abcdefghij"] * LINES}, separators=(",", ":")).encode()).hexdigest()
REFUSAL = sha256(
    b'{"error":"The answer would be larger than the 900000 bytes that a message of this connection may have. Ask for '
    b'less, or ask over HTTP and without a progress token.","errors":[]}'
).hexdigest()
CALLS = {
    "plain": ["letter", {"size": SIZE}],
    "streamed": ["letter", {"size": SIZE, "steps": 2}],
    "structured": ["ledger", {"lines": LINES}],
    "structured and streamed": ["ledger", {"lines": LINES, "steps": 2}],
}

#: One of each SDK and transport; those that differ in the revision alone say nothing new.
WANTED = ("1.6.0-sse", "1.30.0-websocket", "1-websocket", "2-http-auto", "2-stdio-auto")
RECEIVING = tuple(client for client in CLIENTS if str(client).endswith(WANTED))

pytestmark = [pytest.mark.more("one more client"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Conversations]:
    """Conversations with the desk of a project that lets an answer be 8 MB long."""
    folder = tmp_path_factory.mktemp("desk")
    with serve_desk(folder, redis=False, max_result_bytes="8000000") as desk:
        begun = Conversations({client: job(desk, client, "large", calls=CALLS) for client in RECEIVING})
        yield begun
        begun.close()


@pytest.mark.parametrize("real_client", RECEIVING, ids=str)
def test_a_result_of_5_mb_comes_whole_or_as_an_error_that_says_how_to_ask_for_less(
    real_client: RealClient, receiving: Conversations
) -> None:
    report = report_of(real_client, receiving)

    whole = {"plain": [False, LETTER], "structured": [False, LEDGER]}
    whole_streams = {"streamed": [False, LETTER], "structured and streamed": [False, LEDGER]}
    refused = {name: [True, REFUSAL] for name in whole}
    refused_streams = {name: [True, REFUSAL] for name in whole_streams}
    expected = {
        "stdio": {**whole, **whole_streams},
        "http": {**whole, **refused_streams},
        "sse": {**refused, **refused_streams},
        "websocket": {**refused, **refused_streams},
    }
    assert report == expected[real_client.transport]
