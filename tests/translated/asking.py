"""Asks an agent's questions of the project, and prints what is wrong with the answers to each.

What is right is what the package gives for an attribute of an instance, in the language of the call.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import QuerySet
from django.test import Client
from django.test.utils import setup_test_environment
from django.utils import translation

from mcp_django import site
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import AccessToken, Tool
from mcp_django.protocol.jsonrpc import encode
from tests.bridge.writes.conftest import Writer
from tests.translated.models import Animal, Visit

SPOKEN = os.environ.get("SPOKEN", "")
#: The language of the answers, and another one, which the thread has.
LANGUAGE = SPOKEN or settings.LANGUAGE_CODE
OTHER = {"en": "de", "de": "en"}[LANGUAGE]
FIELDS = ["name", "about", "price", "seen"]
MODEL = "translated.animal"
ROWS: list[dict[str, Any]] = [
    {"name_en": "Cat", "name_de": "Katze", "price_en": Decimal("1.50"), "seen_en": "2013-01-31"},
    {"name_en": "Dog", "about_de": "bellt", "price_de": Decimal("2.25")},
    {"name_en": "Ape", "name_de": "", "about_en": "climbs", "about_de": ""},
    {"name_en": "Bear", "name_de": "Bär", "price_en": Decimal("9"), "price_de": Decimal("1.50"),
     "seen_de": "2014-02-01"},
    {"name_en": "Ant", "name_de": "Ameise", "legs": 6},
]  # fmt: skip


def main() -> None:
    setup_test_environment()
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0)
    try:
        answers = ask_all()
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)
    print(json.dumps(answers, default=str))


def ask_all() -> dict[str, Any]:
    Tool.objects.filter(name__in=[tool.name for tool in WRITE_TOOLS]).update(enabled=True)
    for number, row in enumerate(ROWS):
        # Whoever saves it decides what is in the original columns.
        with translation.override(("en", "de")[number % 2]):
            Visit.objects.create(animal=Animal.objects.create(**row))
    if SPOKEN:
        type(site).call_context = lambda site, request: translation.override(SPOKEN)  # type: ignore[method-assign]
    peer = Writer(User.objects.create_superuser("root"))
    return {name: check(peer) for name, check in CHECKS.items()}


def shown() -> dict[int, list[Any]]:
    """What the package shows of each row, as JSON, by its key."""
    with translation.override(LANGUAGE):
        rows = {row.pk: [getattr(row, name) for name in FIELDS] for row in Animal.objects.all()}
    return {key: [None if value is None else str(value) for value in row] for key, row in rows.items()}


def find(peer: Writer, **asked: Any) -> list[list[Any]]:
    """All rows, page by page, asked for in a thread of another language."""
    found, cursor = [], {}
    while True:
        with translation.override(OTHER):
            page = peer.ask("find_records", **{"model": MODEL, "fields": FIELDS, **asked, **cursor})
        found += page["rows"]
        if "next_cursor" not in page:
            return found
        cursor = {"cursor": page["next_cursor"]}
        assert len(found) < 100, "the pages do not end"


def values(peer: Writer) -> Any:
    right = [[key, *row] for key, row in shown().items()]
    paged = {limit: find(peer, limit=limit) for limit in (1, 2, 500)}
    records = [peer.ask("get_record", model=MODEL, id=str(key)) for key in shown()]
    behind = find(peer, model="translated.visit", fields=[f"animal__{name}" for name in FIELDS])
    return {
        **{f"limit {limit}": rows for limit, rows in paged.items() if rows != right},
        **({"records": records} if [[one["id"], *(one[name] for name in FIELDS)] for one in records] != right else {}),
        **({"behind": behind} if [row[1:] for row in behind] != [row[1:] for row in right] else {}),
    }


def orders(peer: Writer) -> Any:
    wrong = {}
    for name in FIELDS:
        for order in (name, f"-{name}"):
            whole, *paged = ([row[0] for row in find(peer, order_by=[order], limit=limit)] for limit in (500, 1, 2))
            if sorted(whole) != sorted(shown()) or any(rows != whole for rows in paged):
                wrong[order] = [whole, *paged]
    return wrong


def filters(peer: Writer) -> Any:
    wrong = {}
    for place, name in enumerate(FIELDS):
        for value in {row[place] for row in shown().values()}:
            for path, model in ((name, MODEL), (f"animal__{name}", "translated.visit")):
                for asked, is_not in (({path: value}, False), ({"not": {path: value}}, True)):
                    found = {row[0] for row in find(peer, model=model, filter=asked, fields=["id"])}
                    right = {key for key, row in shown().items() if (row[place] == value) != is_not}
                    if found != right:
                        wrong[f"{asked}"] = [sorted(found), sorted(right)]
    return wrong


def groups(peer: Writer) -> Any:
    table = peer.ask("aggregate_records", model=MODEL, group_by=["name"], measures=["count", "sum:price"])
    right = sorted([row[0], 1, row[2]] for row in shown().values())
    [[total]] = peer.ask("aggregate_records", model=MODEL, measures=["sum:price"])["rows"]
    sums = sum(Decimal(row[2]) for row in shown().values() if row[2])
    same = sorted(table["rows"]) == right and Decimal(total) == sums
    return {} if same else {"groups": table["rows"], "right": right, "total": total}


def columns(peer: Writer) -> Any:
    described = json.dumps(peer.ask("describe_models", model=MODEL))
    return [name for field in FIELDS for name in (f"{field}_en", f"{field}_de") if f'"{name}"' not in described]


def both(peer: Writer) -> Any:
    """The columns of each language, whatever the language is."""
    found = find(peer, fields=["name_en", "name_de"], filter={"name_de": "Katze"})
    return {} if [row[1:] for row in found] == [["Cat", "Katze"]] else found


def cursor(peer: Writer) -> Any:
    """A cursor belongs to its language."""
    given = peer.ask("find_records", model=MODEL, order_by=["name"], limit=1)["next_cursor"]
    before, settings.LANGUAGE_CODE = settings.LANGUAGE_CODE, OTHER
    try:
        with without_context():
            told = peer.refused("find_records", model=MODEL, order_by=["name"], limit=1, cursor=given)
    finally:
        settings.LANGUAGE_CODE = before
    return {} if "cursor" in told else told


@contextmanager
def without_context() -> Iterator[None]:
    given = type(site).call_context
    type(site).call_context = lambda site, request: translation.override(OTHER)  # type: ignore[method-assign]
    try:
        yield
    finally:
        type(site).call_context = given  # type: ignore[method-assign]


def writes(peer: Writer) -> Any:
    made = peer.confirmed("create_record", model=MODEL, values={"name_en": "Owl", "name_de": "Eule"})
    key = int(made["record"].rpartition("/")[2])
    changed = peer.confirmed("update_record", model=MODEL, id=str(key), values={"name_de": "Uhu", "about_en": "hoots"})
    stored = QuerySet(Animal).filter(pk=key).values("name_en", "name_de", "about_en", "about_de", "about").get()
    Animal.objects.filter(pk=key).delete()
    right = {"name_en": "Owl", "name_de": "Uhu", "about_en": "hoots", "about_de": "", "about": "hoots"}
    names = {one["field"] for one in changed["diff"]}
    return {} if stored == right and names == {"name_de", "about_en"} else {"stored": stored, "diff": changed["diff"]}


def roads(peer: Writer) -> Any:
    """The language of a browser does not count, and a resource says the same as a tool."""
    token = AccessToken.objects.create_token(user=peer.user)[1]
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
    client = Client(headers={**headers, "Accept-Language": OTHER, "Mcp-Protocol-Version": "2025-06-18"})

    def ask(method: str, params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return client.post("/mcp", encode(message), content_type="application/json").json()["result"]

    table = ask("tools/call", {"name": "find_records", "arguments": {"model": MODEL, "fields": ["name"]}})
    names = [row[1] for row in table["structuredContent"]["rows"]]
    read = [
        json.loads(ask("resources/read", {"uri": f"db://translated/animal/{key}"})["contents"][0]["text"])["name"]
        for key in shown()
    ]
    right = [row[0] for row in shown().values()]
    return {} if names == read == right else {"tool": names, "resource": read, "right": right}


CHECKS = {check.__name__: check for check in (values, orders, filters, groups, columns, both, cursor, writes, roads)}
