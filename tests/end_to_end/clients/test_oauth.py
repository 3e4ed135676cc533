"""Real clients log in, from nothing but the URL: the official SDKs, mcp-remote and the MCP Inspector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.node import NPMMissing
from tests.conftest import need
from tests.end_to_end.clients.logging_in import ANSWER, KINDS, SDKS, STEPPING_UP, Kind, Remote, Site, serve_site
from tests.end_to_end.servers import demo

pytestmark = [pytest.mark.more("one more client"), pytest.mark.timeout(900)]

#: What every client asks before it sends its person, and after that.
METADATA = ["GET /.well-known/oauth-protected-resource/mcp 200", "GET /.well-known/oauth-authorization-server 200"]
REGISTERED = "POST /mcp/register 201"
TOKEN = "POST /mcp/token 200"
REFUSED = "POST /mcp 401"
ANSWERED = "POST /mcp 200"


#: What another process changes holds at once, and all clients that come late have one address.
SETTINGS = """
MCP = {"TOKEN_CACHE_SECONDS": 0, "SWEEP_SECONDS": 0.2, "THROTTLES": {"address": {"failures": None, "logins": None}}}
"""


@dataclass(frozen=True)
class Seen:
    """A call: its text, how often the client had sent its person to the site for it, and what the server was asked."""

    text: str
    visits: int
    requests: list[str]


@pytest.fixture(scope="module")
def site(demo_folder: Path) -> Iterator[Site]:
    with serve_site(demo(demo_folder, SETTINGS)) as served:
        yield served


@pytest.fixture(scope="module")
def life(request: pytest.FixtureRequest, site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a client does from its first call on: by what has happened before each of its calls."""
    kind: Kind = request.param
    client = started(kind, site, tmp_path_factory.mktemp("home"))

    def call() -> Seen:
        site.requests()
        before = client.visits()
        return Seen(client.call(), client.visits() - before, site.requests())

    def late() -> None:
        site.expire_tokens()
        if kind in SDKS:
            client.order("late")

    def ended() -> None:
        site.end_grants()
        if isinstance(client, Remote):
            # A call of one that runs may fail: its stream begins to log in too, and both keep one verifier.
            client.restart()

    seen: dict[str, Any] = {"kind": kind}
    try:
        seen["nothing"] = call()
        seen["grant"] = site.grants()[0]
        for what, happens in {"hour": late, "restart": site.restart, "end": ended}.items():
            happens()
            seen[what] = call()
    finally:
        client.close()
    return seen


def started(kind: Kind, site: Site, home: Path) -> Any:
    try:
        return kind.start(site, home)
    except NPMMissing:
        need(False, "npm")
        raise


each_client = pytest.mark.parametrize("life", KINDS, ids=str, indirect=True)


@each_client
def test_a_person_logs_a_client_in_that_knows_nothing_but_the_url(life: dict[str, Any]) -> None:
    seen: Seen = life["nothing"]

    assert seen.text == ANSWER
    assert seen.visits == 1
    steps = [REFUSED, *METADATA, *([] if life["kind"].document else [REGISTERED]), TOKEN, ANSWERED]
    assert [one for one in steps if one in seen.requests] == steps
    assert (REGISTERED in seen.requests) is not bool(life["kind"].document)


@each_client
def test_the_grant_is_what_the_person_ticked(life: dict[str, Any], site: Site) -> None:
    user, name, host, scopes, declined, lent, resource, ended = life["grant"]

    assert (user, scopes, declined, lent) == ("ops", ["read"], ["actions", "write"], [])
    assert (resource, ended) == (site.url, "")
    assert host == ("claude.ai" if life["kind"].document else "")
    assert name


@each_client
def test_a_client_whose_hour_is_over_refreshes_and_asks_nobody(life: dict[str, Any]) -> None:
    seen: Seen = life["hour"]

    assert (seen.text, seen.visits) == (ANSWER, 0)
    assert seen.requests.count(TOKEN) == 1


@each_client
def test_a_restart_of_the_server_ends_no_login(life: dict[str, Any]) -> None:
    seen: Seen = life["restart"]

    assert (seen.text, seen.visits) == (ANSWER, 0)


@each_client
def test_a_client_that_was_disconnected_asks_its_person_to_log_in_again(life: dict[str, Any]) -> None:
    seen: Seen = life["end"]

    assert (seen.text, seen.visits) == (ANSWER, 1)


@pytest.fixture
def program(kind: Kind, site: Site, tmp_path: Path) -> Iterator[Any]:
    """A program of ours around an SDK, which has logged in and made a call."""
    made = started(kind, site, tmp_path)
    try:
        assert made.call() == ANSWER
        site.requests()
        yield made
    finally:
        made.close()


def let_an_hour_pass(site: Site, program: Any) -> None:
    site.expire_tokens()
    program.order("late")


each_sdk = pytest.mark.parametrize(
    "kind", [Kind("python", "auto"), Kind("typescript1"), Kind("typescript2", "auto")], ids=str
)


@each_sdk
def test_five_clients_with_one_refresh_token_refresh_at_once_and_go_on(program: Any, site: Site, kind: Kind) -> None:
    site.expire_tokens()

    texts = program.order("copies")

    assert texts == [ANSWER] * 5
    assert site.requests().count(TOKEN) == 5
    assert program.visits() == 1
    assert site.grants()[0][-1] == ""


@each_sdk
def test_a_client_that_has_kept_an_old_refresh_token_goes_on(program: Any, site: Site, kind: Kind) -> None:
    for _ in range(3):
        let_an_hour_pass(site, program)
        assert program.call() == ANSWER
        program.order("back")
    let_an_hour_pass(site, program)

    assert program.call() == ANSWER
    assert site.requests().count(TOKEN) == 4
    assert program.visits() == 1
    assert site.grants()[0][-1] == ""


@pytest.mark.parametrize("kind", [Kind("python", "auto"), Kind("python", "legacy")], ids=str)
def test_a_client_whose_answer_was_lost_refreshes_again_and_goes_on(program: Any, site: Site, kind: Kind) -> None:
    site.expire_tokens()

    texts = program.order("lose")
    program.order("late")
    texts.append(program.call())

    assert texts == ["failed: the answer was lost", ANSWER, ANSWER]
    assert site.requests().count(TOKEN) == 3
    assert program.visits() == 1
    assert site.grants()[0][-1] == ""


@pytest.mark.parametrize("kind", STEPPING_UP, ids=str)
def test_a_client_asks_its_person_for_more_when_a_call_needs_it(site: Site, kind: Kind, tmp_path: Path) -> None:
    site.switch(on=False)
    client = started(kind, site, tmp_path)
    try:
        assert client.call() == ANSWER
        before = site.grants()[0]
        site.switch(on=True)
        site.ticked = ("read", "actions")
        site.requests()
        text = client.act()
    finally:
        site.switch(on=True)
        site.ticked = ("read",)
        client.close()

    assert (before[3], before[4]) == (["read"], ["write"])
    assert "scope" not in text
    assert client.visits() == 2
    assert site.requests().count("POST /mcp 403") == 1
    # Its person chose no length, and so gave the scope for an hour.
    after = site.grants()[0]
    assert (after[3], after[5]) == (["read"], ["actions"])
