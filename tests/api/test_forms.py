"""Pages with a form take from an agent what they take from a browser, and refuse what they refuse there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from mcp_django import expose_form
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import MCPClient
from tests.api.comparing import by_tool, operation_of
from tests.api.forms_project.requests import CASES
from tests.api.forms_project.rows import make_rows
from tests.projects import differences
from tests.projects.apis.known import wrong_lines

NAMES = [
    "contact", "booking", "note-add", "note-edit", "note-publish", "note-review", "note-by-slug", "quick-note",
    "topic-close", "label-add", "transfer", "search", "period", "member", "coupon-add", "sign-up", "reminder", "broken",
]  # fmt: skip


#: Where an agent does not get what a browser gets, and why: as in ``shop_differences.txt``.
_KNOWN = Path(__file__).with_name("forms_differences.txt")


@pytest.fixture
def club(settings: Any, db: None) -> SimpleNamespace:
    """The rows of a project that has pages with forms, and no API."""
    settings.ROOT_URLCONF = "tests.api.forms_project.urls"
    return make_rows()


@pytest.fixture
def site(club: SimpleNamespace) -> MCPSite:
    made = MCPSite("club")
    expose_form(*NAMES, site=made)
    return made


@pytest.mark.every_database
@pytest.mark.parametrize("caller", ["anna", "anonymous", "otto", "stella"])
def test_a_form_takes_from_an_agent_what_it_takes_from_a_browser(
    caller: str, site: MCPSite, club: SimpleNamespace, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "ANONYMOUS_SCOPES": ["read", "write"]}
    user = getattr(club, caller, None)
    found, compared = [], 0
    with MCPClient(user, None if user is None else ["write"], site=site, switched_on=["change_api"]) as client:
        for case in CASES:
            target = operation_of(site, case.path_of(club), "POST")
            if case.method != "POST" or target is None:
                continue
            operation, values = target
            expected = _in_browser(user, case, club)
            arguments = {"params": {**values, **case.query_of(club)}, "body": _fields(client, case.body_of(club))}
            outcome, got = by_tool(client, operation, arguments)
            compared += 1
            if (outcome == "done") is not (expected == "done") or not all(text in str(got) for text in expected[1:]):
                found.append(f"{caller} {case.path} {case.note}: {expected}, but {outcome}: {got}")

    assert compared > 50
    known = [one for one in differences.read(_KNOWN) if one.partition(" ")[0] in (caller, "*")]
    wrong = wrong_lines(known, found, is_whole=True)
    assert not wrong, "\n" + "\n".join(wrong)


def _in_browser(user: Any, case: Any, club: SimpleNamespace) -> Any:
    """ "done", or that it is refused with the errors of the form."""
    client = Client(raise_request_exception=False, SERVER_NAME="localhost")
    if user is not None:
        client.force_login(user)
    with transaction.atomic():
        try:
            response = client.post(case.path_of(club), case.body_of(club) or {}, query_params=case.query_of(club))
        finally:
            transaction.set_rollback(True)
    if response.status_code == 302:
        return ["refused"] if response["Location"].startswith("/accounts/login/") else "done"
    context = getattr(response, "context_data", None) or {}
    form = next((one for one in context.values() if getattr(one, "is_bound", False)), None)
    if form is not None and form.errors:
        return ["refused", *(str(text) for texts in form.errors.values() for text in texts)]
    return "done" if response.status_code in (200, 201) else ["refused"]


def _fields(client: MCPClient, body: Any) -> dict[str, Any]:
    """The inputs of a page by the names of their fields, as an agent gives them."""
    found: dict[str, Any] = {}
    for name, value in (body or {}).items():
        field = name.removeprefix("booking-")
        if field.endswith(("_0", "_1")):
            found.setdefault(field[:-2], []).append(value)
        else:
            is_file = hasattr(value, "read")
            found[field] = client.upload(value.read(), value.name, value.content_type) if is_file else value
    return found
