"""Actions that ask with a page before they act, driven by an agent."""

from __future__ import annotations

import json
from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django import forms
from django.contrib import messages
from django.contrib.admin.helpers import ActionForm
from django.contrib.auth.models import User
from django.core import mail
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.test import override_settings
from django.urls import path

import mcp_django
from mcp_django.models import Change
from mcp_django.protocol.jsonrpc import encode
from tests.bridge.browser.conftest import SEND, Agent, form, page
from tests.bridge.uploads.conftest import uploaded
from tests.shop.models import Product, Tag
from tests.support.asking import listed
from tests.support.pages import blocks

pytestmark = pytest.mark.django_db

Drive = Callable[..., Agent]

TWO_BUTTONS = '<button name="apply" value="1">Apply</button><button name="cancel" value="1">Cancel</button>'


class Reprice(forms.Form):
    amount = forms.IntegerField(min_value=1, help_text="In <b>cents</b>.")
    mode = forms.ChoiceField(choices=[("0", "set"), ("1", "add")])
    quietly = forms.BooleanField(required=False)
    from_day = forms.DateField(label="Beginning", required=False)
    remark = forms.CharField(required=False, widget=forms.Textarea)


def reprice(self: Any, request: HttpRequest, queryset: Any) -> Any:
    asked = Reprice(request.POST if "apply" in request.POST else None)
    if "cancel" in request.POST:
        self.message_user(request, "Nothing was priced.")
        return None
    if asked.is_bound and asked.is_valid():
        queryset.update(stock=asked.cleaned_data["amount"])
        self.message_user(request, f"{queryset.count()} were priced ({asked.cleaned_data}).")
        return None
    return page(request, form("{{ form.as_p }}", send=TWO_BUTTONS), queryset, form=asked)


def stocks() -> list[int]:
    return list(Product.objects.order_by("pk").values_list("stock", flat=True))


def test_a_page_is_described_and_then_sent_with_the_values_that_an_agent_gives(drive: Drive) -> None:
    agent = drive(reprice)

    shown = agent.shown()
    said = agent.ask(
        {"values": {"amount": 7, "mode": "add", "quietly": True, "from_day": "2026-01-31"}, "button": "apply"},
        confirm=shown["confirm"],
    )["content"][0]["text"]

    assert shown["fields"] == {
        "amount": {"type": "integer", "required": True, "help": "In cents."},
        "mode": {"choices": {"0": "set", "1": "add"}, "required": True, "value": "0"},
        "quietly": {"type": "boolean"},
        "from_day": {"type": "date", "title": "Beginning"},
        "remark": {},
    }
    assert (shown["page"], shown["title"]) == (1, "Asking")
    assert shown["buttons"] == {"apply": "Apply", "cancel": "Cancel"}
    assert len(encode(shown)) <= 400
    assert said == (
        "2 were priced ({'amount': 7, 'mode': '1', 'quietly': True, 'from_day': datetime.date(2026, 1, 31), "
        "'remark': ''})."
    )
    assert stocks() == [7, 7]


def test_several_buttons_must_be_named_and_wrong_values_come_back_by_field(drive: Drive) -> None:
    agent = drive(reprice)
    shown = agent.shown()

    assert {
        name: agent.wrong(answer)
        for name, answer in {
            "no button": {"values": {"amount": 7}},
            "unknown button": {"button": "delete"},
            "refused by the form": {"values": {"amount": 0}, "button": "Apply"},
            "no such choice": {"values": {"amount": 7, "mode": "halve"}, "button": "apply"},
            "no number": {"values": {"amount": "x", "quietly": "yes"}, "button": "apply"},
            "unknown field": {"values": {"cost": 1}, "button": "apply"},
        }.items()
    } == {
        "no button": {"pages.0.button": "must name one of apply, cancel."},
        "unknown button": {"pages.0.button": "no button 'delete'. Allowed: apply, cancel."},
        "refused by the form": {"pages.0.values.amount": "Ensure this value is greater than or equal to 1."},
        "no such choice": {"pages.0.values.mode": "is none of the choices."},
        "no number": {
            "pages.0.values.amount": "must be an integer.", "pages.0.values.quietly": "must be true or false.",
        },
        "unknown field": {
            "pages.0.values.cost": "no field 'cost'. Allowed: amount, mode, quietly, from_day, remark."
        },
    }  # fmt: skip
    assert stocks() == [0, 1]
    # What was refused leaves the token as it was.
    agent.ask({"values": {"amount": 5}, "button": "Apply"}, confirm=shown["confirm"])
    assert stocks() == [5, 5]
    assert agent.driven({"button": "Cancel"}) == "Nothing was priced."


@pytest.mark.every_database
def test_delete_selected_is_driven_where_a_model_admin_names_it(drive: Drive, products: list[Product]) -> None:
    agent = drive("delete_selected")
    first = [str(products[0].pk)]

    shown = agent.shown(ids=first)
    said = agent.ask({}, ids=first, confirm=shown["confirm"])

    assert (shown["title"], "fields" in shown) == ("Delete multiple objects", False)
    assert shown["text"].startswith("Are you sure you want to delete the selected product?")
    assert said["content"][0]["text"] == "Successfully deleted 1 product."
    assert [one.name for one in Product.objects.all()] == ["kite"]
    again = agent.ask({}, ids=[str(products[1].pk)], confirm=shown["confirm"])
    assert "no token for this call" in again["content"][0]["text"]


def wizard(self: Any, request: HttpRequest, queryset: Any) -> Any:
    """Asks for a word and then for a tag, and says and mails something each time that it is called."""
    step = request.POST.get("step", "0")
    self.message_user(request, f"Step {step}.")
    mail.send_mail("step", step, None, ["a@example.com"])
    Tag.objects.create(name=f"written at {step}")
    if step == "0":
        return page(request, form('<input name="word"><input type="hidden" name="step" value="1">'), queryset)
    if step == "1":
        kept = f'<input type="hidden" name="word" value="{request.POST["word"]}">'
        asked = form(f'{kept}<input name="tag"><input type="hidden" name="step" value="2">')
        return page(request, asked, queryset)
    self.message_user(request, f"{request.POST['word']} and {request.POST['tag']}", messages.SUCCESS)
    return None


@pytest.mark.every_database
def test_several_pages_are_sent_anew_in_each_call_and_nothing_is_kept_between(drive: Drive) -> None:
    agent = drive(wizard)
    pages = {"values": {"word": "red"}}, {"values": {"tag": "blue"}}

    first = agent.shown()
    second = agent.shown(pages[0], confirm=first["confirm"])
    before = list(Tag.objects.all())
    result = agent.ask(*pages, confirm=second["confirm"])

    assert (first["messages"], second["messages"], second["page"]) == (["Step 0."], ["Step 1."], 2)
    assert before == []
    # What was said with a page was told with it.
    assert result["content"][0]["text"].splitlines() == ["Step 2.", "red and blue"]
    assert sorted(one.name for one in Tag.objects.all()) == [f"written at {step}" for step in "012"]
    # Mail is sent each time that a page is asked.
    assert [one.body for one in mail.outbox] == ["0", "0", "1", "0", "1", "2"]


def test_the_fields_that_a_list_asks_for_beside_its_actions_reach_the_action(drive: Drive) -> None:
    class Priced(ActionForm):
        rate = forms.IntegerField(required=True)

    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.update(stock=request.POST["rate"])

    agent = drive(act, action_form=Priced)

    assert agent.shown()["fields"] == {"rate": {"type": "integer", "required": True}}
    agent.driven({"values": {"rate": 9}})
    assert stocks() == [9, 9]
    refused = agent.refused({}, confirm=agent.shown()["confirm"])
    assert refused == "The list in the admin did not run the action. warning: No action selected. Nothing was changed."


def test_a_list_with_a_view_of_its_own_runs_the_action_and_must_show_its_rows(drive: Drive) -> None:
    seen = []

    def changelist_view(self: Any, request: HttpRequest, extra_context: Any = None) -> Any:
        seen.append((request.method, request.POST.get("action")))
        return super(type(self), self).changelist_view(request, extra_context)

    def act(self: Any, request: HttpRequest, queryset: Any) -> None:
        queryset.update(stock=3)

    def get_queryset(self: Any, request: HttpRequest) -> Any:
        return Product.objects.filter(name="kite") if request.POST and hides else Product.objects.all()

    agent, hides = drive(act, changelist_view=changelist_view, get_queryset=get_queryset), False

    agent.ask()
    assert (seen, stocks()) == ([("GET", None), ("POST", "act")], [3, 3])
    hides = True
    assert agent.refused().startswith("The list in the admin does not show all of these rows.")


class Import(forms.Form):
    file = forms.FileField()


def load(self: Any, request: HttpRequest, queryset: Any) -> Any:
    asked = Import(request.POST, request.FILES) if request.FILES else Import()
    if asked.is_bound and asked.is_valid():
        self.message_user(request, f"{asked.cleaned_data['file'].name}: {asked.cleaned_data['file'].read().decode()}")
        return None
    return page(request, form("{{ form }}"), queryset, form=asked)


@pytest.mark.usefixtures("folder")
def test_a_file_is_named_by_its_upload(drive: Drive) -> None:
    agent = drive(load)
    file = uploaded(agent.user, b"a,b", "prices.csv")
    foreign = uploaded(User.objects.create_superuser("other"), b"x", "other.csv")

    assert agent.shown()["fields"] == {"file": {"type": "file", "required": True}}
    assert agent.driven({"values": {"file": file.uri}}) == "prices.csv: a,b"
    assert agent.wrong({"values": {"file": foreign.uri}}) == {
        "pages.0.values.file": "is no upload:// of yours that is complete and has not expired."
    }


# Views of a package's own.


def with_views(**views: Any) -> dict[str, Any]:
    def get_urls(self: Any) -> Any:
        bound = {name: view.__get__(self) for name, view in views.items()}
        # The admin's own wrapper takes no coroutines.
        own = [
            path(f"{name}/", view if iscoroutinefunction(view) else self.admin_site.admin_view(view), name=name)
            for name, view in bound.items()
        ]
        return [*own, *super(type(self), self).get_urls()]

    return {"get_urls": get_urls}


def ask(self: Any, request: HttpRequest) -> HttpResponse:
    if request.method == "GET":
        markup = '<form method="post"><input name="word" value="{{ request.GET.word }}">' + SEND + "</form>"
        return page(request, markup)
    Tag.objects.create(name=request.POST["word"])
    self.message_user(request, "It was asked.")
    return HttpResponseRedirect("../")


async def ask_later(self: Any, request: HttpRequest) -> HttpResponse:
    return await sync_to_async(ask)(self, request)


@pytest.mark.parametrize("view", [ask, ask_later])
def test_a_view_of_a_package_is_followed_within_the_admin_until_the_list(
    drive: Drive, reloaded: Callable[[], None], view: Any
) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> HttpResponse:
        self.message_user(request, "Go.")
        return HttpResponseRedirect("ask/?word=red")

    agent = drive(act, **with_views(ask=view))
    reloaded()

    shown = agent.shown()
    assert (shown["fields"], shown["messages"]) == ({"word": {"value": "red"}}, ["Go."])
    said = agent.driven({"values": {"word": "blue"}})
    assert said == "It was asked.\nSee http://localhost/admin/shop/product/"
    assert [one.name for one in Tag.objects.all()] == ["blue"]


def test_a_request_for_a_page_is_as_a_browser_makes_it(drive: Drive, reloaded: Callable[[], None]) -> None:
    seen: list[Any] = []

    def note(self: Any, request: HttpRequest) -> HttpResponse:
        found = request.resolver_match
        assert found is not None
        request.session["asked"] = seen
        seen.append((request.method, request.path, found.url_name, request.META.get("HTTP_REFERER")))
        return ask(self, request)

    agent = drive(lambda self, request, queryset: HttpResponseRedirect("note/?word=red"), **with_views(note=note))
    reloaded()

    agent.driven({})

    base = "http://localhost/admin/shop/product/"
    assert seen[-2:] == [
        ("GET", "/admin/shop/product/note/", "note", base),
        ("POST", "/admin/shop/product/note/", "note", f"{base}note/?word=red"),
    ]


def test_what_a_page_says_of_a_row_names_it_by_its_key(drive: Drive, products: list[Product]) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        markup = "<p>Close {{ rows.0.name }}? Its key is {{ rows.0.api_key }}.</p><ul><li>{{ rows.0.api_key }}</ul>"
        return page(request, f"{markup}{form('')}", queryset)

    text = drive(act).shown()["text"]

    assert text == "Close ball? Its key is …."


def test_a_read_only_action_needs_no_token(drive: Drive) -> None:
    import mcp_django

    @mcp_django.action(read_only=True)
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        if "sep" in request.POST:
            return HttpResponse(request.POST["sep"].join("ab"), content_type="text/csv")
        return page(request, form('<select name="sep"><option value="1">;<option value=",">comma</select>'), queryset)

    agent = drive(act, "read")

    assert "confirm" not in agent.shown()
    assert agent.ask({"values": {"sep": "comma"}})["content"][1]["resource"]["text"] == "a,b"


def test_more_choices_and_longer_texts_than_are_shown_can_be_given(drive: Drive) -> None:
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        if "size" in request.POST:
            self.message_user(request, request.POST["size"])
            return None
        options = "".join(f'<option value="{number}">size {number}' for number in range(30))
        return page(request, f"<p>{'word ' * 200}</p>{form(f'<select name=size>{options}</select>')}", queryset)

    agent = drive(act)
    shown = agent.shown()

    assert (len(shown["fields"]["size"]["choices"]), shown["fields"]["size"]["more_choices"]) == (20, 10)
    assert len(shown["text"]) == 500
    assert agent.driven({"values": {"size": "size 29"}}) == "29"


def test_pages_that_the_action_does_not_ask_for_are_refused(drive: Drive) -> None:
    agent = drive(lambda self, request, queryset: queryset.update(stock=5))

    result = agent.ask({})

    assert json.loads(result["content"][0]["text"])["errors"][0]["field"] == "confirm"
    assert stocks() == [0, 1]


def test_a_client_that_closes_objects_gives_pages_as_the_text_of_their_json(drive: Drive, settings: Any) -> None:
    agent = drive(reprice)
    settings.MCP = {**settings.MCP, "TEXT_ARGUMENTS": True}
    confirm = agent.shown()["confirm"]

    agent.call(
        agent.tool, ids=[str(row.pk) for row in Product.objects.all()], confirm=confirm,
        pages='[{"values": {"amount": 4}, "button": "apply"}]',
    )  # fmt: skip

    assert {"type": "string", "description": "The same as JSON."} in (
        listed(agent, agent.tool)["inputSchema"]["properties"]["pages"]["anyOf"]
    )
    assert stocks() == [4, 4]


class Status(forms.Form):
    status = forms.ChoiceField(choices=[("o", "open"), ("c", "closed")], initial="")
    note = forms.CharField(required=False)


def set_status(self: Any, request: HttpRequest, queryset: Any) -> Any:
    asked = Status(request.POST if "apply" in request.POST else None)
    if asked.is_bound and asked.is_valid():
        self.message_user(request, asked.cleaned_data["status"])
        return None
    markup = f"<h1>Set the status</h1>{form('{{ form }}', send=TWO_BUTTONS)}"
    return HttpResponse(page(request, markup, queryset, form=asked).content.replace(b"<h1>Asking</h1>", b""))


def test_an_action_is_driven_as_its_page_shows(drive: Drive) -> None:
    _, _, first, shown, second = (json.loads(block) for block in blocks("docs/actions.md", "json"))
    agent = drive(set_status)

    described = agent.shown()
    said = agent.ask(*second["arguments"]["pages"], confirm=described["confirm"])

    assert first["arguments"].keys() == {"ids"}
    assert described == {**shown, "confirm": described["confirm"]}
    assert said["content"][0]["text"] == "c"


@override_settings(MCP={"LOG_ACTIONS": True})
def test_a_page_leaves_no_history(drive: Drive) -> None:
    from django.contrib.admin.models import LogEntry

    agent = drive(reprice)

    agent.shown()
    assert LogEntry.objects.count() == 0
    agent.driven({"values": {"amount": 5}, "button": "apply"})
    assert LogEntry.objects.count() == 2


def test_people_are_not_asked_about_an_answer_that_the_form_refuses(drive: Drive) -> None:
    class Minutes(forms.Form):
        minutes = forms.IntegerField(min_value=0)

    @mcp_django.action(consent="ask", shows_page=True)
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        asked = Minutes(request.POST if "minutes" in request.POST else None)
        if not asked.is_valid():
            return page(request, form("{{ form }}"), queryset, form=asked)
        queryset.update(stock=asked.cleaned_data["minutes"])
        return None

    agent = drive(act)

    for values, said in (
        ({"minutes": -3}, {"pages.0.values.minutes": "Ensure this value is greater than or equal to 0."}),
        ({"hours": 1}, {"pages.0.values.hours": "no field 'hours'. Allowed: minutes."}),
    ):
        assert agent.wrong({"values": values}) == said and not Change.objects.exists()
    told = agent.ask({"values": {"minutes": 3}}, confirm=agent.shown()["confirm"])
    assert told["structuredContent"]["status"] == "pending" and stocks() == [0, 1]


def test_a_form_that_asks_for_more_by_what_is_sent_takes_its_answer(drive: Drive) -> None:
    class Chained(forms.Form):
        kind = forms.CharField()
        part = forms.ChoiceField(choices=[("", "-")])

        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            if self.data.get("kind") == "wheel":
                self.fields["part"].choices = [("rim", "Rim")]  # type: ignore[attr-defined]

    @mcp_django.action(consent="ask", shows_page=True)
    def act(self: Any, request: HttpRequest, queryset: Any) -> Any:
        asked = Chained(request.POST if "kind" in request.POST else None)
        return None if asked.is_valid() else page(request, form(_TYPED), queryset, form=asked)

    agent = drive(act)
    confirm = agent.shown()["confirm"]

    told = agent.ask({"values": {"kind": "wheel", "part": "rim"}}, confirm=confirm)

    assert told["structuredContent"]["status"] == "pending"


#: A page whose script would offer the parts of a kind.
_TYPED = '<input name="kind"><select name="part"><option value="">-</option><option value="rim">Rim</option></select>'
