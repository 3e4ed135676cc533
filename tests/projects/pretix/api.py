"""What the comparison of the API needs to know of this project."""

from __future__ import annotations

import datetime
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django_scopes import scopes_disabled
from pretix.base.models import Event, Organizer, Team, User, Voucher

from tests.projects.apis.rows import ApiFactory

PREFIX = "api/v1/"
#: Values of variables of paths, by their names.
PATH: dict[str, Any] = {"organizer": "org", "event": "ev", "output": "pdf"}
VOLATILE = ("last_login", "code", "identifier", "secret")
#: A list has several pages if it has more than 50 rows.
_VOUCHERS = 120
_NAMES = ["root", "clerk", "plain"]
#: Texts that hold JSON, and fields that must fit each other.
_VALUES: dict[str, Any] = {
    "custom_rules": "[]", "layout": "{}", "meta_info": "{}", "info": "{}", "rows": "[]", "data": "{}",
    "json_data": "{}", "seatingplan.layout": '{"name": "Plan", "zones": [], "categories": []}', "question.type": "C",
    "question.container_type": "P", "choices": [], "orderposition.blocked": [],
    "canceled": False, "hidden": False, "is_cancellation": False,
    "mail_restrict_to_status": "p", "configuration": {}, "tax_rate": 0, "timezone": "UTC", "locale": "en",
}  # fmt: skip


def fill() -> None:
    """Make an organizer with an event, a row of each model, and the callers."""
    with scopes_disabled():
        _fill()


def _fill() -> None:
    organizer = Organizer.objects.create(name="Org", slug="org")
    begin = datetime.datetime(2024, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
    event = Event.objects.create(
        organizer=organizer, name="Ev", slug="ev", date_from=begin, plugins="", has_subevents=True
    )
    users = {name: User.objects.create_user(f"{name}@example.com", "x") for name in _NAMES}
    User.objects.filter(pk=users["root"].pk).update(is_staff=True)
    factory = ApiFactory({}, _VALUES)
    factory.share(organizer, event, users["root"])
    for model in apps.get_models():
        if model.__module__.startswith("pretix.") and model not in (Team, User):
            for row in factory.rows_of(model, 1):
                factory.relate(row)
    for model, why in factory.failed.items():
        print(f"no row of {model._meta.label_lower}: {why}")
    Voucher.objects.bulk_create(Voucher(event=event, code=f"VOUCHER{number}") for number in range(_VOUCHERS))
    _teams(organizer, users)


def _teams(organizer: Organizer, users: dict[str, Any]) -> None:
    """One that may do everything, and one that may look at some things and change vouchers."""
    every = {"all_events": True, "all_event_permissions": True, "all_organizer_permissions": True}
    Team.objects.create(organizer=organizer, name="all", **every).members.add(users["root"])
    event = ["event.orders:read", "event.vouchers:read", "event.vouchers:write", "event.items:write"]
    some = Team.objects.create(
        organizer=organizer, name="some", all_events=True, limit_event_permissions=dict.fromkeys(event, True),
        limit_organizer_permissions={"organizer.giftcards:read": True},
    )  # fmt: skip
    some.members.add(users["clerk"])


def people() -> dict[str, Any]:
    """The callers by their names; empty before the rows are made."""
    emails = [f"{name}@example.com" for name in _NAMES]
    users = {one.email.partition("@")[0]: one for one in get_user_model()._default_manager.filter(email__in=emails)}
    return {**{name: users[name] for name in _NAMES}, "anonymous": None} if users else {}
