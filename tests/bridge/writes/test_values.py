"""Each kind of value in the table of docs/models.md is written as it is read, in any language and any time zone."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django import forms
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.db.models.signals import post_save
from django.test import override_settings
from django.utils import timezone, translation
from hypothesis import example, given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.fields import kinds
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.sites import site
from mcp_django.bridge.writes.proposals import Proposal, propose
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.protocol.types import JSON
from tests.shop.models import Document, Person, Product
from tests.support.asking import DirectPeer, request_of
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.examples import examples
from tests.support.pages import cells

UTC = datetime.UTC

#: Languages that write dates and numbers otherwise. Times of day have no seconds in Romanian.
LANGUAGES = ["ro", "de", "fr", "hi", "ar", "en"]
ZONES = ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"]

# What a column may hold, by the name that the table has for its field.

_TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=50).filter(lambda text: text == text.strip())
_SAFE_INTEGERS = st.integers(-kinds.MAX_SAFE_INTEGER, kinds.MAX_SAFE_INTEGER)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False)
#: PostgreSQL writes a larger float as an integer.
_SMALL_FLOATS = st.floats(-(2.0**53), 2.0**53)
_JSON = st.recursive(
    st.none() | st.booleans() | _SAFE_INTEGERS | _SMALL_FLOATS | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXTS, inner, max_size=3),
    max_leaves=6,
)
#: Addresses that have one way to be written.
_ADDRESSES = st.ip_addresses(v=4) | st.ip_addresses(v=6).filter(lambda one: one.ipv4_mapped is None)
_DAYS = datetime.timedelta(days=100_000_000)

#: Of Product. SQLite keeps 15 digits of a decimal.
OF_PRODUCT = {
    "IntegerField": ("stock", st.integers(-(2**63) + 1, 2**63 - 1)),
    "FloatField": ("weight", st.none() | _FLOATS),
    "DecimalField": ("price", st.none() | st.decimals(-(10**12), 10**12, places=2)),
    "BooleanField": ("active", st.booleans()),
    "CharField": ("name", _TEXTS),
    "DateField": ("launched", st.none() | st.dates()),
    "TimeField": ("opens", st.none() | st.times()),
    "DurationField": ("lead_time", st.none() | st.timedeltas(-_DAYS, _DAYS)),
    "UUIDField": ("sku", st.uuids()),
    "JSONField": ("details", _JSON.filter(lambda value: value is not None)),
}
#: Of Document.
OF_DOCUMENT = {
    "GenericIPAddressField": ("address", _ADDRESSES.map(str)),
    "ForeignKey": ("owner", st.none()),  # Its tests make the rows that it leads to.
}
#: Of Flight. Before 1900 an offset has seconds, and the moment is written in UTC.
OF_FLIGHT = {"DateTimeField": ("departs_at", st.datetimes(datetime.datetime(2, 1, 2), datetime.datetime(9998, 12, 30)))}
#: What no form takes as it is read, and what only PostgreSQL has.
NOT_WRITTEN_SO = {
    "FileField", "ImageField", "BinaryField", "GeneratedField", "ArrayField", "HStoreField", "IntegerRangeField",
}  # fmt: skip

PRODUCTS = st.fixed_dictionaries(dict(OF_PRODUCT.values()))
#: What languages write otherwise, and what forms have no room for.
A_PRODUCT = {
    "stock": -1_234_567_890_123_456_789,
    "weight": -1234.5,
    "price": Decimal("1234567.89"),
    "active": False,
    "name": "1,234.50",
    "launched": datetime.date(2013, 12, 31),
    "opens": datetime.time(3, 4, 5, 6),
    "lead_time": datetime.timedelta(days=-2, microseconds=3),
    "sku": uuid.UUID(int=1),
    "details": {"1.234,5": [1.5, None, "01.02.2013"]},
}
MOMENTS = OF_FLIGHT["DateTimeField"][1].map(lambda moment: moment.replace(tzinfo=UTC))


def asks_for_nothing(**fields: Any) -> type[ModelAdmin[Any]]:
    """A ModelAdmin whose form is localized, and takes no value for each field that has none."""

    class Form(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            localized_fields = "__all__"

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            for one in self.fields.values():
                one.required = False

    return type("Admin", (ModelAdmin,), {"form": Form, **fields})


@dataclass
class Agent:
    """Reads records, and proposes other values for them."""

    user: User

    def read(self, label: str, key: Any) -> JSON:
        found: JSON = DirectPeer(self.user).call("get_record", model=label, id=key)["structuredContent"]
        return found

    def propose(self, label: str, key: Any, values: JSON) -> Proposal:
        rights = Rights(site, request_of(self.user, "read", "write"))
        return propose(rights, "update", {"model": label, "id": key, "values": values})

    def write(self, label: str, key: Any, values: JSON) -> None:
        self.propose(label, key, values).send(ViewRun(writes=True))


@pytest.fixture
def agent(db: None, declared: Declared) -> Iterator[Agent]:
    declared.admin(Product, asks_for_nothing(fields=[name for name, _ in OF_PRODUCT.values()]))
    declared.admin(Document, asks_for_nothing(fields=["address", "owner"]))
    declared.admin(Person, ModelAdmin)
    declared.admin(Flight, asks_for_nothing(fields=["departs_at", "notes"]))
    with override_settings(USE_THOUSAND_SEPARATOR=True):
        yield Agent(User.objects.create_superuser("root"))


@pytest.fixture
def people(agent: Agent) -> list[Person]:
    return [Person.objects.create(name=name, badge=name) for name in ("Ann", "Bob")]


@pytest.fixture
def flight(agent: Agent) -> str:
    """The label of the model with a moment, whose row has the key 1."""
    make_flights(1)
    return "flights.flight"


def as_read(column: Any, value: Any) -> Any:
    """A value as an agent reads it."""
    return None if value is None else kinds.KINDS[type(column)].write(value)


def read_of(model: type[Any], values: dict[str, Any]) -> JSON:
    return {name: as_read(model._meta.get_field(name), value) for name, value in values.items()}


def diff_of(proposal: Proposal) -> Any:
    return proposal.preview()["diff"]


def test_each_kind_of_the_table_is_tried() -> None:
    table = cells("docs/models.md", "## What values look like")

    named = {name for row in table for name in re.findall(r"`(\w+)`", row[0])}

    assert named == OF_PRODUCT.keys() | OF_DOCUMENT.keys() | OF_FLIGHT.keys() | NOT_WRITTEN_SO


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_value_of_each_kind_is_read_as_it_was_written_and_changes_nothing_then(agent: Agent, language: str) -> None:
    row = Product.objects.create(name="lamp")

    @settings(max_examples=examples(20))
    @given(values=PRODUCTS)
    @example(values=A_PRODUCT)
    def try_values(values: dict[str, Any]) -> None:
        wanted = read_of(Product, values)

        agent.write("shop.product", row.pk, wanted)

        found = agent.read("shop.product", row.pk)
        assert {name: found[name] for name in wanted} == wanted
        assert diff_of(agent.propose("shop.product", row.pk, wanted)) == []
        stored = Product.objects.values(*values).get()
        assert stored == {**values, "price": stored["price"]}

    with translation.override(language):
        try_values()


def test_an_address_is_read_as_it_was_written_and_changes_nothing_then(agent: Agent) -> None:
    Document.objects.create(name="a")

    @given(address=OF_DOCUMENT["GenericIPAddressField"][1])
    def try_address(address: str) -> None:
        agent.write("shop.document", "a", {"address": address})

        assert agent.read("shop.document", "a")["address"] == address
        assert diff_of(agent.propose("shop.document", "a", {"address": address})) == []

    try_address()


def test_a_foreign_key_is_read_as_it_was_written_and_changes_nothing_then(agent: Agent, people: list[Person]) -> None:
    Document.objects.create(name="a", owner=people[0])

    for wanted in (people[1].pk, None, people[0].pk):
        agent.write("shop.document", "a", {"owner": wanted})

        assert agent.read("shop.document", "a")["owner"] == wanted
        assert diff_of(agent.propose("shop.document", "a", {"owner": wanted})) == []


# Moments.


def in_zone(name: str) -> Any:
    return timezone.override(ZoneInfo(name))


#: Around changes of clocks: the hours that come twice in Berlin and New York, a day that Apia left out, and the ends of
#: days, each with microseconds.
CHANGES = [
    datetime.datetime(2013, 10, 27, 0, 30, 0, 1, tzinfo=UTC),
    datetime.datetime(2013, 10, 27, 1, 30, 59, 999_999, tzinfo=UTC),
    datetime.datetime(2013, 11, 3, 5, 30, tzinfo=UTC),
    datetime.datetime(2013, 11, 3, 6, 30, 0, 5, tzinfo=UTC),
    datetime.datetime(2011, 12, 30, 9, 59, 59, 999_999, tzinfo=UTC),
    datetime.datetime(2011, 12, 30, 10, tzinfo=UTC),
    datetime.datetime(2013, 3, 31, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("zone", ZONES)
def test_a_moment_is_read_as_it_was_written_and_stays_then(agent: Agent, flight: str, zone: str) -> None:
    """Whether it is named once more, or not at all."""

    @settings(max_examples=examples(10))
    @given(moment=MOMENTS)
    def try_moment(moment: datetime.datetime) -> None:
        Flight.objects.update(notes="")
        wanted = kinds.DATETIME.write(moment)

        agent.write(flight, 1, {"departs_at": wanted})

        assert agent.read(flight, 1)["departs_at"] == wanted
        assert diff_of(agent.propose(flight, 1, {"departs_at": wanted})) == []
        agent.write(flight, 1, {"notes": "late"})
        assert Flight.objects.get().departs_at == moment

    for moment in CHANGES:
        try_moment = example(moment=moment)(try_moment)

    with in_zone(zone), translation.override("ro"):
        try_moment()


@pytest.mark.parametrize(("zone", "local", "moment"), [
    ("Europe/Berlin", "2013-03-31T02:30:00.000001", "2013-03-31T01:30:00.000001+00:00"),
    ("America/New_York", "2013-03-10T02:30:00", "2013-03-10T07:30:00+00:00"),
    ("Pacific/Apia", "2011-12-30T12:00:00", "2011-12-30T22:00:00+00:00"),
])  # fmt: skip
def test_a_time_of_day_that_the_clocks_left_out_is_as_much_later(
    agent: Agent, flight: str, zone: str, local: str, moment: str
) -> None:
    with in_zone(zone):
        agent.write(flight, 1, {"departs_at": local})

    assert Flight.objects.get().departs_at == datetime.datetime.fromisoformat(moment)


def test_code_of_the_project_runs_in_its_time_zone(
    agent: Agent, flight: str, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    days: dict[str, datetime.date] = {}

    class Form(forms.ModelForm):  # type: ignore[type-arg]
        def clean_departs_at(self) -> Any:
            days["clean_departs_at"] = timezone.localdate()
            return self.cleaned_data["departs_at"]

        def clean(self) -> Any:
            days["clean"] = timezone.localdate()
            return super().clean()

    class FlightAdmin(ModelAdmin):  # type: ignore[type-arg]
        form = Form
        fields = ("departs_at", "notes")

        def save_model(self, *args: Any) -> None:
            days["save_model"] = timezone.localdate()
            super().save_model(*args)

    def note(**kwargs: Any) -> None:
        days["post_save"] = timezone.localdate()

    declared.admin(Flight, FlightAdmin)
    post_save.connect(note, sender=Flight)
    # The last evening of the year in New York.
    monkeypatch.setattr(timezone, "now", lambda: datetime.datetime(2014, 1, 1, 2, tzinfo=UTC))

    try:
        with in_zone("America/New_York"):
            agent.write(flight, 1, {"departs_at": "2013-12-31T21:00:00"})
    finally:
        post_save.disconnect(note, sender=Flight)

    assert days == dict.fromkeys(["clean_departs_at", "clean", "save_model", "post_save"], datetime.date(2013, 12, 31))
