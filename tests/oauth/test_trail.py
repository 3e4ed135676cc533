"""What the audit trail says of a person's decisions: who it was, and from where."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_django.audit.recorder import recorder
from mcp_django.models import Call
from tests.oauth.flow import CLAUDE, RESOURCE, Person, Program, hidden_in
from tests.support.data import Users

HERE = "192.0.2.9"


@pytest.fixture(autouse=True)
def _audited(settings: Any, transactional_db: None) -> None:
    settings.MCP = {**settings.MCP, "AUDIT": "on"}
    recorder._reset()


def written(reason: str) -> tuple[str, str, str]:
    """The line for what was decided: by whom, about which client, and from where."""
    recorder.flush()
    line = Call.objects.get(reason=reason)
    return line.user_name, line.client_id, line.address


def person_at(address: str, users: Users) -> Person:
    person = Person(users.ops)
    person.browser.defaults["REMOTE_ADDR"] = address
    return person


def test_who_disconnects_an_app_is_written_down(users: Users) -> None:
    Program().log_in(users.ops)
    person = person_at(HERE, users)
    form = {**hidden_in(person.open("/mcp/connected")), "client": CLAUDE, "resource": RESOURCE}

    person.browser.post("/mcp/connected", form)

    assert written("ended: revoked") == ("ops", CLAUDE, HERE)
