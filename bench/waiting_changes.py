"""The pages on which people decide about changes: the processor's time of the list, of one change, and of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from statistics import median
from time import process_time
from typing import Any

from django.contrib.auth.models import User
from django.db.models import TextField, Value
from django.db.models.functions import Concat
from django.test import Client
from django.utils import timezone

from bench.form_rows import make_rows
from bench.goals import Goal
from bench.serving.calls import JSON, MODERN, call
from demo_project.flights.models import Flight
from mcp_django.models import AccessToken, Tool

#: Agents, and the changes that each lets wait: as many as one credential may.
AGENTS, EACH = 5, 20
#: Rows of the one change of many.
ROWS = 300
#: Milliseconds of processor: of the list, of so many on one page, and for each row of the one of many.
LIST_MS, TOGETHER_MS, ROW_MS = 300, 1_000, 20
_LIST = "/admin/mcp_django/change/"
#: What is to be written, which whoever may approve is shown.
_NEW = "fog at noon"


def measure(browser: Client, rounds: int) -> Iterator[Goal]:
    """The goals. ``browser`` is logged in as somebody who may approve."""
    waiting, large = _propose()
    together = {"action": "approve_several", "_selected_action": waiting[:EACH]}
    pages: Mapping[str, tuple[int, Callable[[], Any]]] = {
        f"{len(waiting)} changes that wait": (LIST_MS, lambda: browser.get(_LIST)),
        f"{EACH} of them together": (TOGETHER_MS, lambda: browser.post(_LIST, together)),
        f"one of {ROWS} rows": (ROW_MS * ROWS, lambda: browser.get(f"{_LIST}{large}/change/")),
    }
    for what, (limit, open_page) in pages.items():
        took = []
        for _ in range(rounds):
            begun = process_time()
            text = open_page().content.decode()
            took.append((process_time() - begun) * 1_000)
        if _NEW not in text:
            raise ValueError(f"{what}: no page of what waits")
        yield Goal(what, median(took), limit, "ms")


def _propose() -> tuple[list[str], str]:
    """The numbers of the changes that wait for other people: those of one row each, and the one of many rows."""
    users = User.objects.bulk_create(
        User(username=f"clerk {number}", is_superuser=True, is_staff=True) for number in range(AGENTS + 1)
    )
    # Nobody approves what is older than the account.
    User.objects.update(date_joined=timezone.now() - timedelta(days=1))
    for name in ("update_record", "update_records"):
        Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True, "asks": "approve"})
    planner, *agents = (AccessToken.objects.create_token(user=one, scopes=["read", "write"])[1] for one in users)
    keys = list(map(str, make_rows(ROWS)))
    # So that no two rows of the large one change alike.
    Flight.objects.update(notes=Concat(Value("dense "), "pk", output_field=TextField()))
    large = _waits(planner, "update_records", ids=keys, values={"notes": _NEW})
    found = [
        _waits(agents[number % AGENTS], "update_record", id=key, values={"notes": _NEW, "departure_delay": number})
        for number, key in enumerate(keys[: AGENTS * EACH])
    ]
    return found, large


def _waits(token: str, tool: str, **arguments: Any) -> str:
    """The number of a change of flights that a token proposes. Raises ValueError where it does not wait."""
    about = {"model": "flights.flight", **arguments}
    confirm = _ask(token, tool, about)["confirm"]
    return str(_ask(token, tool, {**about, "confirm": confirm})["change"])


def _ask(token: str, tool: str, arguments: JSON) -> JSON:
    asked = call((tool, arguments), MODERN, {"Authorization": f"Bearer {token}"})
    answer = Client(SERVER_NAME="localhost").post(
        "/mcp", asked.body, content_type="application/json", headers=dict(asked.headers)
    )
    result = answer.json()["result"]
    if result.get("isError"):
        raise ValueError(result["content"][0]["text"])
    found: JSON = result["structuredContent"]
    return found
