"""PostgreSQL as the bus: what is committed is told, and nothing else, whatever becomes of the process."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
from asgiref.sync import sync_to_async
from django.conf import LazySettings
from django.db import IntegrityError, OperationalError, connection, connections, transaction
from django.test import TestCase
from hypothesis import strategies as st

import mcp_django
from demo_project.flights.models import Airline
from mcp_django.events import bus as buses
from mcp_django.events import postgresql
from mcp_django.events.controls import EVERYBODY, ControlKind, ControlSet
from mcp_django.events.postgresql import PostgreSQLBus
from mcp_django.events.transaction import note, note_control
from mcp_django.push.hub import Hub
from tests.conftest import _close_hubs, need
from tests.end_to_end.servers import wait_for
from tests.push.channels import (
    Channel,
    changed,
    connect,
    end_own_connections,
    listening,
    own_connections,
    removed,
    wrote,
)
from tests.push.conftest import SUBSCRIPTION_ID, updated, watch
from tests.push.processes import POSTGRESQL, ROOT, ServedPeer, environment, run_python, served
from tests.shop.models import Tag, Visit
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Peer, Peers, Watching

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="the bus of PostgreSQL: TEST_DATABASE=postgresql"),
    pytest.mark.django_db(transaction=True),
]

UA, AA = "db://flights/airline/UA", "db://flights/airline/AA"


@pytest.fixture
def bus(transactional_db: None, settings: LazySettings) -> Iterator[PostgreSQLBus]:
    """The bus of this process."""
    settings.MCP = {**settings.MCP, "PUSH_DATABASE": "default"}
    bus = buses.get_bus()
    assert isinstance(bus, PostgreSQLBus)
    yield bus
    assert mcp_django.flush(60)
    bus.close()


@pytest.fixture
def channel(bus: PostgreSQLBus) -> Iterator[Channel]:
    """What the database tells."""
    with listening() as channel:
        yield channel


def all_that_was_told(channel: Channel) -> list[dict[str, Any]]:
    """The events, those of the publisher's thread too."""
    assert mcp_django.flush(60)
    return channel.events()


# In the transaction.


def test_a_transaction_tells_by_itself_what_it_changes(channel: Channel) -> None:
    with transaction.atomic():
        Tag.objects.create(name="b")
        Tag.objects.create(name="a").save()
        note_control("default", ControlKind.TOOLS)
        before = channel.events()

    assert before == []
    assert channel.events() == [{**wrote("shop.tag", "a", "b"), "controls": [{"kind": "tools"}]}]
    assert all_that_was_told(channel) == []


def test_it_is_told_once_by_a_connection_that_is_kept_and_by_one_that_is_made_anew(channel: Channel) -> None:
    for name in "ab":
        with transaction.atomic():
            Tag.objects.create(name=name)
    connection.close()
    with transaction.atomic():
        Tag.objects.create(name="c")

    assert all_that_was_told(channel) == [wrote("shop.tag", name) for name in "abc"]


@pytest.mark.parametrize("keyword", [{"durable": True}, {"savepoint": False}, {}])
def test_every_kind_of_block_is_told(channel: Channel, keyword: dict[str, bool]) -> None:
    with transaction.atomic(**keyword):
        Tag.objects.create(name="a")
        with transaction.atomic():
            Tag.objects.create(name="b")

    assert channel.events() == [wrote("shop.tag", "a", "b")]


def test_a_rolled_back_transaction_is_not_told(channel: Channel) -> None:
    with pytest.raises(RuntimeError), transaction.atomic():
        Tag.objects.create(name="a")
        raise RuntimeError
    with transaction.atomic():
        Tag.objects.create(name="b")
        transaction.set_rollback(True)

    assert all_that_was_told(channel) == []


def test_a_rolled_back_savepoint_is_not_told_and_the_rest_is(channel: Channel) -> None:
    with transaction.atomic():
        Tag.objects.create(name="before")
        with pytest.raises(RuntimeError), transaction.atomic():
            Tag.objects.create(name="lost")
            raise RuntimeError
        Tag.objects.create(name="after")

    assert all_that_was_told(channel) == [wrote("shop.tag", "after", "before")]


def test_a_commit_that_a_deferred_constraint_refuses_is_not_told(channel: Channel) -> None:
    with pytest.raises(IntegrityError) as refused, transaction.atomic():
        Tag.objects.create(name="a")
        Visit.objects.create(person_id="nobody's badge")

    assert isinstance(refused.value.__cause__, psycopg.errors.ForeignKeyViolation)
    assert all_that_was_told(channel) == []
    assert Tag.objects.count() == 0
    with transaction.atomic():
        Tag.objects.create(name="b")
    assert channel.events() == [wrote("shop.tag", "b")]


def test_what_the_database_rolls_back_at_a_commit_without_a_word_is_not_told(channel: Channel) -> None:
    with transaction.atomic():
        Tag.objects.create(name="a")
        # An error that neither the block nor Django's cursor was told of.
        with pytest.raises(psycopg.Error):
            connection.connection.execute("SELECT 1 / 0")

    assert Tag.objects.count() == 0
    assert all_that_was_told(channel) == []


def test_a_commit_that_the_connection_does_not_survive_is_not_told(channel: Channel) -> None:
    with pytest.raises(OperationalError), transaction.atomic():
        Tag.objects.create(name="a")
        with connect() as other:
            other.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])

    with transaction.atomic():
        Tag.objects.create(name="b")
    assert all_that_was_told(channel) == [wrote("shop.tag", "b")]
    assert [tag.pk for tag in Tag.objects.all()] == ["b"]


#: What a block does: it saves a row (True), or has blocks within it; and whether it is rolled back in the end.
BLOCKS = st.recursive(st.just(True), lambda inner: st.tuples(st.lists(inner, max_size=4), st.booleans()), max_leaves=15)


@hypothesis.given(blocks=st.tuples(st.lists(BLOCKS, max_size=4), st.booleans()))
def test_what_is_told_is_what_is_there(channel: Channel, blocks: Any) -> None:
    Tag.objects.all()._raw_delete("default")
    names = itertools.count()

    def run(block: Any) -> None:
        if block is True:
            Tag.objects.create(name=str(next(names)))
            return
        steps, is_rolled_back = block
        with transaction.atomic():
            for step in steps:
                run(step)
            transaction.set_rollback(is_rolled_back)

    run(blocks)

    there = set(Tag.objects.values_list("pk", flat=True))
    assert channel.events() == ([wrote("shop.tag", *there)] if there else [])


def test_a_transaction_without_autocommit_tells_at_its_commit(channel: Channel) -> None:
    transaction.set_autocommit(False)
    try:
        with transaction.atomic():
            Tag.objects.create(name="lost")
        transaction.rollback()
        with transaction.atomic():
            Tag.objects.create(name="a")
        before = channel.events()
        transaction.commit()
        after = channel.events()
    finally:
        transaction.set_autocommit(True)

    assert (before, after) == ([], [wrote("shop.tag", "a")])
    assert all_that_was_told(channel) == []


def test_a_transaction_in_an_on_commit_callback_is_told(channel: Channel) -> None:
    def callback() -> None:
        with transaction.atomic():
            Tag.objects.create(name="b")

    with transaction.atomic():
        transaction.on_commit(callback)
        Tag.objects.create(name="a")

    assert all_that_was_told(channel) == [wrote("shop.tag", "a"), wrote("shop.tag", "b")]


def test_async_code_is_told(channel: Channel) -> None:
    @transaction.atomic
    def save() -> None:
        Tag.objects.create(name="a")

    async def main() -> None:
        await sync_to_async(save)()
        await Tag.objects.acreate(name="b")
        await sync_to_async(connections.close_all)()

    asyncio.run(main())

    assert all_that_was_told(channel) == [wrote("shop.tag", "a"), wrote("shop.tag", "b")]


def test_threads_are_told(channel: Channel) -> None:
    def save(number: int) -> None:
        with transaction.atomic():
            Tag.objects.create(name=str(number))
        connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(20)))

    told = sorted(channel.events(), key=lambda event: int(event["changes"][0]["written"][0]))
    assert told == [wrote("shop.tag", number) for number in range(20)]
    assert all_that_was_told(channel) == []


def test_it_costs_no_query_that_the_project_could_count(bus: PostgreSQLBus, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(3) as before, transaction.atomic():
        Tag.objects.create(name="a")

    assert [query["sql"].split()[0] for query in before] == ["BEGIN", "INSERT", "COMMIT"]


def test_a_deleted_row_is_told(channel: Channel) -> None:
    Tag.objects.create(name="a")
    all_that_was_told(channel)

    Tag.objects.get().delete()

    assert channel.events() == [removed("shop.tag", "a")]


@pytest.mark.parametrize("key", ["it's", 'a"b', "back\\slash", "a', 'b'); DROP TABLE shop_tag; --", "Zürich 東京 🛫"])
def test_a_key_that_is_sql_is_only_text(channel: Channel, key: str) -> None:
    with transaction.atomic():
        Tag.objects.create(name=key)

    assert channel.events() == [wrote("shop.tag", key)]


@pytest.mark.parametrize("conforming", ["on", "off"])
def test_backslashes_are_text_whatever_the_database_takes_strings_for(channel: Channel, conforming: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL standard_conforming_strings = {conforming}")
        note("default", "shop.tag", written=["\\' \\", "\x00\ud800"])

    assert channel.events() == [wrote("shop.tag", "\\' \\", "\x00\ud800")]


def test_100_000_rows_of_one_transaction_are_told_as_the_model(channel: Channel) -> None:
    with transaction.atomic():
        for number in range(100_000):
            note("default", "shop.tag", written=[str(number)])
        Tag.objects.create(name="a")

    assert channel.events() == [changed("shop.tag")]


def test_a_transaction_of_many_long_keys_is_told_by_their_keys_in_several_payloads(channel: Channel) -> None:
    names = [f"{number:ü>50}" for number in range(400)]

    with transaction.atomic():
        for name in names:
            Tag.objects.create(name=name)

    payloads = channel.payloads()
    told = [key for payload in payloads for key in json.loads(payload)["changes"][0]["written"]]
    assert len(payloads) > 1
    assert max(len(payload.encode()) for payload in payloads) < 8_000
    assert sorted(told) == sorted(names)


# Without a transaction, and beside it.


def test_a_save_without_a_transaction_is_told_by_the_publisher(channel: Channel) -> None:
    Tag.objects.create(name="a")

    assert all_that_was_told(channel) == [wrote("shop.tag", "a")]


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_what_changes_on_another_database_is_told_once_that_is_committed(channel: Channel) -> None:
    with transaction.atomic(using="other"):
        Tag(name="lost").save(using="other")
        transaction.set_rollback(True, using="other")
    with transaction.atomic(using="other"):
        Tag(name="there").save(using="other")

    [event] = all_that_was_told(channel)
    assert event["changes"] == [{**wrote("shop.tag", "there")["changes"][0], "alias": "other"}]


def test_a_test_case_that_never_commits_is_told_by_its_callbacks(channel: Channel) -> None:
    with transaction.atomic():
        with TestCase.captureOnCommitCallbacks(execute=True):
            Tag.objects.create(name="a")
        told = all_that_was_told(channel)
        transaction.set_rollback(True)

    assert told == [wrote("shop.tag", "a")]
    assert all_that_was_told(channel) == []


def test_what_cannot_be_told_in_the_transaction_is_told_after_it(
    channel: Channel, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue of notifications is full, as when a listening connection stays in a transaction."""
    monkeypatch.setattr(postgresql, "_FULL", -1.0)
    for name in "ab":
        with transaction.atomic():
            Tag.objects.create(name=name)
    assert all_that_was_told(channel) == [wrote("shop.tag", "a"), wrote("shop.tag", "b")]
    assert "PostgreSQL's queue of notifications is filled by 0 %" in caplog.text

    monkeypatch.setattr(postgresql, "_FULL", 0.5)
    Tag.objects.create(name="c")
    told = all_that_was_told(channel)
    with transaction.atomic():
        Tag.objects.create(name="d")
        inside = threading.active_count()

    assert told == [wrote("shop.tag", "c")]
    assert inside == threading.active_count()
    assert channel.events() == [wrote("shop.tag", "d")]


def test_the_publisher_tells_again_after_its_connection_was_ended(channel: Channel) -> None:
    Tag.objects.create(name="a")
    told = all_that_was_told(channel)
    assert end_own_connections() == 1

    Tag.objects.create(name="b")

    assert (told, all_that_was_told(channel)) == ([wrote("shop.tag", "a")], [wrote("shop.tag", "b")])


def test_what_could_not_be_told_lets_everybody_look_as_soon_as_it_can(
    channel: Channel, bus: PostgreSQLBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    bus.close()
    with monkeypatch.context() as away:
        away.setattr(postgresql, "_parameters", lambda alias: {"host": "127.0.0.1", "port": 1, "connect_timeout": 1})
        with pytest.raises(psycopg.OperationalError):
            bus.publish({"publisher": "x", "started": 0.0, "number": 1, **wrote("shop.tag", "a")})

    bus.publish({"publisher": "x", "started": 0.0, "number": 1})
    bus.publish({"publisher": "x", "started": 0.0, "number": 2, **wrote("shop.tag", "b")})

    assert channel.events() == [{"lost": True}, wrote("shop.tag", "b")]


def test_the_publisher_gives_its_connection_back_when_it_has_nothing_to_tell(bus: PostgreSQLBus) -> None:
    Tag.objects.create(name="a")
    assert mcp_django.flush(60)
    kept = own_connections()

    assert len(kept) == 1
    wait_for(lambda: own_connections() == [], "the end of the publisher's connection", 60)


def test_projects_with_channels_of_their_own_do_not_hear_each_other(
    transactional_db: None, settings: LazySettings
) -> None:
    settings.MCP = {**settings.MCP, "PUSH_DATABASE": "default", "PUSH_CHANNEL": 'it\'s "mine"'}
    with listening() as others, listening('it\'s ""mine""') as mine:
        with transaction.atomic():
            Tag.objects.create(name="a")
        Tag.objects.create(name="b")
        assert mcp_django.flush(60)
        # The name that LISTEN was given has its quotes doubled, that of pg_notify has not.
        mine.name = 'it\'s "mine"'

        assert (mine.events(), others.events()) == ([wrote("shop.tag", "a"), wrote("shop.tag", "b")], [])
    bus = buses.get_bus()
    assert isinstance(bus, PostgreSQLBus)
    bus.close()


# Processes that die.

DIES = """
import os
from django.db import connection, transaction
with transaction.atomic():
    Tag.objects.create(name={name!r})
    {before}
{after}
"""


def run_to_death(code: str) -> None:
    setup = "import django; django.setup(); from tests.shop.models import *\n"
    done = subprocess.run(
        [sys.executable, "-c", setup + code], cwd=ROOT, env=environment("", POSTGRESQL), timeout=100, check=False
    )
    assert done.returncode == -signal.SIGKILL


def test_a_process_that_is_killed_right_after_its_commit_was_heard(channel: Channel) -> None:
    run_to_death(DIES.format(name="a", before="", after="os.kill(os.getpid(), 9)"))

    assert channel.events() == [wrote("shop.tag", "a")]


def test_a_process_that_is_killed_by_an_on_commit_callback_was_heard(channel: Channel) -> None:
    before = "transaction.on_commit(lambda: os.kill(os.getpid(), 9))"
    run_to_death(DIES.format(name="a", before=before, after=""))

    assert channel.events() == [wrote("shop.tag", "a")]


def test_a_process_that_is_killed_right_before_its_commit_is_not_heard(channel: Channel) -> None:
    run_to_death(DIES.format(name="a", before="os.kill(os.getpid(), 9)", after=""))
    wait_for(lambda: not _in_transactions(), "the end of the dead process's transaction")

    assert channel.events() == []
    assert Tag.objects.count() == 0


def _in_transactions() -> list[str]:
    with connect() as other:
        rows = other.execute(
            "SELECT query FROM pg_stat_activity "
            "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        return [query for (query,) in rows]


def test_a_short_command_is_heard_and_its_transactions_start_no_thread(channel: Channel) -> None:
    code = """
from django.db import transaction
with transaction.atomic():
    Tag.objects.create(name='a')
import threading; print([t.name for t in threading.enumerate()])
Tag.objects.create(name='b')
"""
    assert run_python(code, layer=POSTGRESQL) == "['MainThread']"
    assert channel.events() == [wrote("shop.tag", "a"), wrote("shop.tag", "b")]


def test_a_pool_of_one_connection_is_left_to_the_project(channel: Channel) -> None:
    before = """
from tests import settings
settings.DATABASES['default']['OPTIONS'] = {'pool': {'min_size': 1, 'max_size': 1, 'timeout': 5}}
"""
    code = """
import asyncio, threading
from django.db import connection, transaction
from mcp_django.events.bus import get_bus
joined, heard = threading.Event(), threading.Event()
async def listen():
    async for event in get_bus().subscribe(joined.set):
        heard.set()
threading.Thread(target=asyncio.run, args=(listen(),), daemon=True).start()
assert joined.wait(60)
with transaction.atomic():
    Tag.objects.create(name='a')
    assert connection.pool.get_stats()['pool_available'] == 0
    Tag.objects.create(name='b')
assert heard.wait(60)
Tag.objects.create(name='c')
assert mcp_django.flush(60)
connection.close()
connection.close_pool()
"""
    run_python(code, layer=POSTGRESQL, before=before)

    assert channel.events() == [wrote("shop.tag", "a", "b"), wrote("shop.tag", "c")]


def test_the_child_of_a_fork_is_heard(channel: Channel) -> None:
    code = """
import os
from django.db import connections, transaction
def save(name):
    Tag.objects.create(name=name)
    with transaction.atomic():
        Tag.objects.create(name=name + ' in a transaction')
save('parent')
mcp_django.flush()
connections.close_all()
child = os.fork()
save('child' if child == 0 else 'parent again')
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    run_python(code, layer=POSTGRESQL)

    names = ["parent", "child", "parent again"]
    told = sorted(key for event in channel.events() for key in event["changes"][0]["written"])
    assert told == sorted([*names, *(f"{name} in a transaction" for name in names)])


def test_a_gevent_worker_is_heard(channel: Channel) -> None:
    need(find_spec("gevent") is not None, "gevent")
    code = """
import gevent
from django.db import connection, transaction
def save(name):
    Tag.objects.create(name=name)
    with transaction.atomic():
        Tag.objects.create(name=name * 2)
    connection.close()
gevent.joinall([gevent.spawn(save, name) for name in 'ab'], raise_error=True)
assert mcp_django.flush()
"""
    run_python(code, layer=POSTGRESQL, before="from gevent import monkey; monkey.patch_all()")

    told = sorted(key for event in channel.events() for key in event["changes"][0]["written"])
    assert told == ["a", "aa", "b", "bb"]


# Listening.


@pytest.fixture
def peers_of_bus(bus: PostgreSQLBus, peers: Peers) -> Peers:
    """Peers whose hub listens to PostgreSQL."""
    return peers


@pytest.fixture
def token(users: Users, flights: Any) -> str:
    return token_of(users.admin)


@pytest.fixture
def watch_later(monkeypatch: pytest.MonkeyPatch) -> Callable[[Peer], Watching]:
    """Watches UA and AA, after the hub has joined the bus and everybody has looked for what came before that."""
    looked, handle = threading.Event(), Hub._handle

    async def handled(hub: Hub, changes: Any, controls: ControlSet) -> None:
        await handle(hub, changes, controls)
        if EVERYBODY in controls:
            looked.set()

    monkeypatch.setattr(Hub, "_handle", handled)

    def watch_both(peer: Peer) -> Watching:
        watch(peer, MODERN, UA, listen_id="makes the hub").close()
        assert looked.wait(60)
        return watch(peer, MODERN, UA, AA)

    return watch_both


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_what_another_process_commits_is_told_to_who_listens(transport: str, token: str, peers_of_bus: Peers) -> None:
    watching = watch(peers_of_bus(token), MODERN, UA, AA)

    run_python("from demo_project.flights.models import Airline; Airline.objects.get(pk='UA').save()", layer=POSTGRESQL)

    told = watching.uris(1)
    while told != [UA]:  # A hub that has just joined the bus may tell of more than there is.
        told = watching.uris(1)


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_change_is_told_once(
    transport: str, token: str, peers_of_bus: Peers, watch_later: Callable[[Peer], Watching]
) -> None:
    watching = watch_later(peers_of_bus(token))

    for _ in range(3):
        with transaction.atomic():
            Airline.objects.get(pk="UA").save()
            Airline.objects.get(pk="UA").save()
        assert watching.next() == updated(UA, "sub-1")
    with transaction.atomic():
        Airline.objects.get(pk="AA").save()
    assert watching.next() == updated(AA, "sub-1")


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_connection_that_the_database_ends_is_joined_again_and_everybody_looks(
    transport: str, token: str, peers_of_bus: Peers, watch_later: Callable[[Peer], Watching]
) -> None:
    watching = watch_later(peers_of_bus(token))

    assert end_own_connections() == 1

    assert watching.uris(2) == [AA, UA]
    Airline.objects.get(pk="UA").save()
    assert watching.next() == updated(UA, "sub-1")


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_connection_on_which_nothing_comes_any_more_is_noticed(
    transport: str,
    token: str,
    peers_of_bus: Peers,
    watch_later: Callable[[Peer], Watching],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a firewall forgets it: both ends take it for open."""
    monkeypatch.setattr(postgresql, "_HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(postgresql, "_ANSWER_SECONDS", 0.2)
    with Firewall(5432) as firewall:
        parameters = postgresql._parameters("default")
        monkeypatch.setattr(postgresql, "_parameters", lambda alias: {**parameters, "port": firewall.port})
        watching = watch_later(peers_of_bus(token))

        firewall.forget()

        assert watching.uris(2) == [AA, UA]
        wait_for(lambda: len(own_connections()) == 2, "another connection", 60)
        _close_hubs()


class Firewall:
    """Stands before a port, and forgets connections without a word to either end."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._open: list[socket.socket] = []
        self._forgotten: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self) -> Firewall:
        self._threads[0].start()
        return self

    def forget(self) -> None:
        """Nothing comes through any more on the connections that are open now."""
        self._forgotten.update(self._open)

    def __exit__(self, *_: object) -> None:
        for one in (self._server, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(30)
        for one in (self._server, *self._open):
            one.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client = self._server.accept()[0]
                server = socket.create_connection(("127.0.0.1", self._target))
                self._open += [client, server]
                for ends in ((client, server), (server, client)):
                    self._threads.append(threading.Thread(target=self._pass_on, args=ends))
                    self._threads[-1].start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if source not in self._forgotten:
                    target.sendall(data)
            if source not in self._forgotten:
                target.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_stranger_who_notifies_rubbish_disturbs_nobody(
    transport: str, token: str, peers_of_bus: Peers, watch_later: Callable[[Peer], Watching]
) -> None:
    watching = watch_later(peers_of_bus(token))

    with listening() as stranger:
        stranger.notify("rubbish")
        stranger.notify('{"changes":[{"alias":"nowhere","label":"no.model","written":null,"deleted":[]}]}')
        for kind in [*ControlKind, "of a newer version"]:
            stranger.notify(json.dumps({"controls": [{"kind": kind, "key": "x"}]}))
    with transaction.atomic():
        Airline.objects.get(pk="AA").save()

    assert watching.next() == updated(AA, "sub-1")
    assert own_connections() == ['LISTEN "mcp_django"']


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_hub_that_ends_leaves_no_connection_and_holds_no_transaction(
    transport: str,
    token: str,
    peers_of_bus: Peers,
    serving_loop: LoopThread,
    watch_later: Callable[[Peer], Watching],
) -> None:
    watch_later(peers_of_bus(token))
    assert _in_transactions() == []

    _close_hubs()

    wait_for(lambda: own_connections() == [], "the end of its connection", 60)


# Several processes.


@pytest.fixture(params=["uvicorn", "daphne"])
def served_peer(request: pytest.FixtureRequest, token: str, tmp_path: Path) -> Iterator[ServedPeer]:
    """The administrator's client of a server."""
    with served(request.param, "", tmp_path / "server.log", POSTGRESQL) as origin:
        peer = ServedPeer(token, origin)
        yield peer
        peer.close()


def test_servers_are_told_by_commands_of_changes_and_of_tokens(served_peer: ServedPeer) -> None:
    code = "from demo_project.flights.models import Airline; Airline.objects.get(pk='UA').save()"
    watching = served_peer.watch(MODERN, [UA])

    for _ in range(2):  # A hub that has just joined the bus may have told of more than there is.
        run_python(code, layer=POSTGRESQL)
        assert watching.uris(1) == [UA]
    run_python("from mcp_django.models import AccessToken; AccessToken.objects.get().revoke()", layer=POSTGRESQL)

    while "result" not in (message := watching.next()):
        assert message == updated(UA, message["params"]["_meta"][SUBSCRIPTION_ID])
    assert message["result"]["resultType"] == "complete"
    assert served_peer.send(MODERN, "tools/list").status == 401


# Settings.


@pytest.mark.parametrize(
    ("mcp", "message"),
    [
        (
            {"PUSH_DATABASE": "nowhere"},
            "MCP['PUSH_DATABASE'] names 'nowhere', which is no PostgreSQL database of DATABASES.",
        ),
        (
            {"PUSH_DATABASE": "other"},
            "MCP['PUSH_DATABASE'] names 'other', which is no PostgreSQL database of DATABASES.",
        ),
        (
            {"PUSH_DATABASE": "default", "PUSH_LISTEN_DATABASE": "other"},
            "MCP['PUSH_LISTEN_DATABASE'] names 'other', which is no PostgreSQL database of DATABASES.",
        ),
    ],
)
def test_a_save_does_not_fail_where_the_bus_cannot_be_made(
    settings: LazySettings, caplog: pytest.LogCaptureFixture, mcp: dict[str, Any], message: str
) -> None:
    settings.MCP = {**settings.MCP, **mcp}

    with transaction.atomic():
        Tag.objects.create(name="a")

    assert Tag.objects.get().pk == "a"
    assert message in caplog.text
