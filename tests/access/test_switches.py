"""What administrators said of tools, as a process reads it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from mcp_django import site
from mcp_django.access.overrides import Switch, Switches
from mcp_django.models import Tool

pytestmark = pytest.mark.django_db


def test_switches_and_their_groups_are_read_with_one_query(django_assert_num_queries: Any) -> None:
    first, second = Group.objects.create(name="a"), Group.objects.create(name="b")
    Tool.objects.filter(site=site.name).delete()
    Tool.objects.create(site=site.name, name="plain", enabled=True, description="Other words.")
    Tool.objects.create(site=site.name, name="both", enabled=True).groups.set([first, second])
    Tool.objects.create(site=site.name, name="left", enabled=True, restricted=True)
    Tool.objects.create(site="other", name="elsewhere", enabled=True)

    with django_assert_num_queries(1):
        found = Switches("Tool")._load(site)

    assert found == {
        "plain": Switch(enabled=True, description="Other words."),
        "both": Switch(enabled=True, restricted=True, groups=frozenset({first.pk, second.pk})),
        "left": Switch(enabled=True, restricted=True),
    }
