"""ModelAdmins that work where they answer, lead elsewhere, and keep what they know of a request."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpResponseRedirect

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Ledger, Order

Admin: Any = admin.ModelAdmin


class WorkingAdmin(Admin):
    """Adds up once a row is saved, and leads to a page that does not exist."""

    fields = ["name"]

    def response_add(self, request: Any, obj: Any, post_url_continue: Any = None) -> Any:
        Ledger.objects.create(name=f"of {obj}")
        super().response_add(request, obj, post_url_continue)
        return HttpResponseRedirect("/elsewhere/")

    def response_change(self, request: Any, obj: Any) -> Any:
        obj.total += 1
        obj.save(update_fields=["total"])
        self.message_user(request, "Added up.")
        return HttpResponseRedirect("/elsewhere/")


class PostSaveAdmin(Admin):
    fields = ["name"]

    def response_post_save_add(self, request: Any, obj: Any) -> Any:
        Ledger.objects.create(name=f"of {obj}")
        return HttpResponseRedirect("/elsewhere/")

    response_post_save_change = response_post_save_add


class StatefulAdmin(Admin):
    """Keeps the request's user for its other hooks, as projects do that are asked once at a time."""

    fields = ["name"]

    def changeform_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
        self.asked_by = request.user.username
        return super().changeform_view(request, *args, **kwargs)

    def save_model(self, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.changed_by = self.asked_by
        super().save_model(request, obj, form, change)


def test_what_is_done_after_a_row_is_made_or_changed_is_done(lab: Lab) -> None:
    order, made, changed = Order.objects.create(name="first", total=3), {}, {}
    for admin_class in (WorkingAdmin, PostSaveAdmin, StatefulAdmin):
        lab.admin(Order, admin_class)
        made[admin_class] = lab.same(Order, values={"name": "second"})
        changed[admin_class] = lab.same(Order, order, values={"name": "second"})

    for admin_class in (WorkingAdmin, PostSaveAdmin):
        assert [ledger["name"] for ledger in made[admin_class].of(Ledger)] == ["of second"]
    assert changed[WorkingAdmin].of(Order)[0]["total"] == 4
    assert [ledger["name"] for ledger in changed[PostSaveAdmin].of(Ledger)] == ["of second"]
    # What the view keeps for its later hooks is there.
    assert made[StatefulAdmin].of(Order)[1]["changed_by"] == "root"


def test_a_view_that_fills_in_what_is_sent_is_asked(lab: Lab) -> None:
    class Completing(Admin):
        fields = ["name", "total"]

        def add_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            if request.method == "POST":
                request.POST = request.POST.copy()
                request.POST["total"] = "42"
            return super().add_view(request, *args, **kwargs)

    lab.admin(Order, Completing)

    made = lab.same(Order, values={"name": "first"})

    assert made.of(Order)[0]["total"] == 42


def test_a_row_that_is_already_gone_when_the_answer_is_made_is_no_failure(lab: Lab) -> None:
    class Moving(Admin):
        fields = ["name"]

        def response_change(self, request: Any, obj: Any) -> Any:
            Ledger.objects.create(name=obj.name)
            obj.delete()
            return HttpResponseRedirect("/elsewhere/")

    lab.admin(Order, Moving)

    made = lab.same(Order, Order.objects.create(name="first"), values={"name": "second"})

    assert made.of(Order) == []


def test_a_host_that_django_does_not_allow_stops_nobody(lab: Lab, settings: Any) -> None:
    """Requests without a client of HTTP have that of BASE_URL, and the admin asks for it once a row is saved."""
    settings.ALLOWED_HOSTS = ["testserver"]
    lab.admin(Order, fields=["name"])

    made = lab.same(Order, values={"name": "first"})

    assert made.of(Order)[0]["name"] == "first"
