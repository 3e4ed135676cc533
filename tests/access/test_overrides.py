"""What administrators decided about tools, as a process reads it."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group

from mcp_django import site
from mcp_django.access.overrides import Override, Overrides
from mcp_django.models import Tool

pytestmark = [pytest.mark.every_database, pytest.mark.django_db]


def test_overrides_and_their_groups_are_read_with_one_query(django_assert_num_queries: Any) -> None:
    first, second = Group.objects.create(name="a"), Group.objects.create(name="b")
    Tool.objects.filter(site=site.name).delete()
    Tool.objects.create(site=site.name, name="plain", enabled=True, description="Other words.")
    Tool.objects.create(site=site.name, name="both", enabled=True).groups.set([first, second])
    Tool.objects.create(site=site.name, name="left", enabled=True, restricted=True)
    Tool.objects.create(site="other", name="elsewhere", enabled=True)

    with django_assert_num_queries(1):
        found = Overrides("Tool")._load(site)

    assert found == {
        "plain": Override(enabled=True, description="Other words."),
        "both": Override(enabled=True, restricted=True, groups=frozenset({first.pk, second.pk})),
        "left": Override(enabled=True, restricted=True),
    }
