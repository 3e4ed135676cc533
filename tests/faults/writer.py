"""A process that changes rows as it is told on its standard input, and says on its standard output when it committed.

A line each, JSON: ``{"do": "series", "uris": [...]}`` begins a series of transactions, which ``{"do": "stop"}`` ends.
With arguments it changes the rows that they name, once, and ends at once, as a short command does.
"""

from __future__ import annotations

import json
import os
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.faults.settings")
django.setup()

from django.contrib.auth.models import Group, Permission, User  # noqa: E402
from django.db import DatabaseError, InterfaceError, connection, transaction  # noqa: E402

from demo_project.flights.admin import JFK_OPERATIONS  # noqa: E402
from demo_project.flights.models import Airline, Airport, Flight, Plane  # noqa: E402
from mcp_django.models import AccessToken, Session  # noqa: E402
from tests.faults.rows import FLIGHTS, JFK, NO_FLIGHTS, PLANES, VIEWS, Rows, key_of  # noqa: E402

_START = datetime(2013, 1, 1, 10, tzinfo=UTC)
_RETRY_SECONDS = 0.1


class RolledBack(Exception):
    """What a transaction is given up with."""


class Unknown(Exception):
    """It was done before, and the database could not say so."""


def say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


# The beginning.


def users(each: int) -> dict[str, list[str]]:
    """Tokens by view, ``each`` of a user of its own."""
    planes = Permission.objects.filter(codename="view_plane")
    both = Permission.objects.filter(codename__in=["view_plane", "view_flight"])
    jfk, _ = Group.objects.get_or_create(name=JFK_OPERATIONS)
    tokens: dict[str, list[str]] = {}
    for view in VIEWS:
        for number in range(each):
            user = User.objects.create_user(f"{view}-{number}", is_staff=True)
            user.user_permissions.set(planes if view == NO_FLIGHTS else both)
            if view == JFK:
                user.groups.add(jfk)
            tokens.setdefault(view, []).append(AccessToken.objects.create_token(user=user, scopes=["read"])[1])
    return tokens


def tokens(number: int) -> list[str]:
    """So many new tokens of one user, who sees every flight."""
    user, _ = User.objects.get_or_create(username="greedy", defaults={"is_staff": True})
    user.user_permissions.set(Permission.objects.filter(codename__in=["view_plane", "view_flight"]))
    return [AccessToken.objects.create_token(user=user, scopes=["read"])[1] for _ in range(number)]


def rows(pairs: int) -> Rows:
    """New rows, with nothing left of those before."""
    for model in (Flight, Plane, Session):
        model._default_manager.all().delete()
    Airline.objects.get_or_create(carrier="UA", defaults={"name": "United"})
    for code in ("JFK", "EWR", "IAH"):
        place = {"name": code, "latitude": 40, "longitude": -73, "altitude": 10, "utc_offset": -5}
        Airport.objects.get_or_create(faa=code, defaults=place)
    made = Rows()
    kinds = (made.early, made.during, made.late, made.brief, made.phantom)
    for kind in (*kinds, made.left, made.leaving, made.gone):
        for number in range(2 * pairs):
            origin = "EWR" if kind in kinds and number % 2 else "JFK"
            uri = f"{FLIGHTS}/{_new_flight(origin)}"
            kind.append(uri)
            if origin == "JFK":
                made.from_jfk.append(uri)
    for number in range(2 * pairs):
        made.planes.append(f"{PLANES}/{_new_plane(f'N{number}')}")
    _new_plane("MARKER")
    return made


def _new_flight(origin: str) -> int:
    number = Flight.objects.count()
    departs_at = _START + timedelta(minutes=number)
    place = {"origin_id": origin, "destination_id": "IAH"}
    made = Flight.objects.create(carrier_id="UA", number=number, departs_at=departs_at, distance=1400, **place)
    return int(made.pk)


def _new_plane(tailnum: str) -> str:
    return Plane.objects.create(
        tailnum=tailnum, type="Rotorcraft", manufacturer="-", model="-", engines=2, seats=4, engine="Turbo-fan"
    ).tailnum


# Changes.


def change(uri: str) -> None:
    if uri.startswith(PLANES):
        Plane.objects.get(pk=key_of(uri)).save()
    else:
        Flight.objects.get(pk=key_of(uri)).save()


def move(uri: str) -> None:
    """Let a flight leave from elsewhere than JFK."""
    flight = Flight.objects.get(pk=key_of(uri))
    flight.origin_id = "EWR"
    flight.save()


def delete(uri: str) -> None:
    flight = Flight.objects.filter(pk=key_of(uri)).first()
    if flight is None:
        # The database went away after it had committed, and before it could say so: nobody knows, nobody is told.
        raise Unknown
    flight.delete()


class Told:
    """The moments around a commit: before it nobody can have been told of it, and after it nobody of what was before.

    ``committed`` is taken ahead of every other callback: nothing of ours has told of the commit by then.
    """

    def __init__(self) -> None:
        self.before = self.committed = 0.0

    def begin(self) -> None:
        transaction.on_commit(self._note)

    def _note(self) -> None:
        self.committed = time.monotonic()


def commit(work: Callable[[], None], uris: Iterable[str]) -> None:
    """Do the work in a transaction until it is committed, however often the database goes away, and say when."""
    while True:
        told = Told()
        try:
            with transaction.atomic():
                told.begin()
                work()
                told.before = time.monotonic()
        except Unknown:
            say(unknown=list(uris))
            return
        except (DatabaseError, InterfaceError):
            _wait_for_the_database()
            continue
        say(before=told.before, committed=told.committed, uris=list(uris))
        return


def commit_alone(uri: str) -> None:
    """Change a row outside of any transaction."""
    while True:
        before = time.monotonic()
        try:
            change(uri)
        except (DatabaseError, InterfaceError):
            _wait_for_the_database()
            continue
        say(before=before, committed=before, uris=[uri])
        return


def roll_back(uris: Iterable[str]) -> None:
    """Change rows in a transaction, and in a savepoint of it, that is rolled back."""
    try:
        with transaction.atomic():
            for uri in uris:
                with transaction.atomic():
                    change(uri)
            raise RolledBack
    except RolledBack:
        pass
    except (DatabaseError, InterfaceError):
        _wait_for_the_database()


def _change_with_rolled_back_savepoint(uris: list[str], phantoms: list[str]) -> None:
    for uri in uris:
        change(uri)
    try:
        with transaction.atomic():
            for uri in phantoms:
                change(uri)
            raise RolledBack
    except RolledBack:
        pass


def _wait_for_the_database() -> None:
    connection.close()
    time.sleep(_RETRY_SECONDS)


class Series:
    """Transactions in an order that a seed decides, until it is stopped."""

    def __init__(self, line: dict[str, Any], commands: queue.SimpleQueue[dict[str, Any]]) -> None:
        self._random = random.Random(line["seed"])
        self._uris: list[str] = line["uris"]
        self._phantoms: list[str] = line["phantoms"]
        self._rolled_back: float = line["rolled_back"]
        self._pause: float = line["pause"]
        self._most: int = line["most"]
        self._least: int = line["least"]
        #: Done once each, among the others.
        self._once = [(move, uri) for uri in line.get("move", ())] + [(delete, uri) for uri in line.get("delete", ())]
        self._commands = commands

    def run(self) -> None:
        done = 0
        while self._commands.empty() or done < self._least or self._once:
            self._step()
            done += 1
            time.sleep(self._pause)
        self._commands.get()

    def _step(self) -> None:
        random = self._random
        if self._once and random.random() < 0.3:
            work, uri = self._once.pop()
            commit(lambda: work(uri), [uri])
            return
        uris = random.sample(self._uris, min(len(self._uris), random.randint(1, self._most)))
        phantoms = random.sample(self._phantoms, min(len(self._phantoms), 2))
        if random.random() < self._rolled_back:
            roll_back([*phantoms, *uris])
            return
        match random.randrange(3):
            case 0:
                commit(lambda: [change(uri) for uri in uris] and None, uris)
            case 1:
                commit(lambda: _change_with_rolled_back_savepoint(uris, phantoms), uris)
            case 2:
                commit_alone(uris[0])


def main() -> None:
    if len(sys.argv) > 1:
        for uri in sys.argv[1:]:
            commit(lambda uri=uri: change(uri), [uri])  # type: ignore[misc]
        return
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            commands.put(json.loads(line))
        commands.put({"do": "end"})

    threading.Thread(target=read, daemon=True).start()
    while True:
        line = commands.get()
        match line["do"]:
            case "users":
                say(done=users(line["each"]))
            case "tokens":
                say(done=tokens(line["number"]))
            case "rows":
                say(done=rows(line["pairs"]).to_json())
            case "move":
                for uri in line["uris"]:
                    commit(lambda uri=uri: move(uri), [uri])  # type: ignore[misc]
                say(done=None)
            case "change":
                for uri in line["uris"]:
                    commit(lambda uri=uri: change(uri), [uri])  # type: ignore[misc]
                say(done=None)
            case "series":
                Series(line, commands).run()
                say(done=None)
            case "end":
                return


if __name__ == "__main__":
    main()
