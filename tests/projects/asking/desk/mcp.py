from typing import Any

from django.urls import reverse
from reversion.models import Version

from mcp_django import ModelMCP, ObjectAction, register
from tests.projects.asking.desk.models import (
    Buttoned,
    Flowing,
    Inlined,
    Item,
    Linked,
    Recorded,
    Unfolded,
    Versioned,
)  # fmt: skip


@register(Item, Linked, Unfolded, Buttoned, Inlined)
class ItemMCP(ModelMCP):
    writable = ("update",)


@register(Flowing)
class FlowingMCP(ItemMCP):
    buttons = ("_fsmtransition-state-let_go",)


def first_record(obj: Any) -> str:
    key = obj.history.earliest().pk
    return reverse("admin:desk_recorded_simple_history", args=[obj.pk, key])


def first_version(obj: Any) -> str:
    key = Version.objects.get_for_object(obj).earliest("pk").pk
    return reverse("admin:desk_versioned_revision", args=[obj.pk, key])


@register(Recorded)
class RecordedMCP(ItemMCP):
    object_actions = (ObjectAction("revert", path=first_record),)


@register(Versioned)
class VersionedMCP(ItemMCP):
    object_actions = (ObjectAction("revert", path=first_version),)
