"""A preview leaves nothing behind, whatever saving would do."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.contrib.contenttypes.admin import GenericTabularInline
from django.core import mail
from django.core.cache import cache
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage
from django.db import transaction
from django.db.models.signals import post_save

from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes import deletions
from mcp_django.bridge.writes.proposals import propose
from mcp_django.exceptions import ToolError
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import (
    Album,
    Attachment,
    Drawer,
    Ledger,
    Line,
    Lorry,
    Meeting,
    Order,
    Parcel,
    Remark,
    Story,
    Topic,
)
from tests.bridge.writes.lab.tripwires import SETTINGS, tripwires
from tests.support.asking import request_of

pytestmark = pytest.mark.every_database
Admin: Any = admin.ModelAdmin
FILE = {"name": "letter.txt", "base64": base64.b64encode(b"Dear").decode()}


class LineInline(admin.TabularInline):  # type: ignore[type-arg]
    model = Line


class RemarkInline(GenericTabularInline):  # type: ignore[type-arg]
    model = Remark
    ct_field, ct_fk_field = "kind", "key"


def leave_everything() -> None:
    """What a project does when a row is saved."""
    Ledger.objects.create(name="saved")
    cache.set("saved", True)
    mail.send_mail("saved", "It was.", "admin@example.com", ["ann@example.com"])
    transaction.on_commit(lambda: None)
    default_storage.save("saved.txt", ContentFile(b"saved"))


class BusyAdmin(Admin):
    """Leaves much behind in each hook that saves."""

    fields = ["name"]
    inlines = [LineInline]

    def save_model(self, *args: Any) -> None:
        leave_everything()
        super().save_model(*args)

    def save_related(self, *args: Any) -> None:
        leave_everything()
        super().save_related(*args)

    def save_formset(self, *args: Any) -> None:
        leave_everything()
        super().save_formset(*args)

    def construct_change_message(self, *args: Any, **kwargs: Any) -> Any:
        leave_everything()
        return super().construct_change_message(*args, **kwargs)

    def log_change(self, *args: Any) -> Any:
        leave_everything()
        return super().log_change(*args)

    def response_change(self, *args: Any) -> Any:
        leave_everything()
        return super().response_change(*args)

    def delete_model(self, *args: Any) -> None:
        leave_everything()
        super().delete_model(*args)


class PureForm(forms.ModelForm):
    def clean(self) -> Any:
        cleaned = super().clean() or {}
        cleaned["total"] = len(cleaned.get("name", ""))
        return cleaned


class PureAdmin(Admin):
    form = PureForm
    fields = ["name", "total"]

    def save_form(self, request: Any, form: Any, change: bool) -> Any:
        obj = super().save_form(request, form, change)
        obj.changed_by = request.user.username
        return obj


def order() -> Order:
    made = Order.objects.create(name="first")
    made.lines.create(what="cup")
    return made


def attachment() -> Attachment:
    made = Attachment(name="letter")
    made.paper.save("letter.txt", ContentFile(b"Dear"), save=False)
    made.save()
    return made


def story() -> Story:
    made = Story.objects.create(name="news")
    made.topics.add(Topic.objects.create(name="art"))
    return made


#: A ModelAdmin with its options, what makes a row (None where a new one is proposed), values, and rows of inlines.
Case = tuple[Any, Any, dict[str, Any], Callable[[], Any] | None, dict[str, Any], dict[str, Any]]
CASES: dict[str, Case] = {
    "a new row": (Order, None, {}, None, {"name": "first"}, {}),
    "a changed row": (Order, None, {}, order, {"name": "second"}, {}),
    "rows of an inline": (Order, None, {"inlines": [LineInline]}, order, {}, {"lines": [{"what": "plate"}]}),
    "a row with those of an inline": (
        Order, None, {"inlines": [LineInline]}, None, {"name": "first"}, {"lines": [{"what": "plate"}]},
    ),
    "what is said about a row": (
        Album, None, {"inlines": [RemarkInline]}, None, {"name": "Revolver"}, {"remark": [{"text": "good"}]},
    ),
    "a new file": (Attachment, None, {}, None, {"name": "letter", "paper": FILE}, {}),
    "another file": (Attachment, None, {}, attachment, {"paper": FILE}, {}),
    "links": (Story, None, {"fields": ["name", "topics"]}, story, {"topics": []}, {}),
    "a moment": (Meeting, None, {}, None, {"name": "Lunch", "begins": "2024-05-01T08:30:00Z"}, {}),
    "a row of two tables": (Lorry, None, {}, None, {"name": "big one", "load": 40}, {}),
    "a random key": (Parcel, None, {}, None, {"name": "books"}, {}),
    "a text as the key": (Drawer, None, {}, None, {"code": "a/b", "content": "pens"}, {}),
    "a pure form": (Order, PureAdmin, {}, order, {"name": "second"}, {}),
    "hooks that leave much behind": (
        Order, BusyAdmin, {}, order, {"name": "second"}, {"lines": [{"what": "plate"}]},
    ),
    "hooks that leave much behind of a new row": (Order, BusyAdmin, {}, None, {"name": "second"}, {}),
    "a user": (User, UserAdmin, {}, User.objects.get, {"first_name": "Ann"}, {}),
}  # fmt: skip


@pytest.fixture(autouse=True)
def heard_settings(settings: Any) -> None:
    for name, value in SETTINGS.items():
        setattr(settings, name, value)


@contextmanager
def busy_receiver() -> Iterator[None]:
    """A receiver leaves much behind whenever a row but of the ledger is saved."""

    def receive(sender: Any, **kwargs: Any) -> None:
        if sender is not Ledger:
            leave_everything()

    post_save.connect(receive)
    try:
        yield
    finally:
        post_save.disconnect(receive)


def rights(lab: Lab) -> Rights:
    return Rights(lab.site, request_of(lab.user, "read", "write"))


def test_a_preview_leaves_nothing_behind(lab: Lab) -> None:
    found: dict[str, tuple[list[str], bool]] = {}
    lab.admin(Topic)
    lab.site.register(User, writable=["update"])
    for what, (model, admin_class, options, make, values, rows) in CASES.items():
        lab.admin(model, admin_class, **options)
        key = {} if make is None else {"id": str(make().pk)}
        arguments = {"model": model._meta.label_lower, **key, "values": values, "rows": rows}
        before = lab.everything()

        with busy_receiver(), tripwires() as heard:
            propose(rights(lab), "create" if make is None else "update", arguments).preview()

        found[what] = [*heard], lab.everything() == before

    assert found == dict.fromkeys(CASES, ([], True))


def test_the_preview_of_a_deletion_and_one_that_is_refused_leave_nothing_behind(lab: Lab) -> None:
    lab.admin(Order, BusyAdmin)
    lab.admin(Attachment)
    ids = [str(order().pk) for _ in range(2)]
    before = lab.everything()

    with busy_receiver(), tripwires() as heard:
        deletions.propose(rights(lab), {"model": "lab.order", "ids": ids[:1]}).preview()
        deletions.propose(rights(lab), {"model": "lab.order", "ids": ids}).preview()
        with pytest.raises(ToolError):
            attached = {"model": "lab.attachment", "values": {"name": "", "paper": FILE}}
            propose(rights(lab), "create", attached).preview()

    assert heard == []
    assert lab.everything() == before


def test_what_a_project_writes_while_a_form_is_read_is_taken_back(lab: Lab) -> None:
    class Writing(Admin):
        fields = ["name"]

        def save_form(self, request: Any, form: Any, change: bool) -> Any:
            Ledger.objects.create(name="read")
            return super().save_form(request, form, change)

    lab.admin(Order, Writing)
    before = lab.everything()

    with tripwires() as heard:
        propose(rights(lab), "create", {"model": "lab.order", "values": {"name": "first"}}).preview()

    assert heard == []
    assert lab.everything() == before


def test_what_saving_leaves_behind_is_heard_unless_a_savepoint_takes_it_back(lab: Lab) -> None:
    with tripwires() as heard:
        leave_everything()
        with transaction.atomic():
            Ledger.objects.create(name="for a moment")
            transaction.set_rollback(True)

    assert [what.partition(":")[0] for what in heard] == [
        "a statement has written",
        "the cache was written",
        "a callback waits for the commit",
        "a file was saved",
        "a mail was sent",
    ]
