"""Questions whose first answer would mislead without a word: its note names what the next call needs."""

from __future__ import annotations

from tests.agents import facts
from tests.agents.steps import Question, aggregate, find

MISLEADING = (
    Question(
        "How many planes did Boeing build? (rows have its name in capitals)",
        (
            aggregate("plane", filter={"manufacturer": "Boeing"}),
            aggregate("plane", filter={"manufacturer": "BOEING"}),
        ),
        facts.planes_of("BOEING"),
        max_bytes=400,
        says=("BOEING",),
    ),
    Question(
        "Which planes are of Boeing? (asked for with the total)",
        (
            find("plane", filter={"manufacturer": " boeing"}, fields=["year"], limit=1, total=True),
            aggregate("plane", filter={"manufacturer": "BOEING"}),
        ),
        facts.planes_of("BOEING"),
        max_bytes=400,
        says=("BOEING",),
    ),
    Question(
        "How many planes did Boeing and Embraer build? (one of the names is right)",
        (
            aggregate("plane", filter={"manufacturer__in": ["Boeing", "EMBRAER"]}),
            aggregate("plane", filter={"manufacturer__in": ["BOEING", "EMBRAER"]}),
        ),
        facts.planes_of("BOEING", "EMBRAER"),
        max_bytes=400,
        says=("BOEING",),
    ),
    Question(
        "Which share of the planes is of Boeing?",
        (
            aggregate("plane", conditions={"own": {"manufacturer": "Boeing"}}, measures=["count@own"]),
            aggregate("plane", conditions={"own": {"manufacturer": "BOEING"}}, measures=["count@own"]),
        ),
        facts.planes_of("BOEING"),
        max_bytes=400,
        says=("BOEING",),
    ),
    Question(
        "How many flights left in 2031? (the data are of 2013)",
        (
            aggregate("flight", filter={"departs_at__gte": "2031-01-01", "departs_at__lt": "2032-01-01"}),
            aggregate("flight", filter={"departs_at__year": 2013}),
        ),
        facts.count(),
        max_bytes=400,
        says=("2013-01-01",),
    ),
    Question(
        "How many flights left on or after 4 July? (asked for with gt)",
        (
            aggregate("flight", filter={"departs_at__gt": "2013-07-04"}),
            aggregate("flight", filter={"departs_at__gte": "2013-07-04"}),
        ),
        facts.since_the_fourth_of_july,
        max_bytes=400,
        says=("gte",),
    ),
    Question(
        "How many flights were there in each week?",
        (
            aggregate("flight", group_by=["departs_at__week"]),
            aggregate("flight", group_by=["departs_at__iso_year", "departs_at__week"]),
        ),
        facts.by_week,
        max_bytes=2_500,
        says=("departs_at__iso_year",),
    ),
    Question(
        "How late are flights on the average? (some never arrived)",
        (aggregate("flight", measures=["avg:arrival_delay"]),),
        facts.mean_delay,
        max_bytes=400,
        says=("have no value",),
    ),
    Question(
        "Where did flight 1545 go? (searched for by its name)",
        (
            find("flight", search="flight 1545"),
            find("flight", filter={"number": 1545}, fields=["carrier"], order_by=["id"], limit=50),
        ),
        facts.flights_1545,
        max_bytes=3_000,
        says=("number",),
    ),
)  # fmt: skip
