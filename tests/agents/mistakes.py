"""Twelve deliberate mistakes: each is refused with the right name, and the call that is made from it is answered."""

from __future__ import annotations

from tests.agents import facts
from tests.agents.steps import Call, Question, aggregate, find

MISTAKES = (
    Question(
        "A choice that is none",
        (
            aggregate("flight", filter={"status": "canceled"}),
            aggregate("flight", filter={"status": "cancelled"}),
        ),
        facts.count(status="cancelled"),
        max_bytes=700,
        says=("cancelled",),
    ),
    Question(
        "A key in small letters",
        (
            aggregate("flight", filter={"origin": "jfk"}),
            aggregate("flight", filter={"origin": "JFK"}),
        ),
        facts.count(origin="JFK"),
        max_bytes=700,
        says=("JFK",),
    ),
    Question(
        "A name in the place of a key",
        (
            aggregate("flight", filter={"carrier": "United"}),
            aggregate("flight", filter={"carrier": "UA"}),
        ),
        facts.count(carrier="UA"),
        max_bytes=700,
        says=("UA",),
    ),
    Question(
        "A date as it is written in America",
        (
            aggregate("flight", filter={"departs_at": "07/04/2013"}),
            aggregate("flight", filter={"departs_at": "2013-07-04"}),
        ),
        facts.on_the_fourth_of_july,
        max_bytes=700,
        says=("2013-01-31",),
    ),
    Question(
        "or in the place of any",
        (
            aggregate("flight", filter={"or": [{"status": "cancelled"}, {"origin": "LGA"}]}),
            aggregate("flight", filter={"any": [{"status": "cancelled"}, {"origin": "LGA"}]}),
        ),
        facts.cancelled_or_from_lga,
        max_bytes=1_200,
        says=("any",),
    ),
    Question(
        "A list of values without in",
        (
            aggregate("flight", filter={"origin": ["JFK", "LGA"]}),
            aggregate("flight", filter={"origin__in": ["JFK", "LGA"]}),
        ),
        facts.not_from_ewr,
        max_bytes=700,
        says=("origin__in",),
    ),
    Question(
        "Two parts of a date as fields",
        (
            aggregate("flight", filter={"year": 2013, "month": 3}),
            aggregate("flight", filter={"departs_at__year": 2013, "departs_at__month": 3}),
        ),
        facts.in_march,
        max_bytes=1_200,
        says=("departs_at__year", "departs_at__month"),
    ),
    Question(
        "An unknown argument",
        (
            aggregate("flight", where={"carrier": "DL"}),
            aggregate("flight", filter={"carrier": "DL"}),
        ),
        facts.count(carrier="DL"),
        max_bytes=700,
        says=("filter",),
    ),
    Question(
        "A field of the order by half its name",
        (
            find("flight", order_by=["-delay"], limit=1, fields=["departure_delay"]),
            find(
                "flight", order_by=["-departure_delay", "id"], limit=1, fields=["departure_delay"],
                filter={"departure_delay__isnull": False},
            ),
        ),
        facts.latest_departure,
        max_bytes=1_200,
        says=("departure_delay",),
    ),
    Question(
        "A field of the groups as it is abbreviated elsewhere",
        (
            aggregate("flight", filter={"origin": "JFK"}, group_by=["dest"], order_by=["-count"], limit=5),
            aggregate(
                "flight", filter={"origin": "JFK"}, group_by=["destination", "destination__name"],
                order_by=["-count"], limit=5,
            ),
        ),
        facts.frequent_destinations_from_jfk,
        max_bytes=1_500,
        says=("destination",),
    ),
    Question(
        "The function of a measure in full",
        (
            aggregate("flight", measures=["average:distance"]),
            aggregate("flight", measures=["avg:distance"]),
        ),
        facts.mean_distance,
        max_bytes=1_000,
        says=("avg:field",),
    ),
    Question(
        "A model without its app",
        (
            Call("aggregate_records", {"model": "flight", "filter": {"carrier": "DL"}}),
            aggregate("flight", filter={"carrier": "DL"}),
        ),
        facts.count(carrier="DL"),
        max_bytes=700,
        says=("flights.flight",),
    ),
)  # fmt: skip
