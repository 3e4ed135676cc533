"""Who waits for whom: known users for themselves alone, and everybody else for everybody else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from mcp_django.access import authentication
from mcp_django.access.authentication import PrincipalCache, authenticate, queue_key
from mcp_django.access.throttling.failures import KnownCallers, known_callers
from mcp_django.core.running.workers import ADDRESS, Workers, count_as, get_workers
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.exchange.token_format import new_token
from mcp_django.models import AccessToken
from mcp_django.protocol.errors import Overloaded, Unauthenticated
from mcp_django.transports.http import asgi, views
from mcp_django.transports.http.bodies import SMALL_BODY_BYTES
from mcp_django.transports.pacing import Pace
from tests.axes import HTTP, PUSHING
from tests.end_to_end.servers import wait_for
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Answered, ASGIPeer, Peer, Peers, SocketPeer
from tests.support.raw import error
from tests.transports.gates import ENTER, Gate
from tests.transports.test_overload import begin

STREAMING_HTTP = [name for name in PUSHING if name in HTTP]
PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
STRANGE = (
    "The server is busy with callers whose credentials it has not seen lately, and yours are among them. Try again in "
    "a moment."
)


def address(number: int) -> str:
    return f"{ADDRESS}10.0.0.{number}"


def request_with(header: str | None, client: str = "192.0.2.1") -> MCPRequest:
    meta = {"REMOTE_ADDR": client, **({} if header is None else {"HTTP_AUTHORIZATION": header})}
    return MCPRequest(path="/mcp", scheme="http", meta=meta, attributes={})


# The pool.


class Crowd:
    """Calls that stay in a pool until they are let go, by who made them."""

    def __init__(self, threads: int) -> None:
        self.workers = Workers(threads)
        self.began: list[str] = []
        self._began = threading.Semaphore(0)
        self._gate = threading.Event()
        self._futures: list[asyncio.Future[None]] = []

    def enter(self, key: str, then: Callable[[], None] = lambda: None) -> None:
        self._futures.append(self.workers.submit(self._hold, key, then, principal_key=key))

    def _hold(self, key: str, then: Callable[[], None]) -> None:
        then()
        self.began.append(key)
        self._began.release()
        assert self._gate.wait(30)

    async def wait_for(self, number: int) -> None:
        """Wait until so many more calls have begun."""
        for _ in range(number):
            assert await asyncio.to_thread(self._began.acquire, timeout=30)

    async def leave(self) -> None:
        self._gate.set()
        await asyncio.gather(*self._futures)
        await asyncio.to_thread(self.workers.close)


async def begun(threads: int, keys: list[str], number: int) -> list[str]:
    """Whose calls have begun, out of these, once so many have; in the order in which they begin."""
    made = Crowd(threads)
    for key in keys:
        made.enter(key)
    await made.wait_for(number)
    running = made.workers._running.total
    await made.leave()
    return made.began[:running]


def test_all_addresses_together_get_a_quarter_of_the_threads(serving_loop: LoopThread) -> None:
    crowd, shares = [address(number) for number in range(10)], {1: 1, 2: 1, 3: 1, 4: 1, 8: 2, 16: 4}

    found = {threads: serving_loop.run(begun(threads, crowd, share)) for threads, share in shares.items()}

    assert found == {threads: crowd[:share] for threads, share in shares.items()}


def test_a_known_user_finds_a_thread_however_many_addresses_call(serving_loop: LoopThread) -> None:
    crowd = [*(address(number) for number in range(50)), "user:1"]

    assert sorted(serving_loop.run(begun(4, crowd, 2))) == [address(0), "user:1"]


def test_addresses_have_turns_however_many_calls_one_of_them_makes(serving_loop: LoopThread) -> None:
    async def turns() -> list[str]:
        made = Crowd(1)
        for key in (*[address(1)] * 10, address(2), address(3)):
            made.enter(key)
        await made.leave()
        return made.began

    assert serving_loop.run(turns())[:4] == [address(1), address(1), address(2), address(3)]
    # And one leaves a thread to the others, where addresses have two.
    assert sorted(serving_loop.run(begun(8, [*[address(1)] * 10, address(2)], 2))) == [address(1), address(2)]


def test_all_addresses_together_get_a_quarter_of_the_queue(serving_loop: LoopThread, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "QUEUE": 16}

    async def crowd() -> int:
        made = Crowd(4)
        for number in range(5):
            made.enter(address(number))
        with pytest.raises(Overloaded, match="has not seen lately"):
            made.enter(address(6))
        for number in range(15):
            made.enter(f"user:{number}")
        await made.leave()
        return len(made.began)

    assert serving_loop.run(crowd()) == 20


def test_one_address_cannot_fill_the_queue_of_the_others(serving_loop: LoopThread, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "QUEUE": 28}

    async def crowd() -> int:
        made = Crowd(4)
        for _ in range(4):
            made.enter(address(1))
        with pytest.raises(Overloaded):
            made.enter(address(1))
        for number in range(4):
            made.enter(address(2 + number))
        await made.leave()
        return len(made.began)

    assert serving_loop.run(crowd()) == 8


def test_a_call_whose_user_becomes_known_makes_room_for_the_next_address(serving_loop: LoopThread) -> None:
    async def crowd() -> list[str]:
        made = Crowd(4)
        made.enter(address(1), lambda: count_as("user:1"))
        made.enter(address(2))
        await made.wait_for(2)
        began = list(made.began)
        await made.leave()
        return began

    assert serving_loop.run(crowd()) == [address(1), address(2)]


def test_a_user_with_many_fresh_tokens_gets_no_more_than_a_share(serving_loop: LoopThread) -> None:
    async def crowd() -> tuple[int, int]:
        made = Crowd(4)
        for number in range(3):
            made.enter(address(number), lambda: count_as("user:1"))
        await made.wait_for(3)
        running = made.workers._running
        counts = running["user:1"], running.of_addresses
        await made.leave()
        return counts

    assert serving_loop.run(crowd()) == (2, 1)


def test_a_user_gets_half_of_the_threads_and_a_third_while_others_are_at_work(serving_loop: LoopThread) -> None:
    async def share(threads: int, *first: str) -> int:
        made = Crowd(threads)
        for key in (*first, *["user:1"] * threads):
            made.enter(key)
        share = made.workers._running["user:1"]
        await made.leave()
        assert len(made.began) == len(first) + threads
        return share

    found = {
        threads: [serving_loop.run(share(threads, *first)) for first in ((), (address(1),), ("user:2",))]
        for threads in (1, 2, 4, 8, 16)
    }

    assert found == {1: [1, 1, 1], 2: [1, 1, 1], 4: [2, 2, 1], 8: [4, 4, 2], 16: [8, 8, 5]}


def test_a_user_gets_more_threads_again_when_the_others_have_ended(serving_loop: LoopThread) -> None:
    async def crowd() -> int:
        made, ends = Crowd(8), {key: threading.Event() for key in ("user:1", "user:2")}
        passing = [made.workers.submit(end.wait, 30, principal_key=key) for key, end in ends.items()]
        for _ in range(9):
            made.enter("user:1")
        await made.wait_for(1)
        for key, future in zip(("user:2", "user:1"), reversed(passing), strict=True):
            ends[key].set()
            await future
        await made.wait_for(3)
        running = made.workers._running["user:1"]
        await made.leave()
        return running

    assert serving_loop.run(crowd()) == 4


# Whose credentials they are.


def test_sixteen_tokens_of_one_user_are_one_caller(users: Users) -> None:
    headers = [f"Bearer {token_of(users.admin)}" for _ in range(16)]
    for header in headers:
        authenticate(request_with(header), fresh=True)

    assert {queue_key(request_with(header)) for header in headers} == {f"user:{users.admin.pk}"}


def test_random_tokens_are_one_caller_for_each_address_whatever_was_forwarded(users: Users) -> None:
    requests = [request_with(f"Bearer {new_token()}") for _ in range(16)]
    requests[0].META["HTTP_X_FORWARDED_FOR"] = "203.0.113.9"

    assert {queue_key(request) for request in requests} == {f"{ADDRESS}192.0.2.1"}


def test_a_token_is_known_after_it_was_seen_to_hold_and_no_longer_once_it_was_refused(users: Users) -> None:
    request = request_with(f"Bearer {token_of(users.admin)}")

    before = queue_key(request)
    authenticate(request, fresh=True)
    seen = queue_key(request)
    AccessToken.objects.get().revoke()
    with pytest.raises(Unauthenticated):
        authenticate(request, fresh=True)

    assert (before, seen, queue_key(request)) == (
        f"{ADDRESS}192.0.2.1", f"user:{users.admin.pk}", f"{ADDRESS}192.0.2.1"
    )  # fmt: skip


def test_being_known_lets_nobody_in(users: Users) -> None:
    request = request_with(f"Bearer {new_token()}")
    known_callers.note(authentication._digest_of(request), f"user:{users.admin.pk}")

    assert queue_key(request) == f"user:{users.admin.pk}"
    with pytest.raises(Unauthenticated):
        authenticate(request, fresh=True)


def test_a_token_that_was_not_used_for_an_hour_is_known_no_longer(users: Users) -> None:
    request = request_with(f"Bearer {token_of(users.admin)}")
    begun = time.monotonic()
    authenticate(request, fresh=True)
    ended = time.monotonic()
    digest = authentication._digest_of(request)
    seen = known_callers[digest]

    known_callers[digest] = seen._replace(until=time.monotonic())

    assert begun + 3600 <= seen.until <= ended + 3600
    assert queue_key(request) == f"{ADDRESS}192.0.2.1"


def test_credentials_that_were_not_used_longest_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownCallers(size=2)

    for name in ("first", "second", "first", "third"):
        known.note(name, "user:1")

    assert list(known) == ["first", "third"]


def test_credentials_of_the_projects_own_classes_are_known_by_their_header(users: Users, settings: Any) -> None:
    settings.MCP = {
        **settings.MCP, "AUTHENTICATION_CLASSES": ["tests.access.test_authentication.ProjectAuthentication"]
    }  # fmt: skip
    request = request_with("Project admin")
    assert queue_key(request) == f"{ADDRESS}192.0.2.1"

    authenticate(request, fresh=True)

    assert queue_key(request) == f"user:{users.admin.pk}"
    assert queue_key(request_with("Project viewer")) == f"{ADDRESS}192.0.2.1"


def test_what_has_not_a_tokens_form_costs_no_query(users: Users, django_assert_num_queries: Any) -> None:
    for header in (None, "Bearer mcp_unknown", "Bearer", "Basic YWRtaW46YWRtaW4=", "Bearer a b"):
        request = request_with(header)

        assert queue_key(request) is None
        with django_assert_num_queries(0), pytest.raises(Unauthenticated):
            authenticate(request, fresh=True)


def test_callers_without_credentials_are_their_addresses_where_they_are_let_in(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read"]}
    request = request_with(None)

    principal = authenticate(request, fresh=True)

    assert queue_key(request) == authentication.key_of(principal, request) == f"{ADDRESS}192.0.2.1"


# Over the transports.


class Strangers:
    """Requests with unknown tokens whose look-ups do not end before they are let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.gate = threading.Event()

    def load(self, cache: PrincipalCache, digest: str) -> Principal | None:
        found = _load(cache, digest)
        if found is None:
            self.entered.release()
            assert self.gate.wait(30)
        return found

    def wait_for_one(self) -> None:
        assert self.entered.acquire(timeout=30)


_load = PrincipalCache._load


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch, settings: Any) -> Iterator[Strangers]:
    """One thread of four, and one place of the queue, for callers who are not known."""
    settings.MCP = {**settings.MCP, "THREADS": 4, "QUEUE": 4, "SWEEP_SECONDS": 60}
    made = Strangers()

    def load(cache: PrincipalCache, digest: str) -> Principal | None:
        return made.load(cache, digest)

    monkeypatch.setattr(PrincipalCache, "_load", load)
    yield made
    made.gate.set()


def flood(peers: Peers, strangers: Strangers) -> list[Future[Answered]]:
    """Unknown tokens take all that callers who are not known get, each from another address."""
    running = []
    for number in range(2):
        peer = peers(new_token())
        assert isinstance(peer, ASGIPeer)
        running.append(begin_from(peer, f"198.51.100.{number}", number))
        if not number:
            strangers.wait_for_one()
    wait_for(lambda: get_workers()._accepted.of_addresses == 2, "the second in the queue")
    return running


def begin_from(peer: ASGIPeer, client: str, request_id: int) -> Future[Answered]:
    scope = peer.scope
    peer.scope = lambda *given: {**scope(*given), "client": (client, 50000)}  # type: ignore[method-assign]
    return begin(peer, MODERN, request_id, "tools/list")


@pytest.mark.parametrize("transport", STREAMING_HTTP)
def test_a_flood_of_unknown_tokens_holds_up_no_known_user(users: Users, peers: Peers, strangers: Strangers) -> None:
    known = peers(token_of(users.admin))
    known.tools()
    running = flood(peers, strangers)

    refused = begin_from(peers(new_token()), "203.0.113.1", 3).result(30)  # type: ignore[arg-type]
    no_token = begin_from(peers("mcp_unknown"), "203.0.113.1", 4).result(30)  # type: ignore[arg-type]
    served = known.tools()
    strangers.gate.set()

    assert (refused.status, refused.json) == (503, error(-32603, "OVERLOADED", STRANGE, 3))
    assert refused.headers["retry-after"] == "1"
    assert no_token.status == 401  # It takes no place.
    assert "find_records" in served
    assert [one.result(30).status for one in running] == [401, 401]


def test_a_few_refusals_leave_at_once_and_those_of_a_crowd_one_after_the_other() -> None:
    pace = Pace()
    delays = [pace.delay(1_000.0) for _ in range(1_000)]

    assert delays[:50] == [0.0] * 50
    assert delays == sorted(delays)
    assert (delays[150], delays[-1]) == (pytest.approx(2.02), 5.0)
    assert pace.delay(1_010.0) == 0.0


@pytest.mark.parametrize("transport", STREAMING_HTTP)
def test_only_refusals_of_callers_who_are_not_known_are_held(
    users: Users, peers: Peers, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[None] = []

    async def hold() -> None:
        held.append(None)

    for module in (asgi, views):
        monkeypatch.setattr(module, "hold_refusal", hold)
    known = peers(token_of(users.admin))
    large = " " * (SMALL_BODY_BYTES + 1)

    def held_after(peer: Peer, body: str) -> int:
        assert isinstance(peer, ASGIPeer)
        held.clear()
        peer.http("POST", body.encode())
        return len(held)

    assert held_after(known, PING) == held_after(known, "{") == 0
    assert held_after(peers(None), PING) == held_after(peers(None), large) == 1
    assert held_after(peers("mcp_unknown"), PING) == held_after(peers(new_token()), PING) == 1


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_flood_of_unknown_tokens_holds_up_no_socket_of_a_known_user(
    users: Users, peers: Peers, strangers: Strangers, serving_loop: LoopThread
) -> None:
    known = peers(token_of(users.admin))
    known.tools()
    flood(peers, strangers)
    assert isinstance(known, ASGIPeer)

    stranger = SocketPeer(new_token(), known.application, serving_loop).connect()
    socket = SocketPeer(known.token, known.application, serving_loop).connect()

    assert socket.accepted
    start, _ = stranger.refused
    assert (start["status"], dict(start["headers"])[b"retry-after"]) == (503, b"1")
    socket.close()


@pytest.mark.parametrize("transport", STREAMING_HTTP)
def test_a_user_with_many_tokens_leaves_threads_to_the_others(
    users: Users, peers: Peers, gate: Gate, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 4, "SWEEP_SECONDS": 60}
    greedy = [peers(token_of(users.admin)) for _ in range(6)]
    other = peers(token_of(users.viewer))
    for peer in (*greedy, other):
        peer.tools()

    running = [begin(peer, MODERN, 1, "tools/call", ENTER) for peer in greedy]  # type: ignore[arg-type]
    gate.wait_for_entry()
    gate.wait_for_entry()

    assert "find_records" in other.tools()
    gate.open()
    assert [one.result(30).status for one in running] == [200] * 6
