"""Actions on the page of a row, driven by an agent: each is named after what it does, or after the attack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse

from mcp_django import ObjectAction
from mcp_django.models import Tool
from tests.bridge.browser.conftest import OnRow, page
from tests.bridge.browser.packages import (
    FORM,
    OWN,
    OfExtraButtons,
    OfInlineActions,
    OfObjectActions,
    Posting,
    Selling,
    WithButton,
    own_path,
    restock,
    sells,
    with_view,
)  # fmt: skip
from tests.shop.models import Product
from tests.support.asking import listed
from tests.support.data import switch_on
from tests.support.peers import MODERN

pytestmark = pytest.mark.django_db

CANARY = "sk-canary"
Drive = Callable[..., OnRow]


def first() -> Product:
    return Product.objects.earliest("pk")


def stock() -> int:
    return first().stock


def unfold_admin() -> Any:
    from unfold.admin import ModelAdmin as UnfoldAdmin
    from unfold.decorators import action

    class Unfolding(UnfoldAdmin):  # type: ignore[misc]
        actions_detail = ["sell"]
        actions_row = ["sell_row"]

        @action(description="Sell it", permissions=["change"])
        def sell(self, request: HttpRequest, object_id: Any) -> HttpResponse:
            sells(self, request, Product.objects.get(pk=object_id))
            return HttpResponseRedirect(reverse("admin:shop_product_changelist"))

        sell_row = action(description="Sell the row")(
            lambda self, request, object_id: Unfolding.sell(self, request, object_id=object_id)
        )
        sell_row.__name__ = "sell_row"

    return Unfolding


@pytest.mark.every_database
@pytest.mark.parametrize(
    ("admin_class", "action", "title", "options"),
    [
        (lambda: Selling, "sell", "Sell", {}),
        (lambda: Posting, "sell", "Sell", {}),
        (unfold_admin, "sell", "Sell it", {}),
        (unfold_admin, "sell_row", "Sell the row", {}),
        (lambda: OfExtraButtons, "press", "Press it", {}),
        (lambda: OfInlineActions, "sell", "Sell", {}),
        (lambda: WithButton, "approve", "Approve", {"buttons": ("_approve",)}),
    ],
)
def test_what_people_do_on_the_page_of_a_row_is_a_tool(
    on_row: Drive, admin_class: Any, action: str, title: str, options: Any
) -> None:
    """Each is off at first, acts once on its row alone, and stands in the history as the agent's."""
    agent = on_row(admin_class(), action, **options)
    Tool.objects.filter(name=agent.tool).update(enabled=False)
    assert agent.tool not in agent.tools()
    switch_on(agent.tool)

    tool = listed(agent, agent.tool)
    result = agent.ask()

    assert (tool["title"], tool["inputSchema"]["required"]) == (title, ["id"])
    assert not result["isError"], result
    assert list(Product.objects.order_by("pk").values_list("stock", flat=True)) == [70, 1]
    assert f"{title}: by an agent without a name" in [one.change_message for one in LogEntry.objects.all()]


# What an agent may not.


@pytest.mark.parametrize("lacks", ["permission", "scope", "switch"])
def test_who_may_not_run_it_knows_no_such_tool(on_row: Drive, lacks: str) -> None:
    viewer = User.objects.create_user("viewer", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_product", content_type__app_label="shop"))
    agent = on_row(
        Selling, "sell", *(["read"] if lacks == "scope" else []), user=viewer if lacks == "permission" else None
    )
    Tool.objects.filter(name=agent.tool).update(enabled=lacks != "switch")

    assert agent.tool not in agent.tools()
    error = agent.error(MODERN, "tools/call", {"name": agent.tool, "arguments": {"id": "1"}})
    assert "sell" not in error["message"] or "Unknown tool" in error["message"]
    assert stock() == 0


def test_guessing_the_key_of_a_hidden_row(on_row: Drive, products: list[Product]) -> None:
    """It is answered as one that does not exist, and its page is not asked for."""

    class Hiding(Selling):
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).exclude(name="kite")

    agent = on_row(Hiding, "sell")

    hidden, absent = (agent.errors(id=str(key)) for key in (products[1].pk, 999_999))

    assert list(hidden) == list(absent) == ["id"]
    assert hidden["id"].replace(str(products[1].pk), "N") == absent["id"].replace("999999", "N")
    assert sorted(Product.objects.values_list("stock", flat=True)) == [0, 1]


@pytest.mark.parametrize("how", ["hook", "failing hook", "permission", "button", "condition"])
def test_an_action_that_the_admin_does_not_offer_for_the_row(on_row: Drive, how: str) -> None:
    class NotThis(Selling):
        def get_change_actions(self, request: HttpRequest, object_id: str, form_url: str) -> Any:
            if how == "failing hook":
                raise RuntimeError(CANARY)
            return [] if how == "hook" else self.change_actions

        def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return how != "permission" or obj is None or obj.name != "ball"

    class NotPressed(WithButton):
        button = ""

    made: Any = {
        "button": lambda: on_row(NotPressed, "approve", buttons=("_approve",)),
        "condition": lambda: on_row(OfExtraButtons, "press"),
    }.get(how, lambda: on_row(NotThis, "sell"))
    agent = made()
    if how == "condition":
        Product.objects.update(name="kite")

    said = agent.refused()

    assert "does not offer this action" in said and CANARY not in said
    assert stock() == 0


def nothing_runs(*args: Any, **kwargs: Any) -> Any:
    raise AssertionError("no action may lead here")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "where",
    [
        "{form}nonsense/", "/admin/shop/product/nonsense/", "/admin/nothing/", "{form}", "{form}delete/",
        "{form}history/", "/admin/shop/product/", "/admin/shop/product/add/", "/admin/auth/user/1/password/",
        "/admin/auth/user/1/change/", "/admin/logout/", "/admin/password_change/", "/admin/", "/pay/",
        "/admin/mcp_django/tool/", "https://elsewhere.example.com{own}", "//elsewhere.example.com{own}",
        "javascript:alert(1)", "",
    ],
)  # fmt: skip
def test_an_action_begins_at_no_page_but_one_of_a_package(on_row: Drive, where: str, method: Any) -> None:
    """The admin answers a wrong path with a redirect, which would look done; and its own pages are other tools'."""

    def lead(obj: Product) -> str:
        return where.format(form=reverse("admin:shop_product_change", args=[obj.pk]), own=own_path(obj))

    agent = on_row(with_view(nothing_runs), "lead", object_actions=[ObjectAction("lead", path=lead, method=method)])

    said = agent.refused()

    assert "at no page of its own in the admin" in said
    assert stock() == 0 and User.objects.count() == 1


@pytest.mark.parametrize("path_of", [own_path, lambda obj: "/admin/auth/user/add/"])
def test_a_button_is_pressed_on_the_form_of_its_row_and_on_no_other_page_of_the_admin(
    on_row: Drive, path_of: Any
) -> None:
    def own(self: Any, request: HttpRequest, obj: Product) -> HttpResponse:
        return page(request, '<form method="post" action="/admin/auth/user/add/"><button name="_go">x</button></form>')

    agent = on_row(with_view(own), "go", object_actions=[ObjectAction("go", path=path_of, button="_go")])

    said = agent.refused()

    assert "outside of the admin" in said or "at no page of its own" in said
    assert User.objects.count() == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: HttpResponseNotAllowed(["POST"]), "405 Method Not Allowed"),
        (lambda: HttpResponse(status=403), "403 Forbidden"),
        (lambda: HttpResponseRedirect("/pay/"), "where a person must finish it"),
        (lambda: HttpResponseRedirect("/admin/shop/product/1/nonsense/"), "where a person must finish it"),
        (lambda: HttpResponse("<p>Done by script</p>"), "has no form"),
    ],
)
def test_what_a_page_refuses_or_where_it_goes_on_elsewhere_takes_all_back(
    on_row: Drive, answer: Any, words: str
) -> None:
    def act(self: Any, request: HttpRequest, obj: Product) -> HttpResponse:
        Product.objects.update(stock=99)
        found: HttpResponse = answer()
        return found

    agent = on_row(with_view(act), "own", object_actions=[ObjectAction("own", path=own_path)])

    assert words in agent.refused()
    assert stock() == 0


@pytest.mark.parametrize("where", ["/admin/shop/product/", "{form}", "{form}delete/", "/pay/"])
def test_a_page_of_a_row_goes_on_at_no_page_of_the_admin_itself(on_row: Drive, where: str) -> None:
    def act(self: Any, request: HttpRequest, obj: Product) -> HttpResponse:
        action = where.format(form=reverse("admin:shop_product_change", args=[obj.pk]))
        return page(request, f'<form method="post" action="{action}"><input name="post" value="yes"><button>x</button>')

    agent = on_row(with_view(act), "own", object_actions=[OWN])

    assert "outside of the admin" in agent.refused({}, confirm=agent.shown()["confirm"])
    assert Product.objects.count() == 2


# Pages.


def test_a_page_of_a_row_is_described_and_answered(on_row: Drive) -> None:
    agent = on_row(with_view(restock), "own", object_actions=[OWN])

    shown = agent.shown()
    wrong = agent.wrong({"values": {"stock": 0}})
    agent.driven({"values": {"stock": 5}})

    assert shown["fields"] == {"stock": {"type": "integer", "required": True}}
    assert wrong == {"pages.0.values.stock": "Ensure this value is greater than or equal to 1."}
    assert stock() == 5


def test_a_page_of_a_row_needs_the_scope_to_write_its_columns(on_row: Drive) -> None:
    agent = on_row(with_view(restock), "own", "read", "actions", object_actions=[OWN])

    assert "a token may do with the scope write" in agent.refused()
    assert stock() == 0


class Edited(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Product
        fields = ("name", "stock")


@pytest.mark.parametrize("column", ["api_key", "name", "stock"])
def test_going_back_to_a_row_as_it_was_writes_no_column_that_the_agent_may_not_write(
    on_row: Drive, column: str
) -> None:
    """A page of django-simple-history holds the row as it was, also in columns that are not on it."""

    def revert(self: Any, request: HttpRequest, obj: Product) -> Any:
        setattr(obj, column, 55 if column == "stock" else "as it was")
        asked = Edited(request.POST or None, instance=obj)
        if asked.is_bound and asked.is_valid():
            asked.save()
            return HttpResponseRedirect(reverse("admin:shop_product_changelist"))
        return page(request, FORM, form=asked)

    agent = on_row(with_view(revert), "own", object_actions=[OWN], write_fields=("stock",))

    if column == "stock":
        agent.driven({})
        assert stock() == 55
    else:
        assert "its page changes what agents may not write" in agent.refused()
        assert not Product.objects.filter(**{column: "as it was"}).exists()


# Buttons.


def test_the_form_of_a_row_is_sent_as_it_stands(on_row: Drive) -> None:
    """Nothing but what the button does changes: not a column that the agent does not see, and no space."""
    Product.objects.update(name="ball  game")
    before = Product.objects.values("name", "api_key", "active", "price").earliest("pk")
    agent = on_row(WithButton, "approve", buttons=("_approve",))

    result = agent.ask()

    text = result["content"][0]["text"]
    assert f"shop.product {first().pk} is approved." in text or "ball" in text
    assert CANARY not in text
    assert Product.objects.values("name", "api_key", "active", "price").earliest("pk") == before
    assert stock() == 70


@pytest.mark.parametrize("made_by", ["TemplateResponse", "render"])
def test_the_form_of_the_admin_is_no_page_of_an_action(on_row: Drive, made_by: str) -> None:
    """Else an agent filled it in without the consent that a change of the record needs."""

    class Strict(forms.ModelForm):  # type: ignore[type-arg]
        def clean_stock(self) -> Any:
            raise forms.ValidationError("Not now.")

        def clean_api_key(self) -> Any:
            raise forms.ValidationError(self.cleaned_data["api_key"])

    class Refusing(WithButton):
        form = Strict

        def change_view(self, *args: Any, **kwargs: Any) -> Any:
            response = super().change_view(*args, **kwargs)
            return HttpResponse(response.render().content) if made_by == "render" else response

    agent = on_row(Refusing, "approve", buttons=("_approve",))

    result = agent.ask()
    answer = json.loads(result["content"][0]["text"])

    assert result["isError"] and "refuses to be sent as it stands" in answer["error"]
    assert {"field": "form.values.stock", "message": "Not now."} in [
        {name: one[name] for name in ("field", "message")} for one in answer["errors"]
    ]
    assert CANARY not in json.dumps(answer)


def test_a_button_may_ask_with_a_page_at_the_same_address(on_row: Drive) -> None:
    class Asking(WithButton):
        def changeform_view(self, request: Any, *args: Any, **kwargs: Any) -> Any:
            if "_approve" in request.POST and "note" not in request.POST:
                markup = '<form method="post"><input name="note"><button name="_approve" value="1">Yes</button></form>'
                return page(request, markup)
            if "note" in request.POST:
                Product.objects.update(name=request.POST["note"])
                return HttpResponseRedirect(request.path)
            return super().changeform_view(request, *args, **kwargs)

    agent = on_row(Asking, "approve", buttons=("_approve",))

    assert agent.shown()["fields"] == {"note": {}}
    agent.driven({"values": {"note": "agreed"}})

    assert first().name == "agreed"


def test_the_list_of_the_admin_is_no_page_of_an_action(on_row: Drive) -> None:
    class Deaf(OfInlineActions):
        list_display = ("name", "stock")
        list_editable = ("stock",)

        def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
            request.method = "GET"
            return super(OfInlineActions, self).changelist_view(request, extra_context)

    agent = on_row(Deaf, "sell")

    assert "does not offer this action" in agent.refused()


# Declarations.


@pytest.mark.parametrize(
    "options",
    [{}, {"button": "_x", "method": "PUT"}, {"button": "_x", "consent": "sometimes"},
     {"button": "_x", "consent": "ask", "read_only": True}],
)  # fmt: skip
def test_an_object_action_that_cannot_be_is_refused_where_it_is_declared(options: Any) -> None:
    with pytest.raises(ImproperlyConfigured):
        ObjectAction("x", **options)


def test_a_package_that_names_what_is_not_there_takes_nothing_else_away(on_row: Drive) -> None:
    class Broken(WithButton, OfObjectActions):
        change_actions = ("missing",)

    agent = on_row(Broken, "approve", buttons=("_approve",))

    assert not agent.ask()["isError"] and stock() == 70
