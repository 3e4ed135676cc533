"""Asking for completions, without a transport."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from demo_project.flights.models import Flight
from tests.support.asking import DirectPeer
from tests.support.data import make_flights
from tests.support.peers import MODERN, Message, Peer

FLIGHT = "db://flights/flight/{id}"

QUERY = "db://flights/flight{?origin}"


def ask(peer: Peer, ref: str, name: str, typed: str = "", revision: str = MODERN, /, **others: str) -> Message:
    """The answer to a completion; ``ref`` is a URI, or the name of a prompt."""
    kind = {"type": "ref/resource", "uri": ref} if "://" in ref else {"type": "ref/prompt", "name": ref}
    params: Message = {"ref": kind, "argument": {"name": name, "value": typed}}
    if others:
        params["context"] = {"arguments": others}
    return peer.request(revision, "completion/complete", params)


def suggested(peer: Peer, ref: str, name: str, typed: str = "", /, **others: str) -> list[str]:
    values: list[str] = ask(peer, ref, name, typed, **others)["result"]["completion"]["values"]
    return values


def refused(peer: Peer, ref: str, name: str, typed: str = "") -> Any:
    error = ask(peer, ref, name, typed)["error"]
    assert error["code"] == -32602
    return error


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(12)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def many(root: DirectPeer) -> DirectPeer:
    """Flights with every key from 1 to 2,500."""
    first = Flight.objects.get(pk=1)
    Flight.objects.bulk_create(
        Flight(id=key, carrier=first.carrier, number=10_000 + key, origin=first.origin, destination=first.destination,
               departs_at=first.departs_at, distance=1)
        for key in range(13, 2_501)
    )  # fmt: skip
    return root
