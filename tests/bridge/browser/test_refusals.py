"""Pages that are told and not driven, each with its true reason, and what is rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse

from tests.bridge.browser.conftest import SEND, Agent, form, page
from tests.bridge.browser.test_pages import with_views
from tests.shop.models import Product, Tag

pytestmark = pytest.mark.django_db

Drive = Callable[..., Agent]
LIST = "http://localhost/admin/shop/product/"
BY_PERSON = f"A person must finish this action. Nothing was changed. Open {LIST} and run it there."

#: What a page has → what is told at once.
AT_ONCE = {
    "<p>Two rows are locked.</p>": f"The page of this action has no form. Two rows are locked. {BY_PERSON}",
    '<form method="get"><input name="q"></form>': f"The page of this action has no form. {BY_PERSON}",
    '<div id="app"></div><script src="/static/app.js"></script>':
        f"The page of this action has no form, unless JavaScript makes it, which does not run here. {BY_PERSON}",
    f"{form('')}{form('')}": f"The page of this action has several forms. {BY_PERSON}",
    f"<p>{'x' * 1_000_001}</p>": f"The page of this action is larger than 1,000,000 bytes. {BY_PERSON}",
    form('<input name="a">' * 1_001): f"The page of this action has more than 1,000 controls. {BY_PERSON}",
    form('<input name="code" type="password" required>'):
        "A person must finish this action: its page asks for something that agents may not fill in. Nothing was "
        "changed.",
}  # fmt: skip
#: What a page has → what is told once it is sent.
ONCE_SENT = {
    form("", action="https://example.com/pay/"):
        f"The page of this action goes on at https://example.com/pay/, outside of the admin. {BY_PERSON}",
    form("", action="/mcp"): f"The page of this action goes on at /mcp, outside of the admin. {BY_PERSON}",
    form("", action="1/change/"): f"The page of this action goes on at 1/change/, outside of the admin. {BY_PERSON}",
    form("", action="add/"): f"The page of this action goes on at add/, outside of the admin. {BY_PERSON}",
    form("", action="nowhere/"): f"The page of this action goes on at nowhere/, outside of the admin. {BY_PERSON}",
    form("", action="/admin/mcp_django/change/"):
        f"The page of this action goes on at /admin/mcp_django/change/, outside of the admin. {BY_PERSON}",
    form("", action="/admin/logout/"):
        f"The page of this action goes on at /admin/logout/, outside of the admin. {BY_PERSON}",
    f'<form method="post"><input name="action" value="act" type="hidden">{SEND}</form>':
        "The page of this action does not send its rows back, so that it fails in a browser too. Nothing was changed.",
    form("", send='<button name="_save">Go</button>'):
        "The page of this action does not send its rows back, so that it fails in a browser too. Nothing was changed.",
}  # fmt: skip


def test_what_cannot_be_driven_is_told_with_its_reason(drive: Drive) -> None:
    markup = ""

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        Tag.objects.create(name="written")
        return page(request, markup, queryset)

    agent, told = drive(act), {}
    for markup in AT_ONCE:
        told[markup] = agent.refused()
    for markup in ONCE_SENT:
        told[markup] = agent.refused({}, confirm=agent.shown()["confirm"])

    assert told == {**AT_ONCE, **ONCE_SENT}
    assert not Tag.objects.exists()


def test_answers_that_are_no_page_end_with_their_reason(drive: Drive) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        if "sent" not in request.POST:
            return page(request, form('<input type="hidden" name="sent">'), queryset)
        queryset.update(stock=77)
        return ends[wanted]

    ends: dict[str, Any] = {
        f"The page of this action answers a script, with JSON. {BY_PERSON}": JsonResponse({"ok": True}),
        "The action continues at https://example.com/, where a person must finish it.":
            HttpResponseRedirect("https://example.com/"),
        "The action continues at /admin/, where a person must finish it.": HttpResponseRedirect("/admin/"),
        "The action answered 409 Conflict: taken": HttpResponse("taken", status=409),
    }  # fmt: skip
    agent = drive(act)

    for wanted in ends:
        assert agent.refused({}, confirm=agent.shown()["confirm"]).startswith(wanted)
    assert not Product.objects.filter(stock=77).exists()


def test_a_form_that_leads_out_of_the_admin_within_the_project_is_not_sent(
    drive: Drive, reloaded: Callable[[], None]
) -> None:
    agent = drive(lambda self, request, queryset: page(request, form("", action="/pay/"), queryset))
    reloaded()

    assert "goes on at /pay/, outside of the admin." in agent.refused({}, confirm=agent.shown()["confirm"])


def test_redirects_without_an_end_are_left_after_three(drive: Drive, reloaded: Callable[[], None]) -> None:
    asked = []

    def on(self: Any, request: HttpRequest) -> HttpResponse:
        asked.append(request.method)
        return HttpResponseRedirect("../on/")

    agent = drive(lambda self, request, queryset: HttpResponseRedirect("on/"), **with_views(on=on))
    reloaded()

    assert agent.refused().startswith("The action continues at /admin/shop/product/on/, where a person must finish it.")
    assert asked == ["GET"] * 3


def test_a_durable_transaction_of_a_page_says_that_it_is_one(drive: Drive) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        if "sent" in request.POST:
            with transaction.atomic(durable=True):
                queryset.update(stock=77)
        return page(request, form('<input type="hidden" name="sent">'), queryset)

    agent = drive(act)

    assert agent.refused({}, confirm=agent.shown()["confirm"]).startswith("This action opens a durable transaction")


def test_what_a_template_reads_and_writes_belongs_to_the_transaction(drive: Drive) -> None:
    def written() -> str:
        Tag.objects.create(name="by the template")
        return "ok"

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        from django.template import engines
        from django.template.response import TemplateResponse

        template = engines["django"].from_string(f"<p>{{{{ written }}}}</p>{form('')}")
        return TemplateResponse(request, template, {"written": written, "rows": queryset})  # type: ignore[arg-type]

    assert drive(act).shown()["text"] == "ok"
    assert not Tag.objects.exists()


def test_an_action_that_is_refused_on_a_page_changes_nothing(drive: Drive) -> None:
    from django.core.exceptions import PermissionDenied

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        if "sent" in request.POST:
            queryset.update(stock=77)
            raise PermissionDenied
        return page(request, form('<input type="hidden" name="sent">'), queryset)

    agent = drive(act)

    assert agent.refused({}, confirm=agent.shown()["confirm"]) == "You may not do this. Nothing was changed."
    assert not Product.objects.filter(stock=77).exists()
