"""A question and the page of a change show all that agreeing does, and no two changes look the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django import forms
from django.contrib import admin

from demo_project.flights.models import Disruption, Flight, Plane
from mcp_django.bridge.changes.row_names import NOTHING
from mcp_django.protocol.names import escaped, printable
from tests.bridge.writes.clicking import Browser
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.test_consent import FLIGHT, answer_of, confirmed, questions
from tests.shop.models import Keepsake, Part, Product, Shift, Supplier, Tag
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import MODERN, Message, Peer
from tests.support.talking import accept

#: Whatever one agrees to, and what the person reads of it.
Agree = Callable[..., str]


@pytest.fixture(params=["question", "page"])
def agree(request: pytest.FixtureRequest, transactional_db: None, mute: Peer, root: Writer, users: Users) -> Agree:
    """Makes a change of the administrator's agent, and returns the text that the administrator agrees to."""

    def by_question(tool: str = "update_record", **arguments: Any) -> str:
        mute.capabilities = {"elicitation": {}}
        said = confirmed(mute, MODERN, tool, accept(), **arguments)
        assert answer_of(said)["status"] == "applied"
        [text] = questions(said)
        return text

    def by_page(tool: str = "update_record", **arguments: Any) -> str:
        browser, key = Browser(users.admin), root.confirmed(tool, **arguments)["change"]
        page = browser.page(key).content.decode()
        assert browser.apply(key) == ["The change was made."]
        found = re.search(r"What it would change now</h2>(.*?)</fieldset>", page, re.S)
        assert found is not None
        return found[1]

    return by_question if request.param == "question" else by_page


def editor(**attrs: Any) -> type[admin.ModelAdmin[Any]]:
    return type("Editor", (admin.ModelAdmin,), {"list_display": ["name"], **attrs})


@pytest.fixture
def keepsake(declared: Declared) -> Callable[..., Keepsake]:
    declared.admin(Keepsake, editor(fields=["name", "word", "words", "data"]))
    declared.model(Keepsake, consent={"update": "ask"})
    return lambda **values: Keepsake.objects.create(name="k", **values)


@pytest.fixture
def part(declared: Declared) -> Part:
    """A part with the tags a and b, in an inline of its supplier."""

    class PartForm(forms.ModelForm):  # type: ignore[type-arg]
        refund = forms.IntegerField(required=False)

    class Parts(admin.TabularInline):  # type: ignore[type-arg]
        model = Part
        extra = 0
        form = PartForm
        fields = ["name", "tags", "refund"]
        fk_name = "supplier"

    class SupplierForm(forms.ModelForm):  # type: ignore[type-arg]
        paper = forms.FileField(required=False)

    declared.admin(Supplier, editor(inlines=[Parts], fields=["name", "paper"], form=SupplierForm))
    declared.admin(Tag, admin.ModelAdmin)
    declared.admin(Part, admin.ModelAdmin)
    declared.model(Supplier, consent={"update": "ask"})
    part = Part.objects.create(name="P", supplier=Supplier.objects.create(name="S"))
    part.tags.set([Tag.objects.create(name=name) for name in "abc"][:2])
    return part


def of_part(part: Part, **more: Any) -> Message:
    return {"model": "shop.supplier", "id": str(part.supplier_id), **more}


# All that it does.


def test_links_of_a_row_of_an_inline(agree: Agree, part: Part) -> None:
    text = agree(**of_part(part, rows={"parts": [{"pk": str(part.pk), "tags": ["c"]}]}))

    assert "tags" in text and "c" in text
    assert list(part.tags.values_list("pk", flat=True)) == ["c"]


def test_fields_that_the_form_alone_has(agree: Agree, part: Part) -> None:
    paper = {"name": "contract.txt", "base64": "YQ=="}

    text = agree(**of_part(part, values={"paper": paper}, rows={"parts": [{"pk": str(part.pk), "refund": 99_999}]}))

    assert "contract.txt" in text and "99999" in text


def test_what_goes_with_a_row_of_an_inline(agree: Agree, flights: Any, users: Users, declared: Declared) -> None:
    class Flights(admin.TabularInline):  # type: ignore[type-arg]
        model = Flight
        fk_name = "plane"
        extra = 0
        fields = ["notes"]

    declared.admin(Plane, editor(inlines=[Flights], fields=["year"], list_display=["year"]))
    plane = {"type": "Rotorcraft", "manufacturer": "m", "model": "x", "engines": 1, "seats": 2, "engine": "Turbo-fan"}
    Plane.objects.create(tailnum="N1", **plane)
    Flight.objects.filter(pk=3).update(plane="N1")
    Disruption.objects.create(flight_id=3, kind="weather", reported_by=users.ops)

    text = agree(model="flights.plane", id="N1", rows={"flights": [{"pk": "3", "delete": True}]})

    assert "disruption" in text.lower()
    assert not Disruption.objects.exists()


def test_links_that_are_removed(agree: Agree, declared: Declared) -> None:
    declared.admin(Product, editor(fields=["name", "tags"]))
    declared.admin(Tag, admin.ModelAdmin)
    declared.model(Product, consent={"update": "ask"})
    cup = Product.objects.create(name="cup")
    cup.tags.set([Tag.objects.create(name=name) for name in ("kept", "gone", "lost")])

    text = agree(model="shop.product", id=str(cup.pk), values={"tags": {"remove": ["gone", "lost"]}})

    assert "gone" in text and "lost" in text and text.count("kept") == 2


def test_what_the_form_makes_of_a_value(agree: Agree, flights: Any, declared: Declared) -> None:
    class FlightForm(forms.ModelForm):  # type: ignore[type-arg]
        def clean_distance(self) -> int:
            return int(self.cleaned_data["distance"]) * 100

    declared.admin(Flight, editor(fields=["notes", "distance"], form=FlightForm, list_display=["notes"]))
    declared.model(Flight, consent={"update": "ask"})

    assert "700" in agree(model=FLIGHT, id="3", values={"distance": 7})


def test_a_value_of_which_the_form_makes_another_one_each_time(agree: Agree, declared: Declared, users: Users) -> None:
    class ShiftForm(forms.ModelForm):  # type: ignore[type-arg]
        def clean_note(self) -> str:
            return f"{self.cleaned_data['note']} {uuid4().hex}"

    class Shifts(admin.TabularInline):  # type: ignore[type-arg]
        model = Shift
        extra = 0
        form = ShiftForm

    declared.admin(Product, editor(inlines=[Shifts], fields=["name"]))
    declared.model(Product, consent={"update": "ask"})
    cup = Product.objects.create(name="cup")
    shift = Shift.objects.create(product=cup, user=users.ops, note="kind")
    rows = [{"user": str(users.viewer.pk), "note": "of mine"}, {"pk": str(shift.pk), "note": "PAY EVE"}]

    text = agree(model="shop.product", id=str(cup.pk), rows={"shifts": rows})

    assert "PAY EVE" in text and "of mine" in text


def test_several_new_rows_of_an_inline(agree: Agree, declared: Declared, users: Users) -> None:
    class Shifts(admin.TabularInline):  # type: ignore[type-arg]
        model = Shift
        extra = 0

    declared.admin(Product, editor(inlines=[Shifts], fields=["name"]))
    declared.model(Product, consent={"update": "ask"})
    cup = Product.objects.create(name="cup")
    rows = [{"user": str(one.pk), "hours": 1} for one in (users.ops, users.viewer, users.admin)]

    text = agree(model="shop.product", id=str(cup.pk), values={"name": "mug"}, rows={"shifts": rows})

    assert [text.count(f"{one.pk} ({one})") for one in (users.ops, users.viewer, users.admin)] == [1, 1, 1]
    assert "hours" in text and Shift.objects.count() == 3


def test_a_long_text_whole(root: Writer, users: Users, transactional_db: None, keepsake: Any) -> None:
    one = keepsake(words="b" * 250_000)
    long = "a" * 80_000 + " PAY EVE"

    key = root.confirmed("update_record", model="shop.keepsake", id=str(one.pk), values={"words": long})["change"]

    assert long in Browser(users.admin).page(key).content.decode()


# No two look the same.


@pytest.mark.parametrize(("before", "after"), [
    ({"words": "a\\nb"}, {"words": "a\nb"}), ({"word": "x"}, {"word": "x\ufe0f"}),
    ({"word": "x"}, {"word": "x\U000e0100"}), ({"data": {"admin": 1}}, {"data": '{"admin":1}'}),
    ({"data": 1}, {"data": "1"}), ({"data": NOTHING}, {"data": None}), ({"word": ""}, {"word": NOTHING}),
    ({"word": ""}, {"word": '""'}),
])  # fmt: skip
def test_two_values(agree: Agree, keepsake: Any, before: Message, after: Message) -> None:
    text = agree(model="shop.keepsake", id=str(keepsake(**before).pk), values=after)

    was, now = re.findall(r"<td>(.*?)</td>", text, re.S) or text.rpartition(": ")[2].split(" → ")
    assert was != now
    assert all(printable(one.replace("\n", "")) == one.replace("\n", "") for one in (was, now))


def test_two_rows(agree: Agree, declared: Declared) -> None:
    declared.admin(Tag, editor())
    declared.model(Tag, consent={"delete": "ask"})
    for name in ("x\ny", "x\\ny"):
        Tag.objects.create(name=name)

    one, other = (agree("delete_record", model="shop.tag", ids=[key]) for key in ("x\ny", "x\\ny"))

    assert one != other


def test_links_to_one_row_that_is_called_like_two(agree: Agree, declared: Declared) -> None:
    declared.admin(Product, editor(fields=["name", "tags"]))
    declared.admin(Tag, admin.ModelAdmin)
    declared.model(Product, consent={"update": "ask"})
    for name in ("a", "b", "a, b"):
        Tag.objects.create(name=name)
    texts = []
    for keys in (["a", "b"], ["a, b"]):
        cup = Product.objects.create(name="cup")
        texts.append(agree(model="shop.product", id=str(cup.pk), values={"tags": keys}).rpartition("tags")[2])

    assert texts[0] != texts[1]


def test_two_choices(agree: Agree, declared: Declared, monkeypatch: pytest.MonkeyPatch, flights: Any) -> None:
    choices = [("on_time", "Open"), ("delayed", "Open"), ("cancelled", "")]
    monkeypatch.setattr(Flight._meta.get_field("status"), "choices", choices)
    declared.model(Flight, consent={"update": "ask"})

    text = agree(model=FLIGHT, id="3", values={"status": "delayed"})

    assert "on_time" in text and "delayed" in text


def test_letters_that_do_not_show() -> None:
    assert all(printable(char) != char for char in "\ufe00\ufe0f\U000e0100\U000e01ef\u180b")
    assert escaped("Claude\ufe0f") != "Claude\ufe0f"
