"""The command that takes an inventory, as tests call it."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from tests.support.data import make_staff

Admin: Any = admin.ModelAdmin


def run(*arguments: Any) -> str:
    printed = StringIO()
    call_command("mcp_inventory", *arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def refused(*arguments: Any) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


@pytest.fixture
def viewer(db: None) -> User:
    return make_staff("vera", "flights.view_flight", "flights.view_airline")
