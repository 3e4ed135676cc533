"""The messages of the system checks."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.checks import CheckMessage, run_checks

Admin: Any = admin.ModelAdmin


def messages() -> list[CheckMessage]:
    """What is found without a database, of which Django 6.0 and later name all where a tag is given."""
    return run_checks(tags=["mcp_django"], databases=[])


def of(number: str) -> list[CheckMessage]:
    return [message for message in messages() if message.id == f"mcp_django.{number}"]
