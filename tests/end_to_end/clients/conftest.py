from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.node import NPMMissing
from tests.conftest import is_listening, need
from tests.end_to_end.clients.clients import CLIENTS, Conversations, RealClient, Report, job
from tests.end_to_end.clients.serving import Desk, serve_desk

#: Two of each client, and some for other tests.
TICKETS = 2 * len(CLIENTS) + 10


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The desk in a process, and in a second one too where Redis carries push between them."""
    with serve_desk(tmp_path_factory.mktemp("desk"), redis=is_listening(6379), tickets=TICKETS) as served:
        yield served


@pytest.fixture(scope="session")
def conversations(request: pytest.FixtureRequest, desk: Desk) -> Iterator[Conversations]:
    """The conversations that the tests of this run want, all begun."""
    calls = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted = {params["real_client"] for params in calls if "real_client" in params}
    begun = Conversations({client: job(desk, client) for client in sorted(wanted, key=CLIENTS.index)})
    yield begun
    begun.close()


@pytest.fixture
def report(real_client: RealClient, conversations: Conversations) -> Report:
    """What the client saw in its conversation."""
    return report_of(real_client, conversations)


def report_of(client: RealClient, conversations: Conversations) -> Report:
    try:
        return conversations.report(client)
    except NPMMissing:
        need(False, "npm")
        raise
