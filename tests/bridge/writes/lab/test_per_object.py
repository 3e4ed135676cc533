"""Fields, permissions and choices that depend on the object, and on the user."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User

from mcp_django.bridge.writes.access import VERBS
from tests.bridge.writes.lab import driving
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Article, Desk, Ledger, Team
from tests.support.data import make_staff

Admin: Any = admin.ModelAdmin


class ByFields(Admin):
    """Once it is out, its text cannot be changed any more; a summary can."""

    def get_fields(self, request: Any, obj: Any = None) -> list[str]:
        return ["name", "status", "text"] if obj is None or obj.status == "draft" else ["name", "summary"]


class ByFieldsets(Admin):
    def get_fieldsets(self, request: Any, obj: Any = None) -> Any:
        is_out = obj is not None and obj.status == "out"
        return [(None, {"fields": ["name"]}), ("More", {"fields": ["summary" if is_out else ("status", "text")]})]


class ByReadonlyFields(Admin):
    fields = ["name", "status", "text", "summary"]

    def get_readonly_fields(self, request: Any, obj: Any = None) -> list[str]:
        return ["status", "text"] if obj is not None and obj.status == "out" else ["summary"]


class ByExclude(Admin):
    def get_exclude(self, request: Any, obj: Any = None) -> list[str]:
        return ["status", "text", "reviewer"] if obj is not None and obj.status == "out" else ["summary", "reviewer"]


BY_OBJECT = [ByFields, ByFieldsets, ByReadonlyFields, ByExclude]


def article(status: str) -> Article:
    return Article.objects.create(name="news", status=status, text="long", summary="short", reviewer="Ann")


@pytest.mark.parametrize("admin_class", BY_OBJECT)
def test_each_row_is_changed_by_the_fields_of_its_own_page(lab: Lab, admin_class: Any) -> None:
    lab.admin(Article, admin_class)

    new = lab.same(Article, values={"name": "news", "text": "long"})
    draft, out = article("draft"), article("out")
    of_draft = lab.same(Article, draft, values={"text": "longer", "status": "out"})
    of_out = lab.same(Article, out, values={"summary": "shorter"})
    refused = lab.refused(Article, out, values={"text": "longer"})

    assert new.of(Article)[0]["summary"] == ""
    assert of_draft.of(Article)[0] == {
        "id": draft.pk, "name": "news", "status": "out", "text": "longer", "summary": "short", "reviewer": "Ann",
    }  # fmt: skip
    assert of_out.of(Article)[1]["summary"] == "shorter"
    assert "no field 'text'" in str(refused)


class LockedAdmin(Admin):
    """Leads back to the list, with a message, from the page of a closed ledger."""

    def change_view(self, request: Any, object_id: str, *args: Any, **kwargs: Any) -> Any:
        ledger = self.get_object(request, object_id)
        if ledger is not None and ledger.closed:
            self.message_user(request, "The ledger is closed.", "error")
            return self.response_post_save_change(request, ledger)
        return super().change_view(request, object_id, *args, **kwargs)


class UnchangeableAdmin(Admin):
    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or not obj.closed)


@pytest.mark.parametrize(("admin_class", "why"), [(LockedAdmin, "The ledger is closed."), (UnchangeableAdmin, "")])
def test_a_row_is_changed_as_long_as_its_page_lets_one(lab: Lab, admin_class: Any, why: str) -> None:
    lab.admin(Ledger, admin_class)
    may, june = Ledger.objects.create(name="May", closed=True), Ledger.objects.create(name="June")

    made = lab.same(Ledger, june, values={"amount": "12.50", "closed": True})
    refused = lab.refused(Ledger, may, values={"amount": "12.50"})

    assert made.of(Ledger)[1]["closed"] is True
    assert why in str(refused)


class OpenLedgers(BaseBackend):
    """Everybody may do everything with ledgers that are open."""

    def has_perm(self, user_obj: Any, perm: str, obj: Any = None) -> bool:
        return isinstance(obj, Ledger) and not obj.closed


#: What a hook answers, and whether it allows it of the open ledger, and of the closed one.
OF_A_ROW_ALONE = {
    "by its value": (lambda request, obj: obj is not None and not obj.closed, True, False),
    "by a backend": (lambda request, obj: request.user.has_perm("lab.touch_ledger", obj), True, False),
    "by the page": (lambda request, obj: obj is not None and f"/{obj.pk}/" in request.path, True, True),
    "of every row": (lambda request, obj: obj is not None, True, True),
    "of no row": (lambda request, obj: obj is None, False, False),
    "never": (lambda request, obj: False, False, False),
}


@pytest.mark.parametrize("operation", ["update", "delete"])
@pytest.mark.parametrize("hook", OF_A_ROW_ALONE)
def test_what_a_hook_allows_of_a_row_alone_is_done_as_in_the_admin(
    lab: Lab, settings: Any, operation: str, hook: str
) -> None:
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, f"{__name__}.OpenLedgers"]
    answer, *allowed = OF_A_ROW_ALONE[hook]

    class ByRow(Admin):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(name="hidden")

        def has_add_permission(self, request: Any) -> bool:
            return False

    setattr(ByRow, f"has_{VERBS[operation]}_permission", lambda self, request, obj=None: answer(request, obj))
    lab.admin(Ledger, ByRow)
    lab.user = make_staff("clerk", "lab.view_ledger")
    ask, label = partial(driving.ask, lab.site, lab.user), Ledger._meta.label_lower
    june, may = (Ledger.objects.create(name=name, closed=name == "May") for name in ("June", "May"))
    hidden = Ledger.objects.create(name="hidden")

    if not any(allowed):
        with pytest.raises(AssertionError, match="TOOL_NOT_FOUND"):
            ask(f"{operation}_record", **_given(operation, june.pk))
        return
    assert ask("describe_form")["models"] == {label: [operation]}
    for row, is_allowed in zip((june, may), allowed, strict=True):
        described = ask("describe_form", model=label, id=str(row.pk))
        assert described["operations"] == ([operation] if is_allowed else [])
        if not is_allowed:
            assert "You may not do this." in _told(partial(ask, f"{operation}_record", **_given(operation, row.pk)))
        elif operation == "update":
            lab.same(Ledger, row, values={"amount": "12.50"})
        else:
            lab.same_deletion(row)
    told = [_told(partial(ask, f"{operation}_record", **_given(operation, key))) for key in (hidden.pk, 999)]
    assert told[0].replace(str(hidden.pk), "KEY") == told[1].replace("999", "KEY")


def _given(operation: str, key: Any) -> dict[str, Any]:
    named = {"id": str(key), "values": {"amount": "1.00"}} if operation == "update" else {"ids": [str(key)]}
    return {"model": Ledger._meta.label_lower, **named}


def _told(act: Callable[[], object]) -> str:
    with pytest.raises(driving.Refusal) as refused:
        act()
    return str(refused.value)


class DeskAdmin(Admin):
    """Offers the teams whose name begins with that of the user."""

    def formfield_for_foreignkey(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        if db_field.name == "team":
            kwargs["queryset"] = Team.objects.filter(name__startswith=request.user.username)
        return super().formfield_for_foreignkey(db_field, request, **kwargs)


@pytest.fixture
def teams(lab: Lab) -> dict[str, Team]:
    lab.admin(Desk, DeskAdmin)
    lab.admin(Team)
    return {name: Team.objects.create(name=name) for name in ("root red", "clerk blue")}


def test_each_user_links_what_that_user_is_offered(lab: Lab, teams: dict[str, Team]) -> None:
    rights = [f"lab.{action}_{model}" for action in ("view", "add", "change") for model in ("desk", "team")]
    red, blue = ({"name": "window", "team": teams[name].pk} for name in ("root red", "clerk blue"))

    made, refused = lab.same(Desk, values=red), lab.refused(Desk, values=blue)
    lab.user = make_staff("clerk", *rights)
    del lab.browser
    others = lab.same(Desk, values=blue)

    assert made.of(Desk)[0]["team_id"] == red["team"]
    assert refused.fields == ["values.team"]
    assert others.log[0]["user"] == User.objects.get(username="clerk").pk


def test_a_link_that_is_not_offered_any_more_stops_a_change_of_anything_else(lab: Lab, teams: dict[str, Team]) -> None:
    """A browser would send the page without it, and the link would be lost."""
    desk = Desk.objects.create(name="window", team=teams["clerk blue"])

    refused = lab.refused(Desk, desk, values={"name": "door"})

    assert "what is stored is not accepted any more" in str(refused)
