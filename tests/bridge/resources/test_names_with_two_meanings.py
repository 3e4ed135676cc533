"""Fields named as lookups, as parts of dates and as words of our own: each name means one thing, everywhere.

The numbers are such that the key of a related row, its field of any name and the row's own field of that name differ.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models

from mcp_django import site
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import WORDS, Bell, Footnote, Moment, Rule, Ruling, SpecialRule
from tests.support.asking import DirectPeer, all_rows, errors_of, rights_on
from tests.support.declared import Declared

pytestmark = [pytest.mark.every_database, pytest.mark.slow]

LOOKUPS: dict[str, tuple[Callable[[Any, Any], bool], Any]] = {
    "exact": (operator.eq, 2),
    "in": (lambda held, values: held in values, [1, 3]),
    "range": (lambda held, ends: ends[0] <= held <= ends[1], [2, 3]),
    "gt": (operator.gt, 1),
    "gte": (operator.ge, 2),
    "lt": (operator.lt, 3),
    "lte": (operator.le, 2),
    "isnull": (lambda held, wanted: (held is None) == wanted, True),
}
KEYS = range(1, 5)


def number(key: int, word: str, shift: int) -> int | None:
    """What the row with this key holds in the field of this name: every value from 1 to 4, or null."""
    found = (key + WORDS.index(word) + shift) % 5
    return found or None


def numbers(key: int, shift: int) -> dict[str, int | None]:
    return {word: number(key, word, shift) for word in WORDS}


@pytest.fixture(autouse=True)
def tables(db: None, declared: Declared) -> None:
    for model in (Rule, Ruling, Footnote, SpecialRule, Moment, Bell):
        declared.model(model, fields="__all__")
    Rule.objects.bulk_create([Rule(pk=key, **numbers(key, 0)) for key in KEYS])
    Ruling.objects.bulk_create(Ruling(pk=10 + key, rule_id=key % 4 or None, **numbers(key, 2)) for key in (*KEYS, 5, 6))
    Footnote.objects.bulk_create([Footnote(rule_id=key, **numbers(key, 3)) for key in (1, 2, 4)])


@pytest.fixture
def user(db: None) -> Any:
    return User.objects.create_superuser("root", password="sesame")


def held(row: Any, path: str) -> Any:
    """The value of a path, as Python reads it; null beyond a null."""
    for name in path.split("__"):
        row = None if row is None else getattr(row, name)
    return row.pk if isinstance(row, models.Model) else row


def paths_of_ruling() -> Iterator[str]:
    yield "rule__pk"
    for word in WORDS:
        yield word
        yield f"rule__{word}"


def matching(model: type[models.Model], user: Any, asked: Any) -> set[Any]:
    return set(rows.matching(rights_on(model, user), rows.RecordQuery(filter=asked)).values_list("pk", flat=True))


def test_each_condition_and_its_not_are_answered_as_python_does(user: Any) -> None:
    rulings = list(Ruling.objects.select_related("rule"))
    wrong = []
    for path in paths_of_ruling():
        for lookup, (holds, value) in LOOKUPS.items():
            wanted = {
                row.pk for row in rulings
                if (one := held(row, path)) is not None or lookup == "isnull" if holds(one, value)
            }  # fmt: skip
            asked = {f"{path}__{lookup}": value}
            if matching(Ruling, user, asked) != wanted:
                wrong.append(asked)
            if matching(Ruling, user, {"not": asked}) != {row.pk for row in rulings} - wanted:
                wrong.append({"not": asked})

    assert not wrong


def test_conditions_on_the_rows_that_point_to_a_row(user: Any) -> None:
    rulings = list(Ruling.objects.all())
    wrong = []
    for word in WORDS:
        wanted = {row.rule_id for row in rulings if row.rule_id and held(row, word) == 2}
        counted = {key for key in KEYS if sum(row.rule_id == key for row in rulings) == 2}
        for asked in ({"rulings": {f"{word}__exact": 2}}, {f"rulings__{word}": 2}, {f"rulings__{word}__exact": 2}):
            # The one word of which a relation itself has a meaning.
            means_number = word == "count" and "rulings" not in asked
            if matching(Rule, user, asked) != (counted if means_number else wanted):
                wrong.append(asked)

    assert not wrong


def test_a_key_is_compared_as_a_key_whatever_the_row_behind_it_holds(user: Any) -> None:
    of_field = set(Ruling.objects.filter(rule__exact=1).values_list("pk", flat=True))
    for asked, wanted in (
        ({"rule": 2}, {12, 16}), ({"rule": 1}, {11, 15}), ({"rule": None}, {14}),
        ({"rule__pk__in": [1, 3]}, {11, 13, 15}),
        ({"not": {"rule": None}}, {11, 12, 13, 15, 16}), ({"rule": {"exact": 1}}, of_field),
    ):  # fmt: skip
        assert matching(Ruling, user, asked) == wanted, asked


def test_a_hidden_field_is_not_reached_by_the_name_of_a_lookup(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Rule.objects.filter(pk=3).update(exact=4711, **{"in": 4711})
    monkeypatch.setattr(site.models["shop.rule"], "exclude", ("exact", "isnull", "in"))

    assert matching(Ruling, user, {"any": [*[{"rule": 1}] * 5, {"rule": 4711}]}) == {11, 15}
    assert matching(Ruling, user, {"rule__exact": 3}) == {13}
    assert matching(Ruling, user, {"rule__in": [3, 4711]}) == {13}
    assert matching(Ruling, user, {"rule__isnull": True}) == {14}


def test_orders_and_their_pages_give_each_row_once(user: Any) -> None:
    wrong = []
    for path in ("rule", *paths_of_ruling()):
        for sign in ("", "-"):
            order = [sign + path.removesuffix("__pk")]
            whole = all_rows(Ruling, user, order_by=order, fields=["id", order[0].removeprefix("-")], limit=100)
            paged = all_rows(Ruling, user, order_by=order, fields=["id", order[0].removeprefix("-")], limit=2)
            values = [value for _, value in whole if value is not None]
            if paged != whole or len({key for key, _ in whole}) != 6 or values != sorted(values, reverse=sign == "-"):
                wrong.append(order)

    assert not wrong


def test_groups_and_measures_and_conditions_on_them(user: Any) -> None:
    peer, rulings = DirectPeer(user), list(Ruling.objects.select_related("rule"))
    wrong = []
    for path in paths_of_ruling():
        if path == "rule__pk":
            continue
        found = peer.call(
            "aggregate_records", model="shop.ruling", group_by=["rule"], measures=[f"sum:{path}", "count"]
        )
        sums = {row[0]: row[1] for row in found["structuredContent"]["rows"]}
        wanted: dict[Any, Any] = {}
        for row in rulings:
            value = held(row, path)
            wanted[row.rule_id] = (
                (wanted.get(row.rule_id) or 0) + value if value is not None else wanted.get(row.rule_id)
            )
        having = peer.call(
            "aggregate_records", model="shop.ruling", group_by=["rule"], measures=["count"], having={f"sum:{path}": 3}
        )
        grouped = peer.call("aggregate_records", model="shop.ruling", group_by=[path], measures=["count:id"])
        of_three = {row[0] for row in having["structuredContent"]["rows"]}
        counts = {row[0]: row[1] for row in grouped["structuredContent"]["rows"]}
        values = [held(row, path) for row in rulings]
        if sums != wanted or of_three != {key for key, one in wanted.items() if one == 3}:
            wrong.append(path)
        if counts != {value: values.count(value) for value in values}:
            wrong.append(f"group {path}")

    assert not wrong


def test_no_table_has_two_columns_of_one_name(user: Any) -> None:
    peer = DirectPeer(user)

    [error] = errors_of(peer.call("aggregate_records", model="shop.ruling", group_by=["count"], measures=["count"]))
    found = peer.call("aggregate_records", model="shop.ruling", group_by=["count"], measures=["count:id"])

    assert error == {
        "field": "measures",
        "message": "count is a field to group by, and the number of rows, which is also count:id. No table has two "
        "columns of one name.",
        "received": "count",
    }
    assert found["structuredContent"]["columns"] == ["count", "count:id"]


def test_a_uri_names_fields_as_a_filter_does(user: Any) -> None:
    peer, wrong = DirectPeer(user), []
    for word in WORDS:
        for name in (f"{word}__exact", f"rule__{word}__exact"):
            content = peer.read(f"db://shop/ruling?{name}=2&limit=100")
            found = {row[0] for row in content["rows"]}
            if found != matching(Ruling, user, {name: 2}):
                wrong.append(name)

    assert not wrong


def test_a_search_looks_into_the_field_that_it_names(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in WORDS:
        monkeypatch.setattr(site.models["shop.ruling"], "search_fields", (f"=rule__{word}",))
        found = {row[0] for row in all_rows(Ruling, user, search="2", fields=["id"])}
        assert found == set(Ruling.objects.filter(**{f"rule__{word}__exact": 2}).values_list("pk", flat=True)), word


@pytest.mark.parametrize("model", [Footnote, SpecialRule])
def test_rows_whose_key_leads_to_such_a_row(model: type[models.Model], user: Any) -> None:
    for key in (21, 22) if model is SpecialRule else ():
        SpecialRule.objects.create(pk=key, **numbers(key, 1))
    keys = sorted(model._default_manager.values_list("pk", flat=True))
    peer, label = DirectPeer(user), model._meta.label_lower

    assert [row[0] for row in all_rows(model, user, limit=1)] == keys
    assert [row[0] for row in all_rows(model, user, filter={"pk__in": keys[:2]})] == keys[:2]
    assert [row[0] for row in all_rows(model, user, filter={"pk__gt": keys[0]})] == keys[1:]
    assert peer.call("get_record", model=label, id=str(keys[1]))["structuredContent"]["exact"] == number(
        keys[1], "exact", 1 if model is SpecialRule else 3
    )


def test_a_key_named_as_a_part_of_a_date_is_no_part(user: Any) -> None:
    early, late = (Moment.objects.create(hour=f"2013-01-0{day}T08:30:00Z") for day in (1, 2))
    bells = [Bell.objects.create(moment_id=moment.hour) for moment in (early, late)]

    assert matching(Bell, user, {"moment__gte": "2013-01-02"}) == {bells[1].pk}
    assert [row[0] for row in all_rows(Bell, user, filter={"moment__lt": "2013-01-02"})] == [bells[0].pk]
    assert [row[0] for row in all_rows(Bell, user, filter={"moment__hour": "2013-01-02"})] == [bells[1].pk]


def test_the_description_says_how_a_field_count_is_named(user: Any) -> None:
    described = DirectPeer(user).call("describe_models", model="shop.rule")["structuredContent"]

    assert described["relations_help"].endswith('A field count is {"rulings": {"count": ..}}.')
