"""Deliberate mistakes: each is answered with what is right, and the call that is made from it is answered."""

from __future__ import annotations

from tests.agents import facts
from tests.agents.facts import CHANGED
from tests.agents.readings import confirmation_of_change, of_preview, status_of
from tests.agents.steps import Call, Question, aggregate, find

DELAY = {"model": "flights.flight", "id": str(CHANGED), "values": {"status": "delayed"}}

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
    Question(
        "A word for a day",
        (
            aggregate("flight", filter={"departs_at": "Independence Day"}),
            aggregate("flight", filter={"departs_at": "2013-07-04"}),
        ),
        facts.on_the_fourth_of_july,
        max_bytes=700,
        says=("today", "2013-01-31"),
    ),
    Question(
        "A change that is not confirmed",
        (Call("update_record", DELAY), Call("update_record", {**DELAY, "confirm": confirmation_of_change})),
        lambda _: ["applied", "delayed"],
        max_bytes=1_500,
        read=lambda answers: [answers[-1].structured["status"], status_of(CHANGED)],
        says=("confirm",),
    ),
    Question(
        "More values than are looked up",
        (aggregate("flight", filter={"any": [{"carrier": code} for code in ("UA", "DL", "AA", "B6", "EV", "WN")]}),),
        facts.of_carriers("UA", "DL", "AA", "B6", "EV", "WN"),
        max_bytes=400,
        says=("All conditions were applied",),
    ),
    Question(
        "The name of a model in the place of the field that points to it",
        (
            aggregate("flight", filter={"airline": "DL"}),
            aggregate("flight", filter={"carrier": "DL"}),
        ),
        facts.count(carrier="DL"),
        max_bytes=700,
        says=("carrier",),
    ),
    Question(
        "A condition that is not defined",
        (
            aggregate("flight", measures=["count@cancelled"]),
            aggregate("flight", measures=["count@cancelled"], conditions={"cancelled": {"status": "cancelled"}}),
        ),
        facts.count(status="cancelled"),
        max_bytes=700,
        says=("conditions",),
    ),
    Question(
        "An order that is no list",
        (
            find("plane", order_by="-year", limit=1, fields=["year"]),
            find("plane", order_by=["-year", "tailnum"], limit=1, fields=["year"], filter={"year__isnull": False}),
        ),
        facts.newest_plane,
        max_bytes=700,
        says=("must be a list",),
    ),
    Question(
        "Measures that are an object",
        (
            aggregate("flight", measures={"n": "count"}),
            aggregate("flight", measures=["count"]),
        ),
        facts.count(),
        max_bytes=700,
        says=("must be a list",),
    ),
    Question(
        "One id in the place of a list",
        (
            Call("delete_record", {"model": "flights.airline", "id": "UA"}),
            Call("delete_record", {"model": "flights.airline", "ids": ["UA"]}),
        ),
        lambda _: True,
        max_bytes=1_200,
        read=of_preview,
        says=("takes a list", "ids"),
    ),
    Question(
        "A choice as its label, in a change",
        (
            Call("update_record", {**DELAY, "values": {"status": "on time"}}),
            Call("update_record", DELAY),
        ),
        lambda _: "preview",
        max_bytes=1_500,
        read=lambda answers: answers[-1].structured["status"],
        says=("on_time",),
    ),
    Question(
        "A page that is too long",
        (
            find("flight", filter={"carrier": "DL"}, limit=5_000),
            aggregate("flight", filter={"carrier": "DL"}),
        ),
        facts.count(carrier="DL"),
        max_bytes=700,
        says=("next_cursor", "aggregate_records"),
    ),
    Question(
        "An id that a rule hides (asked by ops, who may see those from JFK)",
        (Call("flights_flight_mark_cancelled", {"ids": [str(CHANGED)]}),),
        lambda _: [True, "on_time"],
        max_bytes=500,
        read=lambda answers: [answers[-1].is_error, status_of(CHANGED)],
        user="ops",
        says=("A rule of this project limits",),
    ),
    Question(
        "Everything at once",
        (
            Call("describe_models", {"models": ["flights.flight", "flights.aeroplane"]}),
            Call("describe_models", {"models": ["flights.flight", "flights.plane"]}),
        ),
        lambda _: ["flights.flight", "flights.plane"],
        max_bytes=14_000,
        read=lambda answers: list(answers[-1].structured["models"]),
        says=("flights.airline",),
    ),
)  # fmt: skip
