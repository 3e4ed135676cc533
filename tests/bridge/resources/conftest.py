"""Who asks in tests of resources, and models that show only some of their rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest

from mcp_django import ModelMCP
from tests.support.asking import DirectPeer


@pytest.fixture
def root(db: None) -> DirectPeer:
    """A superuser, in the test's own thread."""
    return DirectPeer(User.objects.create_superuser("root", password="sesame"))


def showing(change: Callable[[Any], Any], **options: Any) -> type[ModelMCP]:
    """A ModelMCP that changes the queryset: ``showing(lambda every: every.filter(faa="JFK"))``."""

    class Showing(ModelMCP):
        def get_queryset(self, request: HttpRequest) -> Any:
            return change(super().get_queryset(request))

    return type("Showing", (Showing,), options)


def each(may_be_viewed: Callable[[Any], bool], **options: Any) -> type[ModelMCP]:
    """A ModelMCP that is asked for the permission on each row."""

    class Each(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or may_be_viewed(obj)

    return type("Each", (Each,), options)
