"""What an agent neither reads nor writes through the page of an action. Each test is named after the attack."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.safestring import mark_safe

import mcp_django
from mcp_django.models import Tool
from tests.bridge.browser.conftest import Agent, form, page
from tests.shop.models import Product, Tag
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.django_db

Drive = Callable[..., Agent]
CANARY = "sk-canary"


class Edit(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Product
        fields = ("name", "stock", "api_key", "tags")


def edit(self: Any, request: HttpRequest, queryset: Any) -> Any:
    """A mass update: it changes all rows as the form says."""
    asked = Edit(request.POST if "sent" in request.POST else None, instance=queryset[0])
    if asked.is_bound and asked.is_valid():
        asked.save()
        return None
    return page(request, form('{{ form }}<input type="hidden" name="sent">'), queryset, form=asked)


def test_reading_a_hidden_column_in_a_form(drive: Drive, products: list[Product]) -> None:
    """Its value stands in the form as the page has it; it is neither described nor settable, and stays."""
    agent = drive(edit)

    shown = agent.shown()
    wrong = agent.wrong({"values": {"api_key": "mine"}})
    agent.driven({"values": {"stock": 5}})

    assert list(shown["fields"]) == ["name", "stock", "tags"]
    assert CANARY not in json.dumps([shown, wrong]) and "api_key" not in json.dumps(shown)
    assert wrong == {"pages.0.values.api_key": "no field 'api_key'. Allowed: name, stock, tags."}
    products[0].refresh_from_db()
    assert (products[0].stock, products[0].api_key) == (5, f"{CANARY}-ball")


def test_an_error_of_a_hidden_field_does_not_say_what_is_in_it(drive: Drive) -> None:
    class Strict(Edit):
        def clean_api_key(self) -> Any:
            raise forms.ValidationError(f"{self.cleaned_data['api_key']} is old")

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        asked = Strict(request.POST if "sent" in request.POST else None, instance=queryset[0])
        asked.is_valid()
        return page(request, form('{{ form }}<input type="hidden" name="sent">'), queryset, form=asked)

    assert drive(act).wrong({}) == {
        "pages.0.values": "the form refuses it because of a field that only a person can fill in."
    }


def test_writing_columns_by_an_action_without_the_scope_to_write(drive: Drive, products: list[Product]) -> None:
    agent = drive(edit, "read", "actions")

    assert "which a token may do with the scope write." in agent.refused()


def test_writing_columns_that_agents_may_not_write(drive: Drive) -> None:
    assert "which agents may not do (writable of a ModelMCP)" in drive(edit, mcp={"writable": ()}).refused()


def test_writing_a_column_that_write_fields_leaves_out(drive: Drive, products: list[Product]) -> None:
    agent = drive(edit, mcp={"write_fields": ("name",)})

    assert list(agent.shown()["fields"]) == ["name"]
    assert list(agent.wrong({"values": {"stock": 9}})) == ["pages.0.values.stock"]


def test_emptying_a_column_by_the_checkbox_beside_it(drive: Drive) -> None:
    """As pages for many rows have it: a checkbox says whether the field beside it is written."""

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        names = ("name", "stock", "api_key")
        markup = "".join(f'<input type="checkbox" name="set_{name}"><input name="{name}">' for name in names)
        return page(request, form(f'{markup}<select name="how_api_key"><option>set</select>'), queryset)

    assert list(drive(act, mcp={"write_fields": ("stock",)}).shown()["fields"]) == ["set_stock", "stock"]


def test_choosing_a_row_that_the_agent_cannot_see(drive: Drive, declared: Declared) -> None:
    class TagAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).exclude(name="secret plan")

    class Choose(forms.Form):
        label = forms.ModelChoiceField(Tag.objects.order_by("-name"))
        many = forms.ModelMultipleChoiceField(Tag.objects.order_by("-name"), required=False)

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        asked = Choose(request.POST if "label" in request.POST else None)
        if asked.is_bound and asked.is_valid():
            self.message_user(request, f"{asked.cleaned_data['label'].pk} {len(asked.cleaned_data['many'])}")
            return None
        return page(request, form("{{ form }}"), queryset, form=asked)

    declared.admin(Tag, TagAdmin)
    Tag.objects.bulk_create(Tag(name=name) for name in ("red", "secret plan", "blue"))
    agent = drive(act)

    shown = agent.shown()
    assert (shown["fields"]["label"]["choices"], shown["fields"]["many"]["choices"]) == (
        ["red", "blue"],
        ["red", "blue"],
    )
    assert "secret plan" not in json.dumps(shown)
    assert agent.driven({"values": {"label": "red", "many": ["red", "blue"]}}) == "red 2"
    for hidden in ("secret plan", "nothing"):
        wrong = agent.wrong({"values": {"label": hidden, "many": [hidden]}})
        assert set(wrong.values()) == {f"no shop.tag with pk {hidden}.", f"no shop.tag with the primary key {hidden}."}


def test_choosing_rows_of_a_model_that_the_agent_cannot_see(drive: Drive, declared: Declared) -> None:
    class Choose(forms.Form):
        owner = forms.ModelChoiceField(User.objects.all(), required=False)

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        return page(request, form("{{ form }}"), queryset, form=Choose())

    declared.unregister(User)
    declared.admin(User, None)
    assert "fields" not in drive(act).shown()


def columns(self: Any, request: HttpRequest, queryset: Any) -> Any:
    """As exports ask which columns: a list, a select, and a checkbox for each."""
    if "sent" in request.POST:
        told = {name: request.POST.getlist(name) for name in ("many", "one", "row_name", "row_api_key")}
        self.message_user(request, json.dumps(told))
        return None
    options = '<option value="name" selected>Name<option value="api_key" selected>Key'
    markup = (
        f'<select name="many" multiple>{options}</select><select name="one">{options}</select>'
        '<input type="checkbox" name="row_name" checked><input type="checkbox" name="row_api_key" checked>'
    )
    return page(request, form(f'{markup}<input type="hidden" name="sent">'), queryset)


def test_naming_a_hidden_column_as_a_choice(drive: Drive) -> None:
    agent = drive(columns)

    assert agent.shown()["fields"] == {
        "many": {"type": "list", "choices": {"name": "Name"}, "value": ["name"]},
        "one": {"choices": {"name": "Name"}},
        "row_name": {"type": "boolean", "value": True},
    }
    assert list(agent.wrong({"values": {"many": ["api_key"], "one": "Key", "row_api_key": True}})) == [
        "pages.0.values.many", "pages.0.values.one", "pages.0.values.row_api_key",
    ]  # fmt: skip
    # What the page has chosen before is not chosen any more where that can be left out.
    assert json.loads(agent.driven({})) == {"many": ["name"], "one": ["api_key"], "row_name": ["on"], "row_api_key": []}


def test_reading_the_text_of_a_row_that_the_action_has_changed_since_it_asked(drive: Drive) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        asked = request.POST.get("asked", "")
        said = ", ".join(map(str, Product.objects.order_by("pk")))
        if asked == "again":
            queryset.filter(name="kite again").update(name="fresh secret")
            self.message_user(request, ", ".join(map(str, Product.objects.order_by("pk"))))
            return None
        if asked:
            queryset.filter(name="kite").update(name="kite again", api_key="sk-canary-later")
            said = f"{Product.objects.get(name='kite again')} {Product.objects.get(name='kite again').api_key}"
        after = "again" if asked else "once"
        return page(
            request, f'<p>{said}</p>{form(f"""<input type="hidden" name="asked" value="{after}">""")}', queryset
        )

    agent = drive(act, mcp={"exclude": ("name",)})
    first, second = (f"shop.product {row.pk}" for row in Product.objects.order_by("pk"))

    shown = agent.shown()
    later = agent.shown({}, confirm=shown["confirm"])
    said = agent.ask({}, {}, confirm=later["confirm"])["content"][0]["text"]

    assert (shown["text"], later["text"], said) == (f"{first}, {second}", f"{second} …", f"{first}, {second}")


def test_reading_a_hidden_column_in_the_reason_why_a_page_is_not_driven(drive: Drive) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        return page(request, "<p>The key {{ rows.0.api_key }} is locked.</p>", queryset)

    assert "The key … is locked." in drive(act).refused()


#: A control that write_fields does not name, beside one that it names.
SUPER = mark_safe('<input type="checkbox" name="is_superuser" checked>')


def test_giving_rights_through_a_page(drive: Drive, declared: Declared) -> None:
    class Promote(forms.ModelForm):  # type: ignore[type-arg]
        class Meta:
            model = User
            fields = ("first_name", "is_staff")

    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        return page(request, form("{{ form }}"), queryset, form=Promote())

    def hidden(self: Any, request: HttpRequest, queryset: Any) -> Any:
        return page(request, form('<input type="hidden" name="is_superuser" value="1">'), queryset)

    @mcp_django.action(consent="approve", shows_page=True)
    def approved(self: Any, request: HttpRequest, queryset: Any) -> Any:
        return page(request, form("{{ form }}{{ more }}"), queryset, form=Promote(), more=SUPER)

    declared.admin(User, type("Acting", (admin.ModelAdmin,), {"actions": [act, hidden, approved]}))
    declared.model(User, writable=("update",), write_fields=("first_name", "is_staff"))
    switch_on("auth_user_act", "auth_user_hidden", "auth_user_approved")
    root = User.objects.create_superuser("root")

    for agent in (Agent(root, "read", "actions", "write"),):
        for agent.tool in ("auth_user_act", "auth_user_hidden", "auth_user_approved"):
            assert agent.refused(ids=[str(root.pk)]) == (
                "A person must finish this action: its page says what users may do. Nothing was changed."
            )


def test_naming_what_people_do_not_see(drive: Drive, products: list[Product]) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        markup = '<input type="hidden" name="level" value="1"><input name="word"><input type="password" name="pin">'
        return page(request, form(markup), queryset)

    agent = drive(act)

    assert list(agent.shown()["fields"]) == ["word"]
    for name in ("level", "action", "_selected_action", "select_across", "csrfmiddlewaretoken", "index", "pin"):
        assert agent.wrong({"values": {name: "2"}}) == {f"pages.0.values.{name}": f"no field '{name}'. Allowed: word."}


def other_rows(self: Any, request: HttpRequest, queryset: Any) -> Any:
    return page(request, form("", send='<button name="x">Go</button>'), Product.objects.all())


def other_action(self: Any, request: HttpRequest, queryset: Any) -> Any:
    return page(request, form("").replace("{{ request.POST.action }}", "delete_selected"), queryset)


@pytest.mark.parametrize("act", [other_rows, other_action])
def test_acting_on_other_rows_or_by_another_action_than_was_called(
    drive: Drive, products: list[Product], act: Any
) -> None:
    agent, ids = drive(act), [str(products[0].pk)]

    confirm = agent.shown(ids=ids)["confirm"]

    assert "does not send its rows back" in agent.refused({}, ids=ids, confirm=confirm)


def test_confirming_another_page_than_was_shown(drive: Drive, products: list[Product]) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        if "sure" in request.POST:
            queryset.update(stock=100)
            return None
        text = f"<p>{queryset[0].stock} will go.</p>"
        return page(request, form(f'{text}<input type="hidden" name="sure"><input name="why">'), queryset)

    agent = drive(act)
    confirm = agent.shown()["confirm"]

    def told(*pages: Any, **arguments: Any) -> str:
        return next(iter(agent.errors(*pages, **arguments).values()))

    assert "is needed" in told({})
    assert "no token for this call" in told({}, {}, confirm=confirm)
    assert "no token for this call" in told({}, confirm=confirm, ids=[str(products[0].pk)])
    Product.objects.update(stock=50)
    assert "The rows or the page have changed since." in told({}, confirm=confirm)
    assert set(Product.objects.values_list("stock", flat=True)) == {50}
    confirm = agent.shown()["confirm"]
    agent.ask({"values": {"why": "a"}}, confirm=confirm)
    Product.objects.update(stock=7)
    again = agent.ask({"values": {"why": "a"}}, confirm=confirm)["structuredContent"]
    assert again["replayed"] and again["status"] == "applied"
    assert set(Product.objects.values_list("stock", flat=True)) == {7}


def test_a_page_of_an_action_that_is_switched_off(drive: Drive) -> None:
    agent = drive(edit)
    confirm = agent.shown()["confirm"]
    Tool.objects.update(enabled=False)

    arguments = {"ids": ["1"], "pages": [{}], "confirm": confirm}
    error = agent.error(MODERN, "tools/call", {"name": agent.tool, "arguments": arguments})

    assert error["message"].startswith("Unknown tool")
