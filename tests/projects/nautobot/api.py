"""What the comparison of the API needs to know of this project."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from nautobot.dcim.models import Location
from nautobot.users.models import ObjectPermission

PREFIX = "api/"
#: Values of variables of paths, by their names.
PATH: dict[str, Any] = {}
VOLATILE = ("created", "last_updated", "natural_slug", "display", "last_login")
#: One of each kind: trees, rows with many relations, actions of their own, files, users and their rights.
FULL = frozenset(
    {
        "location", "device", "devicetype", "interface", "cable", "manufacturer", "prefix", "ipaddress", "vlan", "tag",
        "status", "dynamicgroup", "job", "tenant", "user",
    }
)  # fmt: skip
_NAMES = ["root", "clerk", "plain"]
#: What the clerk may do with all rows.
_MAY = {
    "dcim.device": ["view", "change"],
    "dcim.interface": ["view"],
    "ipam.prefix": ["view", "add", "change", "delete"],
}


def fill() -> None:
    """Make the rows of Nautobot's own tests, and the callers."""
    call_command("generate_test_data", seed="Nautobot", interactive=False, verbosity=0)
    users = get_user_model()._default_manager
    users.create_superuser("root", "root@example.com", "x")
    clerk = users.create_user("clerk", "clerk@example.com", "x")
    users.create_user("plain", "plain@example.com", "x")
    for label, actions in _MAY.items():
        _permit(clerk, label, actions, {})
    # Every second location, of which it may change the first alone.
    names = sorted(Location.objects.values_list("name", flat=True))
    _permit(clerk, "dcim.location", ["view"], {"name__in": names[::2]})
    _permit(clerk, "dcim.location", ["change"], {"name": names[0]})


def _permit(user: Any, label: str, actions: list[str], constraints: dict[str, Any]) -> None:
    permission = ObjectPermission.objects.create(name=f"{label} {actions}", actions=actions, constraints=constraints)
    app, model = label.split(".")
    permission.object_types.add(ContentType.objects.get_by_natural_key(app, model))
    permission.users.add(user)


def people() -> dict[str, Any]:
    """The callers by their names; empty before the rows are made."""
    users = {one.username: one for one in get_user_model()._default_manager.filter(username__in=_NAMES)}
    return {**{name: users[name] for name in _NAMES}, "anonymous": None} if users else {}
