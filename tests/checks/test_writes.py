"""What the checks say about writing."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpResponse

from demo_project.flights.models import Airline
from mcp_django import Approval, ModelMCP
from tests.checks.conftest import Admin, of
from tests.shop.models import Tag
from tests.support.declared import Declared


def test_e024_what_is_no_set_of_operations(declared: Declared) -> None:
    writables: list[Any] = ["update", {"update", "publish"}, True, None, False, {"update"}, ["create", "delete"]]
    found = []
    for writable in writables:
        declared.model(Airline, writable=writable)
        found.append(of("E024"))
        declared.close()

    assert [len(told) for told in found] == [1, 1, 1, 0, 0, 0, 0]
    for [message] in found[:3]:
        assert message.msg.startswith("AirlineMCP.writable is ") and "create, update, delete" in message.msg


def test_e025_an_unknown_consent_and_e026_an_unknown_kind_of_preview(declared: Declared) -> None:
    for good in ("preview", "ask", "approve", Approval(), Approval(by="group:a", count=2), Approval(by=print)):
        declared.model(Airline, consent={"update": good})
        assert of("E025") == []
        declared.close()
    declared.model(Airline, consent="approve")
    [message] = of("E025")
    assert message.hint == 'Write it as consent = {"update": "approve"}.'
    declared.close()
    wrong = (
        "aks",
        None,
        Approval(count=0),
        Approval(by="captain"),
        Approval(by="group: "),
        Approval(when="total > 5"),
        Approval(count="2"),
    )  # type: ignore[arg-type]
    for consent in wrong:
        declared.model(Airline, consent={"update": consent})
        [message] = of("E025")
        assert message.hint is not None and "'preview', 'ask', 'approve' or an Approval" in message.hint
        declared.close()
    declared.model(Airline, preview="dry")
    [message] = of("E026")
    assert message.hint == "Write 'form' or 'rollback'."


def test_w024_writable_without_a_model_admin(declared: Declared) -> None:
    class TagMCP(ModelMCP):
        fields = "__all__"
        writable = {"update"}

    declared.admin(Tag, None)
    declared.model(Tag, TagMCP)

    [message] = of("W024")

    assert message.msg == "TagMCP says that shop.tag may be written, but it has no ModelAdmin to write through."


def test_w030_an_approval_by_people_with_a_permission_that_no_model_declares(declared: Declared) -> None:
    for by in ("flights.change_flight", "mcp_django.approve_change", "group:captains", ""):
        declared.model(Airline, consent={"update": Approval(by=by)})
        assert of("W030") == []
        declared.close()
    declared.model(Airline, consent={"update": Approval(by="flights.chnge_flight")})

    [message] = of("W030")

    assert message.msg.startswith("People with the permission 'flights.chnge_flight' must approve flights.airline")


def test_w025_a_view_that_shows_no_form_of_django(declared: Declared) -> None:
    class AirlineAdmin(Admin):
        def change_view(self, request: Any, object_id: str, *args: Any, **kwargs: Any) -> Any:
            return HttpResponse("A page of our own.")

        def add_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            return super().add_view(request, *args, **kwargs)

    declared.admin(Airline, AirlineAdmin)
    [message] = of("W025")
    declared.model(Airline, writable=False)

    assert "AirlineAdmin.change_view does not call the view of ModelAdmin" in message.msg
    assert of("W025") == []


def test_views_of_django_and_wrapped_ones_are_no_matter(declared: Declared) -> None:
    def wrapped(view: Any) -> Any:
        def inner(self: Any, *args: Any, **kwargs: Any) -> Any:
            return view(self, *args, **kwargs)

        return inner

    class AirlineAdmin(Admin):
        changeform_view = wrapped(admin.ModelAdmin.changeform_view)

    declared.admin(Airline, AirlineAdmin)

    assert of("W025") == []
