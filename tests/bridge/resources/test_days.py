"""Days where date-times stand, and lookups of local dates: what they find is what Python says of each row."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Disruption, Flight
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.fields.days import Days
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import Product
from tests.support.asking import rights_on
from tests.support.data import make_flights
from tests.support.examples import examples

pytestmark = pytest.mark.every_database

UTC = datetime.UTC
#: Clocks go back over midnight; a day, the last of a year and a midnight are left out; a day comes twice; none of it.
CHANGES = {
    "America/St_Johns": datetime.date(2010, 11, 7),
    "Pacific/Apia": datetime.date(2011, 12, 30),
    "Pacific/Kiritimati": datetime.date(1994, 12, 31),
    "Pacific/Kwajalein": datetime.date(1969, 9, 30),
    "America/Sao_Paulo": datetime.date(2018, 11, 4),
    "UTC": datetime.date(2013, 12, 31),
}


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", last_login=None)


@pytest.fixture
def flights(root: User) -> ModelRights:
    make_flights(12)
    return rights_on(Flight, root)


def depart(*moments: str) -> None:
    """Let the first flights leave at these moments."""
    for key, moment in enumerate(moments, 1):
        Flight.objects.filter(pk=key).update(departs_at=datetime.datetime.fromisoformat(moment))


def keys(rights: ModelRights, asked: Any) -> list[int]:
    page = rows.find(rights, rows.RecordQuery(filter=asked, fields=["id"], order_by=["id"], limit=100))
    return [row[0] for row in page.rows]


def messages(rights: ModelRights, asked: Any) -> list[str]:
    with pytest.raises(InvalidQuery) as raised:
        rows.find(rights, rows.RecordQuery(filter=asked))
    return [error["message"] for error in raised.value.errors]


# What a day means.


OF_DAYS = [
    ({"departs_at": "2013-01-02"}, [2, 3]),
    ({"departs_at__exact": " 2013-01-02 "}, [2, 3]),
    ({"departs_at__in": ["2013-01-02", "2013-01-04"]}, [2, 3, 5]),
    ({"departs_at__in": ["2013-01-02", "2013-01-03T05:00:00Z"]}, [2, 3, 4]),
    ({"departs_at__in": "2013-01-02,2013-01-03"}, [2, 3, 4]),
    ({"departs_at__gt": "2013-01-02"}, [4, 5]),
    ({"departs_at__gte": "2013-01-02"}, [2, 3, 4, 5]),
    ({"departs_at__lt": "2013-01-02"}, [1]),
    ({"departs_at__lte": "2013-01-02"}, [1, 2, 3]),
    ({"departs_at__range": ["2013-01-02", "2013-01-03"]}, [2, 3, 4]),
    ({"departs_at__range": ["2013-01-02", "2013-01-02"]}, [2, 3]),
    ({"departs_at__range": ["2013-01-03", "2013-01-02"]}, []),
    ({"departs_at__range": ["2013-01-02", "2013-01-03T05:00:00Z"]}, [2, 3, 4]),
    ({"departs_at__range": ["2013-01-03T04:59:59.999999Z", "2013-01-03"]}, [3, 4]),
    ({"not": {"departs_at": "2013-01-02"}}, [1, 4, 5]),
]  # fmt: skip


def test_a_day_is_the_local_day(flights: ModelRights) -> None:
    depart(
        "2013-01-02T04:59:59.999999Z", "2013-01-02T05:00:00Z", "2013-01-03T04:59:59.999999Z", "2013-01-03T05:00:00Z",
        "2013-01-04T05:00:00Z",
    )  # fmt: skip

    assert {str(asked): keys(flights, {**asked, "id__lte": 5}) for asked, _ in OF_DAYS} == {
        str(asked): found for asked, found in OF_DAYS
    }


def test_a_day_of_two_parts_is_both_and_one_that_is_left_out_is_empty(flights: ModelRights) -> None:
    depart("2010-11-07T02:30:30Z", "2010-11-07T03:00:00Z", "2010-11-07T03:30:00Z", "2011-12-30T10:00:00Z")

    with timezone.override(ZoneInfo("America/St_Johns")):
        in_parts = keys(flights, {"departs_at": "2010-11-07"})
    with timezone.override(ZoneInfo("Pacific/Apia")):
        left_out = keys(flights, {"departs_at": "2011-12-30"})
        others = keys(flights, {"not": {"departs_at": "2011-12-30"}, "id__lte": 4})
        since = keys(flights, {"departs_at__gte": "2011-12-30", "id__lte": 4})

    assert (in_parts, left_out, others, since) == ([1, 3], [], [1, 2, 3, 4], [4])
    assert keys(flights, {"departs_at": "2010-11-07", "id__lte": 4}) == []  # In New York it is the day before.


def test_a_midnight_that_does_not_exist_is_the_first_instant_after_it(flights: ModelRights) -> None:
    depart("2018-11-04T02:59:59Z", "2018-11-04T03:00:00Z")

    with timezone.override(ZoneInfo("America/Sao_Paulo")):
        assert keys(flights, {"departs_at__gte": "2018-11-04", "id__lte": 2}) == [2]
        assert keys(flights, {"departs_at__lt": "2018-11-04", "id__lte": 2}) == [1]


def test_a_day_of_related_rows(root: User, flights: ModelRights) -> None:
    depart("2013-02-01T04:30:00Z", "2013-02-01T05:30:00Z")
    for key in (1, 2):
        Disruption.objects.create(flight_id=key, kind="weather")
    disruptions = rights_on(Disruption, root)

    found = rows.find(disruptions, rows.RecordQuery(filter={"flight__departs_at": "2013-01-31"}, fields=["flight"]))
    month = {"flight__departs_at__year": 2013, "flight__departs_at__month": 2}
    later = rows.find(disruptions, rows.RecordQuery(filter=month, fields=["flight"]))

    assert [row[1] for row in found.rows] == [1]
    assert [row[1] for row in later.rows] == [2]


def test_a_year_and_a_month_of_many_related_rows_may_be_met_by_two_of_them(root: User, flights: ModelRights) -> None:
    for year, month in ((2013, 5), (2014, 6)):
        made = Disruption.objects.create(flight_id=1, kind="weather")
        reported = datetime.datetime(year, month, 15, tzinfo=UTC)
        Disruption.objects.filter(pk=made.pk).update(reported_at=reported)
    each = {"disruptions__reported_at__year": 2013, "disruptions__reported_at__month": 6}
    one = {"disruptions": {"reported_at__year": 2013, "reported_at__month": 6}}

    assert keys(flights, each) == [1]
    assert keys(flights, one) == []


def test_groups_are_chosen_by_a_day(flights: ModelRights) -> None:
    depart(*["2013-01-02T05:00:00Z"] * 3)

    def origins(having: dict[str, Any]) -> list[Any]:
        query = aggregates.AggregateQuery(group_by=["id"], having=having, filter={"id__lte": 4})
        return [row[0] for row in aggregates.aggregate(flights, query).rows]

    assert origins({"max:departs_at__gte": "2013-01-02"}) == [1, 2, 3]
    assert origins({"max:departs_at__lte": "2013-01-01"}) == [4]
    assert origins({"min:departs_at": "2013-01-02"}) == [1, 2, 3]
    assert origins({"min:departs_at": "2013-01-05"}) == []


@override_settings(USE_TZ=False)
def test_without_time_zones_a_day_is_from_midnight_to_midnight(root: User) -> None:
    naive = datetime.datetime.fromisoformat
    for index, moment in enumerate(("2013-01-01T23:59:59", "2013-01-02T00:00:00", "2013-02-01T00:00:00")):
        User.objects.create(username=f"u{index}", last_login=naive(moment))
    users = rights_on(User, root)

    def names(**asked: Any) -> list[str]:
        found = rows.find(users, rows.RecordQuery(filter={**asked, "username__startswith": "u"}, fields=["username"]))
        return sorted(row[1] for row in found.rows)

    assert names(last_login="2013-01-02") == ["u1"]
    assert names(last_login__date="2013-01-02") == ["u1"]
    assert names(last_login__lt="2013-01-02") == ["u0"]
    assert names(last_login__year=2013, last_login__month=1) == ["u0", "u1"]
    assert names(last_login__year=2013) == ["u0", "u1", "u2"]
    assert names(last_login="2013-01-02T05:00:00Z") == ["u1"]


# Local times.


def test_the_forms_of_a_date_time(flights: ModelRights) -> None:
    depart("2013-01-31T08:30:00Z")

    for asked in (
        "2013-01-31T03:30:00-05:00", "2013-01-31T08:30:00Z", "2013-01-31T08:30Z", "2013-01-31 08:30:00Z",
        "2013-01-31T03:30:00", "2013-01-31 03:30", "2013-01-31T08:30:00.000Z", "2013-01-31T14:00:00+0530",
    ):  # fmt: skip
        assert keys(flights, {"departs_at": asked}) == [1], asked


def test_a_local_time_that_exists_twice_is_the_first_and_one_that_is_left_out_as_much_later(
    flights: ModelRights,
) -> None:
    # 03:30 in New York, where 02:30 does not exist, is the last of these.
    depart("2013-11-03T05:30:00Z", "2013-11-03T06:30:00Z", "2013-03-10T07:30:00Z")

    assert keys(flights, {"departs_at": "2013-11-03T01:30:00"}) == [1]
    assert keys(flights, {"departs_at": "2013-03-10T02:30:00"}) == [3]


WORDS = "Words are not read; today is 2013-01-31."


def test_another_form_of_a_day_or_a_date_time_is_refused_with_the_form_to_use(
    flights: ModelRights, monkeypatch: pytest.MonkeyPatch
) -> None:
    today = Days(datetime.date(2013, 1, 31), datetime.date(2013, 1, 31))
    monkeypatch.setattr(Days, "today", lambda: today)
    wrong = "must be a day, as 2013-01-31 for the whole day, or a date and time, as 2013-01-31T08:30:00Z"

    for value in ("07/04/2013", "7/4/13", "20130704", "2013-W27-4", "2013-7-4", "4 July 2013", "2013"):
        assert messages(flights, {"departs_at__gte": value}) in ([f"{wrong}."], [f"{wrong}. {WORDS}"]), value
        [message] = messages(flights, {"departs_at__date": value})
        assert message in ("must be a date, as 2013-01-31.", f"must be a date, as 2013-01-31. {WORDS}"), value
        assert (WORDS in message) == ("July" in value)
    for value in (
        "07/04/2013 08:30", "20130704T083000Z", "2013-W27-4T08:30:00Z", "2013-07-04T08", "2013-07-04t08:30z",
        "2013-07-04T08:30:00Z ago", "\u0662013-07-04T08:30:00Z",
    ):  # fmt: skip
        [message] = messages(flights, {"departs_at": value})
        assert message.startswith(wrong), value
    for value in ("0001-01-01", "9999-12-31"):
        told = "is out of range: at the ends of the calendar, give a date and time."
        assert messages(flights, {"departs_at__lte": value}) == [told]
        assert rows.find(flights, rows.RecordQuery(filter={"departs_at": f"{value}T12:00:00Z"})).rows == []


ALL: list[Any] = [
    {"departs_at__range": ["0002-01-01", "9998-12-31"]}, {"departs_at__date__lte": "9999-12-31"},
    {"departs_at__date__gte": "0001-01-01"}, {"departs_at__year__gte": 2}, {"departs_at__year__lte": 9998},
    {"departs_at__iso_year__lte": 9998},
]  # fmt: skip


def test_a_question_for_all_the_calendar_costs_no_more(flights: ModelRights) -> None:
    assert [asked for asked in ALL if len(keys(flights, asked)) != 12] == []


def test_no_filter_has_more_days_than_a_statement_can_hold(flights: ModelRights) -> None:
    days = [(datetime.date(2013, 1, 1) + 2 * datetime.timedelta(number)).isoformat() for number in range(200)]

    assert len(keys(flights, {"departs_at__in": days})) == 12
    assert messages(flights, {"any": [{"departs_at__in": days}] * 2}) == ["at most 200 days in a filter."]


# Lookups of local dates.

COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "": lambda one, other: one == other,
    "__gt": lambda one, other: one > other,
    "__gte": lambda one, other: one >= other,
    "__lt": lambda one, other: one < other,
    "__lte": lambda one, other: one <= other,
}
PARTS: dict[str, Callable[[datetime.date], Any]] = {
    "date": lambda day: day,
    "year": lambda day: day.year,
    "iso_year": lambda day: day.isocalendar().year,
}


@pytest.fixture(scope="module")
def moments() -> dict[int, datetime.datetime]:
    """Moments around each change, by the keys of their rows."""
    found = [
        datetime.datetime.combine(day, datetime.time(), UTC) + datetime.timedelta(minutes=minutes)
        for day in CHANGES.values()
        for minutes in (-40 * 60, -14 * 60, -90, -30, 0, 149, 150, 151, 180, 209, 210, 240, 600, 24 * 60, 28 * 60)
    ]
    edges = [
        datetime.datetime(2013, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime.datetime(2010, 10, 31, 2, 30, tzinfo=UTC),
    ]
    return dict(enumerate([*found, *edges], 1))


@pytest.fixture
def many(root: User, moments: dict[int, datetime.datetime]) -> ModelRights:
    """A flight at each of the moments."""
    [first, *_] = make_flights(1)
    Flight.objects.all().delete()
    Flight.objects.bulk_create(
        Flight(
            id=key, carrier_id=first.carrier_id, number=key, origin_id=first.origin_id, departs_at=moment, distance=1,
            destination_id=first.destination_id,
        )
        for key, moment in moments.items()
    )  # fmt: skip
    return rights_on(Flight, root)


OF_MANY = settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
DAYS = st.builds(
    lambda day, days: day + datetime.timedelta(days), st.sampled_from(list(CHANGES.values())), st.integers(-2, 2)
)


@OF_MANY
@given(
    st.sampled_from(list(CHANGES)), DAYS, st.sampled_from(list(PARTS)), st.sampled_from(list(COMPARE)), st.booleans()
)
@example("America/St_Johns", datetime.date(2010, 11, 7), "date", "__gte", False)
@example("Pacific/Apia", datetime.date(2011, 12, 30), "date", "", True)
def test_a_lookup_of_local_dates_finds_what_python_finds(
    many: ModelRights, moments: dict[int, datetime.datetime], name: str, day: datetime.date, part: str, compared: str,
    negated: bool,
) -> None:  # fmt: skip
    zone, value = ZoneInfo(name), PARTS[part](day)
    asked: Any = {f"departs_at__{part}{compared}": str(value)}

    with timezone.override(zone):
        found = keys(many, {"not": asked} if negated else asked)

    assert found == [
        key
        for key, moment in moments.items()
        if COMPARE[compared](PARTS[part](moment.astimezone(zone).date()), value) != negated
    ]


@OF_MANY
@given(st.sampled_from(list(CHANGES)), DAYS, st.booleans())
def test_a_month_of_a_year_finds_what_python_finds(
    many: ModelRights, moments: dict[int, datetime.datetime], name: str, day: datetime.date, negated: bool
) -> None:
    zone = ZoneInfo(name)
    asked: Any = {"departs_at__year": day.year, "departs_at__month": day.month}

    with timezone.override(zone):
        found = keys(many, {"not": asked} if negated else asked)

    local = {key: moment.astimezone(zone).date() for key, moment in moments.items()}
    assert found == [key for key, one in local.items() if ((one.year, one.month) == (day.year, day.month)) != negated]


@OF_MANY
@given(st.sampled_from(list(CHANGES)), DAYS, DAYS)
def test_a_range_of_days_finds_what_python_finds(
    many: ModelRights, moments: dict[int, datetime.datetime], name: str, low: datetime.date, high: datetime.date
) -> None:
    zone = ZoneInfo(name)

    with timezone.override(zone):
        found = keys(many, {"departs_at__range": [low.isoformat(), high.isoformat()]})

    assert found == [key for key, moment in moments.items() if low <= moment.astimezone(zone).date() <= high]


OF_NULLS: list[Any] = [
    {"last_login__date": "2013-01-31"}, {"last_login__date__lt": "2013-01-31"}, {"last_login__year": 2013},
    {"last_login": "2013-01-31"}, {"last_login__in": ["2013-01-31", "2013-03-01"]}, {"last_login__gte": "2013-01-31"},
    {"last_login__year": 2013, "last_login__month": 1}, {"last_login__range": ["2013-01-31", "2013-02-01"]},
]  # fmt: skip


def test_what_is_negated_finds_nulls(root: User) -> None:
    users = rights_on(User, root)
    assert root.last_login is None

    assert [asked for asked in OF_NULLS if keys(users, {"not": asked}) != [root.pk]] == []
    assert keys(users, {"last_login__date__lte": "2013-01-31"}) == []


COMPUTED: list[Any] = [
    {"departs_at__date": "2013-01-31"}, {"departs_at__date__lte": "2013-01-31"}, {"departs_at__year": 2013},
    {"departs_at__iso_year__gt": 2013}, {"departs_at": "2013-01-31"}, {"departs_at__in": ["2013-01-31"]},
    {"departs_at__year": "2013", "departs_at__month": "2"}, {"origin__departures__departs_at__date": "2013-01-31"},
]  # fmt: skip


def test_a_lookup_of_local_dates_computes_with_no_column(flights: ModelRights) -> None:
    for asked in COMPUTED:
        with CaptureQueriesContext(connection) as asked_of_database:
            keys(flights, asked)
        sql = " ".join(query["sql"] for query in asked_of_database)
        assert "2013-" in sql, asked
        assert not any(word in sql for word in ("django_datetime", "AT TIME ZONE", "CONVERT_TZ", "EXTRACT")), asked


def test_a_list_of_local_dates_is_the_days_together(flights: ModelRights) -> None:
    depart("2013-01-02T05:00:00Z", "2013-01-03T05:00:00Z", "2013-01-05T05:00:00Z")
    days = [datetime.date(2013, 1, day) for day in (5, 2, 2, 3)]

    condition = flights.columns["departs_at"].condition("date__in", days)

    assert sorted(flights.rows().filter(condition).values_list("id", flat=True)) == [1, 2, 3]


MONTHS: list[tuple[Any, list[str]]] = [
    ({"launched__year": 2013, "launched__month": 13}, []),
    ({"launched__year": 2013, "launched__month": 1, "launched__range": ["2013-01-01", "2013-01-30"]}, []),
    ({"launched__year": 2013, "launched__month": 1, "launched__range": ["2013-01-01", "2013-01-31"]}, ["lamp"]),
    ({"launched__year": 2013, "launched__month__lte": 1}, ["lamp"]),
]  # fmt: skip


def test_a_month_of_a_date_is_a_range_or_still_a_condition(root: User) -> None:
    Product.objects.create(name="lamp", launched=datetime.date(2013, 1, 31))
    Product.objects.create(name="chair", launched=datetime.date(2013, 2, 1))
    products = rights_on(Product, root)

    with CaptureQueriesContext(connection) as asked_of_database:
        found = keys_of(products, {"launched__year": 2013, "launched__month": 1})

    assert found == ["lamp"]
    assert "BETWEEN" in asked_of_database[0]["sql"] and "EXTRACT" not in asked_of_database[0]["sql"]
    for asked, names in MONTHS:
        assert keys_of(products, asked) == names, asked


def keys_of(products: ModelRights, asked: Any) -> list[str]:
    return [row[1] for row in rows.find(products, rows.RecordQuery(filter=asked, fields=["name"])).rows]


def test_what_is_wrong_with_a_year_and_a_month_is_said_of_each(flights: ModelRights) -> None:
    found = messages(flights, {"departs_at__year": "x", "departs_at__month": "y"})

    assert found == ["must be an integer."] * 2
