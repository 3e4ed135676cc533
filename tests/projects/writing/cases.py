"""What a person and an agent change by the ModelAdmins of packages. Each function is a case.

No case is of what an agent is not offered: translations into another language than that of the site, which are pages
of their own (``?language=de``), imports and exports, and permissions on single rows, which are views beside the form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from djmoney.money import Money
from simple_history.models import HistoricalRecords

from mcp_django import MCPSite, ModelMCP
from mcp_django.core.db.stored_columns import stored_columns
from mcp_django.test import MCPClient
from tests.bridge.writes.lab.comparing import Laboratory, Outcome
from tests.projects.writing.studio.models import (
    Clause,
    Contract,
    Folder,
    Genre,
    Lamp,
    Place,
    Poll,
    Prop,
    Scene,
    Section,
    Show,
    Step,
    Take,
    Task,
    Title,
    Track,
    Wardrobe,
)

F = TypeVar("F", bound=Callable[[Laboratory], None])
#: Why a case cannot work. It fails; once it does not, its reason goes.
CANNOT: dict[str, str] = {}


def cannot(reason: str) -> Callable[[F], F]:
    def mark(case: F) -> F:
        CANNOT[case.__name__] = reason
        return case

    return mark


def names(made: Outcome, model: Any) -> list[Any]:
    return [row["name"] for row in made.of(model)]


# django-reversion.


def contract() -> Contract:
    made = Contract.objects.create(name="lease", amount=10)
    made.clauses.create(text="rent")
    return made


def test_a_new_row_has_a_version(lab: Laboratory) -> None:
    made = lab.same(
        Contract,
        values={"name": "lease", "amount": 5},
        rows={"clauses": [{"text": "rent"}]},
        typed={"name": "lease", "amount": "5", "clauses-0-text": "rent"},
    )

    assert [version["object_repr"] for version in made.rows["reversion.version"]] == ["lease", "rent"]
    assert made.rows["reversion.revision"][0]["user_id"] == lab.user.pk


def test_a_changed_row_has_a_version_with_its_clauses_and_links(lab: Laboratory) -> None:
    lease, folder = contract(), Folder.objects.create(name="cellar")
    [clause] = lease.clauses.all()

    made = lab.same(
        Contract,
        lease,
        values={"amount": 20, "files": [folder.pk]},
        rows={"clauses": [{"pk": clause.pk, "text": "more rent"}, {"text": "deposit"}]},
        typed={"amount": "20", "files": [folder.pk], "clauses-0-text": "more rent", "clauses-1-text": "deposit"},
    )

    assert len(made.rows["reversion.revision"]) == 1
    assert made.rows["reversion.revision"][0]["comment"].startswith("Changed Amount and Files.")


def test_a_deleted_row_of_an_inline_has_a_last_version(lab: Laboratory) -> None:
    lease = contract()
    [clause] = lease.clauses.all()

    made = lab.same(
        Contract, lease, rows={"clauses": [{"pk": clause.pk, "delete": True}]}, typed={"clauses-0-DELETE": True}
    )

    assert made.of(Clause) == []


# django-simple-history.


def test_the_history_of_a_new_row_names_its_user(lab: Laboratory) -> None:
    made = lab.same(Poll, values={"name": "lunch", "opened": "2024-05-01"})

    [history] = made.rows["studio.historicalpoll"]
    assert (history["history_type"], history["history_user_id"]) == ("+", lab.user.pk)


def test_the_history_of_a_changed_row_names_its_user(lab: Laboratory) -> None:
    made = lab.same(Poll, Poll.objects.create(name="lunch"), values={"name": "dinner"})

    history = made.rows["studio.historicalpoll"][-1]
    assert (history["history_type"], history["name"], history["history_user_id"]) == ("~", "dinner", lab.user.pk)


class HistorySite(MCPSite):
    """Tells simple_history who asks, as its middleware does for pages."""

    @contextmanager
    def call_context(self, request: Any) -> Iterator[None]:
        HistoricalRecords.context.request = request
        try:
            yield
        finally:
            del HistoricalRecords.context.request


def test_the_history_of_rows_of_an_inline_names_the_user_that_call_context_tells(lab: Laboratory) -> None:
    lab.site = HistorySite("history", admin_site=admin.site)
    poll = Poll.objects.create(name="lunch")

    made = lab.same(Poll, poll, rows={"choices": [{"text": "soup"}]}, typed={"choices-0-text": "soup"})

    assert made.rows["studio.historicalchoice"][0]["history_user_id"] == lab.user.pk


@cannot("simple_history knows the user of an inline's row from its middleware alone: call_context must tell it")
def test_the_history_of_rows_of_an_inline_names_the_user(lab: Laboratory) -> None:
    poll = Poll.objects.create(name="lunch")

    lab.same(Poll, poll, rows={"choices": [{"text": "soup"}]}, typed={"choices-0-text": "soup"})


# django-import-export.


def test_a_row_that_can_be_imported_is_made(lab: Laboratory) -> None:
    made = lab.same(Track, values={"name": "Kashmir", "seconds": 517, "price": "1.29"})

    assert [(row["name"], row["seconds"]) for row in made.of(Track)] == [("Kashmir", 517)]


def test_a_row_that_can_be_exported_is_changed(lab: Laboratory) -> None:
    made = lab.same(Track, Track.objects.create(name="Kashmir", seconds=500), values={"seconds": 517, "price": "1.29"})

    assert [row["seconds"] for row in made.of(Track)] == [517]


# django-guardian.


def test_the_owner_of_a_row_changes_it(lab: Laboratory) -> None:
    task = Task.objects.create(name="sweep", owner=lab.user)

    made = lab.same(Task, task, values={"name": "mop"})

    assert names(made, Task) == ["mop"]


def test_a_row_of_somebody_else_is_absent(lab: Laboratory) -> None:
    clerk = User.objects.create_user("clerk", is_staff=True)
    clerk.user_permissions.set(Permission.objects.filter(content_type__app_label="studio"))
    lab.user = clerk
    task = Task.objects.create(name="sweep", owner=User.objects.create_user("other"))

    refused = lab.refused(Task, task, values={"name": "mop"})

    assert "There is no such record." in str(refused)


# django-mptt.


def genres() -> dict[str, Genre]:
    """Rock with punk and metal below it, and jazz."""
    rock, jazz = Genre.objects.create(name="rock"), Genre.objects.create(name="jazz")
    below = [Genre.objects.create(name=name, parent=rock) for name in ("punk", "metal")]
    return {one.name: one for one in (rock, jazz, *below)}


def placed(made: Outcome, model: Any) -> dict[str, tuple[int, int, int]]:
    """Where each node stands in its tree."""
    return {row["name"]: (row["lft"], row["rght"], row["level"]) for row in made.of(model)}


def test_a_row_of_a_tree_is_made_below_another_one(lab: Laboratory) -> None:
    found = genres()

    made = lab.same(Genre, values={"name": "ska", "parent": str(found["rock"].pk)})

    assert placed(made, Genre)["ska"] == (6, 7, 1)


def test_a_row_of_a_tree_is_moved_below_another_one(lab: Laboratory) -> None:
    found = genres()

    made = lab.same(Genre, Genre.objects.get(pk=found["punk"].pk), values={"parent": str(found["jazz"].pk)})

    assert placed(made, Genre)["punk"] == (2, 3, 1)
    assert placed(made, Genre)["rock"] == (1, 4, 0)


def test_a_row_of_a_tree_is_not_moved_below_itself(lab: Laboratory) -> None:
    found = genres()

    lab.refused(Genre, Genre.objects.get(pk=found["rock"].pk), values={"parent": str(found["punk"].pk)})


def test_a_row_of_a_tree_that_people_drag_is_renamed(lab: Laboratory) -> None:
    made = lab.same(Place, Place.objects.create(name="hall"), values={"name": "foyer"})

    assert names(made, Place) == ["foyer"]


# django-treebeard.


def test_a_node_is_made_at_a_place_that_is_named(lab: Laboratory) -> None:
    lab.previews_may_write = True

    made = lab.same(
        Section,
        values={"name": "strings", "treebeard_position": "sorted-child", "treebeard_ref_node": ""},
    )

    assert [(row["name"], row["path"]) for row in made.of(Section)] == [("strings", "0001")]


def test_a_node_is_made(lab: Laboratory) -> None:
    lab.previews_may_write = True

    made = lab.same(Section, values={"name": "strings"})

    assert [(row["name"], row["path"]) for row in made.of(Section)] == [("strings", "0001")]


def test_a_node_is_renamed(lab: Laboratory) -> None:
    lab.previews_may_write = True
    node = Section.add_root(name="strings")

    made = lab.same(Section, node, values={"name": "brass"})

    assert names(made, Section) == ["brass"]


def test_a_node_is_made_below_another_one(lab: Laboratory) -> None:
    lab.previews_may_write = True
    node = Section.add_root(name="strings")

    made = lab.same(
        Section,
        values={"name": "violins", "treebeard_position": "sorted-child", "treebeard_ref_node": str(node.pk)},
    )

    assert [row["path"] for row in made.of(Section)] == ["0001", "00010001"]


def test_a_node_is_moved_behind_another_one(lab: Laboratory) -> None:
    lab.previews_may_write = True
    one, other = Step.add_root(name="one"), Step.add_root(name="other")

    made = lab.same(
        Step,
        Step.objects.get(pk=one.pk),
        values={"treebeard_position": "right", "treebeard_ref_node": str(other.pk)},
    )

    assert {row["name"]: row["path"] for row in made.of(Step)} == {"one": "0003", "other": "0002"}


# django-parler.

#: A template that each ModelAdmin looks for once.
TEMPLATE = frozenset({"TranslatableAdmin.default_change_form_template"})


def test_a_row_is_made_with_its_translation(lab: Laboratory) -> None:
    lab.uncounted = TEMPLATE

    made = lab.same(Title, values={"title": "The Wall", "number": 3})

    assert [row["language_code"] for row in made.rows["studio.titletranslation"]] == ["en"]


def test_the_translation_of_the_language_is_changed_and_others_stay(lab: Laboratory) -> None:
    title = Title.objects.language("en").create(title="The Wall", number=3)
    title.create_translation("de", title="Die Mauer")
    lab.uncounted = TEMPLATE

    made = lab.same(Title, Title.objects.get(pk=title.pk), values={"title": "A Wall"})

    assert [row["title"] for row in made.rows["studio.titletranslation"]] == ["A Wall", "Die Mauer"]


# django-nested-admin.


def show() -> Show:
    made = Show.objects.create(name="Hamlet")
    scene = made.scenes.create(name="ghost")
    scene.takes.create(note="too dark")
    return made


def test_a_row_with_rows_below_those_of_its_inline_is_renamed(lab: Laboratory) -> None:
    made = lab.same(Show, show(), values={"name": "Macbeth"})

    assert (names(made, Show), names(made, Scene), len(made.of(Take))) == (["Macbeth"], ["ghost"], 1)


@cannot("agents do not see inlines whose get_formset is not Django's, since it may choose rows")
def test_a_row_of_an_inline_with_rows_below_it_is_renamed(lab: Laboratory) -> None:
    hamlet = show()
    [scene] = hamlet.scenes.all()

    made = lab.same(Show, hamlet, rows={"scenes": [{"pk": scene.pk, "name": "king"}]}, typed={"scenes-0-name": "king"})

    assert (names(made, Scene), len(made.of(Take))) == (["king"], 1)


# Rows that are deleted.


def deleted(lab: Laboratory, row: Any) -> Outcome:
    """The row is deleted without a person who is asked."""
    lab.site.register(type(row), consent={"delete": "preview"})
    try:
        return lab.same_deletion(row)
    finally:
        lab.site.unregister(type(row))


def test_a_row_with_versions_is_deleted(lab: Laboratory) -> None:
    assert deleted(lab, contract()).of(Clause) == []


def test_the_history_of_a_deleted_row_stays(lab: Laboratory) -> None:
    lab.site = HistorySite("history", admin_site=admin.site)

    made = deleted(lab, Poll.objects.create(name="lunch"))

    assert [row["history_type"] for row in made.rows["studio.historicalpoll"]] == ["+", "-"]


def test_a_row_of_a_tree_is_deleted_with_those_below_it(lab: Laboratory) -> None:
    found = genres()

    made = deleted(lab, Genre.objects.get(pk=found["rock"].pk))

    assert names(made, Genre) == ["jazz"]


def test_a_node_is_deleted_with_those_below_it(lab: Laboratory) -> None:
    Section.add_root(name="strings").add_child(name="violins")

    assert deleted(lab, Section.objects.get(name="strings")).of(Section) == []


def test_the_preview_counts_the_nodes_below(lab: Laboratory) -> None:
    strings = Section.add_root(name="strings")
    strings.add_child(name="violins").add_child(name="first violins")

    with MCPClient(lab.user, scopes=["read", "write"], raise_exceptions=False) as agent:
        shown = agent.call("delete_record", model="studio.section", ids=[str(strings.pk)]).structured

    assert shown["deleted"] == {"studio.section": 3}


def test_a_row_that_belongs_to_a_class_below_is_deleted_as_one_of_that_class(lab: Laboratory) -> None:
    lamp = Lamp.objects.create(name="lamp")

    with MCPClient(lab.user, scopes=["read", "write"], raise_exceptions=False) as agent:
        refused = agent.call("delete_record", model="studio.prop", ids=[str(lamp.pk)], raise_on_error=False)
        new = agent.call("describe_form", model="studio.prop", raise_on_error=False)

    assert refused.text == "The admin shows it as a studio.lamp: name that model. Nothing was changed."
    assert "Create a studio.lamp" in new.text
    assert deleted(lab, lamp).of(Prop) == []


def test_a_row_is_deleted_with_its_translations(lab: Laboratory) -> None:
    lab.uncounted = TEMPLATE
    title = Title.objects.language("en").create(title="The Wall")

    assert deleted(lab, title).rows["studio.titletranslation"] == []


# Fields of packages.

#: What is stored, as a package or another program writes it.
STORED = {
    "price": "1234567.89", "price_currency": "USD", "phone": "+4930123456", "days": "tu,mo", "body": " *x*\r\ny ",
    "country": "NZ", "color": "#AbCdEf", "rich": "<p>a &amp; b</p>\n", "zone": "Europe/Berlin",
    "split": "short\n\n<!-- split -->\n\nlong ", "data": '{"b": 1.0, "a": 9007199254740993}',
}  # fmt: skip

#: What packages compute anew at each save.
DERIVED = ("_split_excerpt", "_body_rendered")


def test_fields_of_packages_stay_to_the_byte(lab: Laboratory) -> None:
    def stored() -> Any:
        found = stored_columns(Wardrobe, [row.pk], "default")[str(row.pk)]
        return {name: value for name, value in found.items() if name not in ("name", *DERIVED)}

    row, wrong = Wardrobe.objects.create(name="a"), {}
    with connection.cursor() as cursor:
        columns = ", ".join(f"{name} = %s" for name in STORED)
        cursor.execute(f"UPDATE studio_wardrobe SET {columns}", list(STORED.values()))
    before = stored()
    with MCPClient(lab.user, scopes=["read", "actions", "write"], raise_exceptions=False) as agent:
        record = agent.call("get_record", model="studio.wardrobe", id=str(row.pk)).structured
        for name in ("name", *(name for name in STORED if name in record)):
            values = {name: "b" if name == "name" else record[name]}
            asked = {"model": "studio.wardrobe", "id": str(row.pk), "values": values}
            shown = agent.call("update_record", **asked, raise_on_error=False)
            if not shown.is_error:
                shown = agent.call("update_record", **asked, confirm=shown.structured["confirm"], raise_on_error=False)
            if shown.is_error or stored() != before:
                wrong[name] = shown.text if shown.is_error else {k: v for k, v in stored().items() if v != before[k]}

        assert not wrong, wrong
        for values in ({"price": "12.00"}, {"days": ["mo"]}, {"phone": "+4930654321"}, {"country": "DE"}):
            asked = {"model": "studio.wardrobe", "id": str(row.pk), "values": values}
            confirm = agent.call("update_record", **asked).structured["confirm"]
            agent.call("update_record", **asked, confirm=confirm)
    row.refresh_from_db()
    assert (str(row.price), row.days, str(row.phone), row.country.code) == ("$12.00", ["mo"], "+4930654321", "DE")


def test_an_amount_is_written_with_its_currency(lab: Laboratory) -> None:
    row = Wardrobe.objects.create(name="a", price=Money("9.50", "EUR"))
    about = {"model": "studio.wardrobe", "id": str(row.pk)}
    with MCPClient(lab.user, scopes=["read", "actions", "write"], raise_exceptions=False) as agent:

        def written(tool: str = "update_record", **asked: Any) -> Any:
            confirm = agent.call(tool, **asked).structured["confirm"]
            return agent.call(tool, **asked, confirm=confirm).structured

        for values, price in (
            ({"price_currency": "USD"}, Money("9.50", "USD")),
            ({"price": "12.00", "price_currency": "GBP"}, Money("12.00", "GBP")),
            ({"price": "13.00", "price_currency": "GBP"}, Money("13.00", "GBP")),
            ({"price": None}, None),
        ):
            written(**about, values=values)
            row.refresh_from_db()
            assert row.price == price, values
        for currency, why in (("XXL", "must be one of"), (None, "must be one of"), ("USD", "is needed")):
            wrong = agent.call("update_record", **about, values={"price_currency": currency}, raise_on_error=False)
            assert why in wrong.errors[0]["message"], currency
        made = written(
            "create_record", model="studio.wardrobe", values={"name": "b", "price": "1.00", "price_currency": "JPY"}
        )
        described = agent.call("describe_form", **about).structured
        with patch.object(ModelMCP, "get_exclude", return_value=["price_currency"]):
            values = {"price": "2.00", "price_currency": "USD"}
            hidden = agent.call("update_record", **about, values=values, raise_on_error=False)
            form = agent.call("describe_form", **about).structured["fields"]
    assert "no field 'price_currency'" in hidden.errors[0]["message"]
    assert "urrency" not in form["price"].get("description", "")
    assert Wardrobe.objects.get(pk=made["id"]).price == Money("1.00", "JPY")
    assert "Its currency is price_currency" in described["fields"]["price"]["description"]
