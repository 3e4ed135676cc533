"""The questions that a model must be able to answer over a year of flights, in few calls that are short to read.

It has read ``describe_models`` before, and has never seen the data.
"""

from __future__ import annotations

import re

from tests.agents import facts
from tests.agents.facts import CHANGED, UNCHANGED
from tests.agents.readings import (
    by_wind,
    change_gate,
    confirmation,
    exported,
    from_row,
    keys,
    nested,
    next_cursor,
    status_of,
)
from tests.agents.steps import Call, Discover, Question, Read, Watch, aggregate, find

FIRST_FLIGHT = {"carrier": "UA", "number": 1545, "departs_at": "2013-01-01"}
CANCEL, EXPORT = "flights_flight_mark_cancelled", "flights_flight_export_as_csv"
RULE = "A rule of this project limits which rows of flights.flight you see."

QUESTIONS = (
    Question(
        "How many flights did United have in March?",
        (
            aggregate(
                "flight", filter={"carrier": "UA", "departs_at__gte": "2013-03-01", "departs_at__lt": "2013-04-01"}
            ),
        ),
        facts.united_in_march,
        max_bytes=100,
    ),
    Question(
        "Which five destinations are the most frequent from JFK?",
        (
            aggregate(
                "flight", filter={"origin": "JFK"}, group_by=["destination", "destination__name"],
                order_by=["-count"], limit=5,
            ),
        ),
        facts.frequent_destinations_from_jfk,
        max_bytes=400,
    ),
    Question(
        "What is the average delay at arrival of each carrier, by name?",
        (
            aggregate(
                "flight", group_by=["carrier__name"], measures=["avg:arrival_delay"], order_by=["-avg:arrival_delay"]
            ),
        ),
        facts.delay_by_carrier,
        max_bytes=800,
    ),
    Question(
        "Which plane flew most?",
        (
            aggregate(
                "flight", filter={"plane__isnull": False}, order_by=["-count"], limit=1,
                group_by=["plane", "plane__manufacturer", "plane__model"],
            ),
        ),
        facts.plane_that_flew_most,
        max_bytes=300,
    ),
    Question(
        "On which day was the largest share of flights cancelled?",
        (
            aggregate(
                "flight", conditions={"cancelled": {"status": "cancelled"}}, group_by=["departs_at__date"],
                measures=["share@cancelled", "count"], order_by=["-share@cancelled"], limit=1,
            ),
        ),
        facts.worst_day,
        max_bytes=300,
    ),
    Question(
        "Which flights went from LGA to ATL on 4 July before noon?",
        (
            find(
                "flight", fields=["departs_at", "carrier__name", "number"],
                filter={"origin": "LGA", "destination": "ATL", "departs_at": "2013-07-04", "departs_at__hour__lt": 12},
            ),
        ),
        facts.lga_to_atl_before_noon,
        max_bytes=1_200,
    ),
    Question(
        "How many flights arrived more than three hours late, by month?",
        (aggregate("flight", filter={"arrival_delay__gt": 180}, group_by=["departs_at__month"]),),
        facts.very_late_by_month,
        max_bytes=300,
    ),
    Question(
        "What was the weather when United's flight 1545 left on 1 January?",
        (
            find("flight", filter=FIRST_FLIGHT, fields=["departs_at", "origin"]),
            find(
                "weather", filter={"origin": from_row(2), "time_hour__lte": from_row(1)},
                order_by=["-time_hour"], limit=1, fields=["temperature", "wind_speed"],
            ),
        ),
        facts.weather_of_a_flight,
        max_bytes=500,
    ),
    Question(
        "Which destinations lie above 5,000 feet?",
        (
            find(
                "airport", filter={"altitude__gt": 5000, "arrivals__isnull": False},
                fields=["name", "altitude"], order_by=["-altitude"],
            ),
        ),
        facts.high_destinations,
        max_bytes=500,
    ),
    Question(
        "Which carriers never leave from LGA?",
        (find("airline", filter={"not": {"flights": {"origin": "LGA"}}}, fields=["name"]),),
        facts.never_from_lga,
        max_bytes=300,
    ),
    Question(
        "Which planes were built before 1970, and when did they fly where?",
        (
            find(
                "plane", filter={"year__lt": 1970},
                fields=["year", "manufacturer", "flights__departs_at", "flights__destination"],
            ),
        ),
        facts.old_planes,
        max_bytes=7_500,
        read=nested,
    ),
    Question(
        "Which ten routes are the longest?",
        (
            aggregate(
                "flight", group_by=["origin", "destination"], measures=["max:distance"],
                order_by=["-max:distance"], limit=10,
            ),
        ),
        facts.longest_routes,
        max_bytes=500,
    ),
    Question(
        "Cancel United's flight 1545 of 1 January.",
        (
            Call(CANCEL, {"filter": FIRST_FLIGHT}),
            Call(CANCEL, {"filter": FIRST_FLIGHT, "confirm": confirmation}),
        ),
        lambda _: [True, "cancelled"],
        max_bytes=1_000,
        read=lambda answers: ["1 flight was marked as cancelled." in answers[-1].text, status_of(CHANGED)],
    ),
    Question(
        "Export the first fifty flights of Delta as CSV.",
        (
            find("flight", filter={"carrier": "DL"}, fields=["id"], limit=50),
            Call(EXPORT, {"ids": keys}),
        ),
        facts.export,
        max_bytes=7_000,
        read=exported,
    ),
    Question(
        "Tell me when something about United's flight 1545 of 1 January changes.",
        (Watch(f"db://flights/flight/{CHANGED}", change_gate), Read(f"db://flights/flight/{CHANGED}")),
        lambda _: [f"db://flights/flight/{CHANGED}", "Leaves from gate 7."],
        max_bytes=1_200,
        read=lambda answers: [answers[0].structured["uri"], answers[1].structured["notes"]],
    ),
    Question(
        "How many flights leave from EWR? (asked by ops, who may see those from JFK)",
        (aggregate("flight", filter={"origin": "EWR"}),),
        lambda _: [[[0]], True],
        max_bytes=300,
        read=lambda answers: [answers[-1].rows, RULE in answers[-1].advice],
        user="ops",
    ),
    Question(
        "Cancel flight 2. (asked by viewer, who may not)",
        (Call(CANCEL, {"ids": [str(UNCHANGED)]}),),
        lambda known: [True, facts.status_kept(known)],
        max_bytes=400,
        read=lambda answers: [answers[-1].is_error, status_of(UNCHANGED)],
        user="viewer",
    ),
    Question(
        "How do week days compare with weekends, in flights and in delay?",
        (
            aggregate(
                "flight",
                conditions={
                    "week_days": {"departs_at__iso_week_day__lte": 5}, "weekends": {"departs_at__iso_week_day__gte": 6},
                },
                measures=[
                    "count@week_days", "avg@week_days:arrival_delay", "count@weekends", "avg@weekends:arrival_delay",
                ],
            ),
        ),
        facts.week_days_and_weekends,
        max_bytes=400,
    ),
    Question(
        "How did the delays at JFK go with the wind, in the storm from 6 to 8 March?",
        (
            aggregate(
                "weather", group_by=["time_hour__trunc_hour", "wind_speed__bucket_5"], format="csv",
                filter={"origin": "JFK", "time_hour__gte": "2013-03-06", "time_hour__lt": "2013-03-09"},
            ),
            aggregate(
                "flight", group_by=["departs_at__trunc_hour"], format="csv",
                filter={"origin": "JFK", "departs_at__gte": "2013-03-06", "departs_at__lt": "2013-03-09"},
                measures=["count:departure_delay", "sum:departure_delay"],
            ),
        ),
        facts.delay_by_wind,
        max_bytes=6_000,
        read=by_wind,
    ),
    Question(
        "Which share of flights is delayed, by hour of the day?",
        (
            aggregate(
                "flight", conditions={"delayed": {"status": "delayed"}}, group_by=["departs_at__hour"],
                measures=["share@delayed"],
            ),
        ),
        facts.share_delayed_by_hour,
        max_bytes=600,
    ),
    Question(
        "How many flights did Delta have? (its code is not known)",
        (
            aggregate(
                "flight", filter={"carrier__name__icontains": "delta"}, group_by=["carrier", "carrier__name"]
            ),
        ),
        facts.delta,
        max_bytes=200,
    ),
    Question(
        "Can I write? (asked by viewer, who may not)",
        (Discover(),),
        lambda _: [True, True],
        max_bytes=1_300,
        read=lambda answers: [
            "viewer" in answers[-1].text, re.search("read[ -]only|only read", answers[-1].text, re.I) is not None,
        ],
        user="viewer",
    ),
    Question(
        "How many flights did United have from EWR? (a client that sends objects as texts)",
        (aggregate("flight", filter='{"carrier": "UA", "origin": "EWR"}', measures='["count"]'),),
        facts.count(carrier="UA", origin="EWR"),
        max_bytes=200,
    ),
    Question(
        "Which of the flights 1545 were longer than 500 miles? (a client that sends texts)",
        (
            find(
                "flight", filter={"number": "1545", "distance__gt": "500"}, fields=["carrier"], limit="50",
                total="true", order_by=["id"],
            ),
        ),
        facts.flights_1545,
        max_bytes=2_000,
    ),
    Question(
        "What can be asked of airlines and planes?",
        (Call("describe_models", {"models": ["flights.airline", "flights.plane"]}),),
        lambda _: ["flights.airline", "flights.plane"],
        max_bytes=7_000,
        read=lambda answers: [
            name for name, described in answers[-1].structured["models"].items() if described["fields"]
        ],
    ),
    Question(
        "How late is United at the median?",
        (aggregate("flight", filter={"carrier": "UA"}, measures=["median:arrival_delay"]),),
        facts.median_delay_of_united,
        max_bytes=250,
    ),
    Question(
        "Which carriers had no flight cancelled?",
        (find("airline", filter={"not": {"flights": {"status": "cancelled"}}}, fields=["name"]),),
        facts.never_cancelled,
        max_bytes=900,
    ),
    Question(
        "How many flights left on or after 20 December, and how many of them were cancelled?",
        (
            aggregate(
                "flight", filter={"departs_at__gte": "2013-12-20"}, conditions={"off": {"status": "cancelled"}},
                measures=["count", "count@off"],
            ),
        ),
        facts.late_in_december,
        max_bytes=200,
    ),
)  # fmt: skip

ROWS = (
    Question(
        "Give me two thousand flights from JFK: departure, carrier and delay at arrival.",
        tuple(
            find(
                "flight", filter={"origin": "JFK"}, fields=["departs_at", "carrier", "arrival_delay"],
                limit=1000, **page,
            )
            for page in ({}, {"cursor": next_cursor})
        ),
        facts.rows_from_jfk,
        max_bytes=120_000,
        read=lambda answers: [row for answer in answers for row in answer.rows],
    ),
)  # fmt: skip
