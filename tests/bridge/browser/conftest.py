"""Products with actions that answer with pages, and an agent that drives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import clear_url_caches

from mcp_django import ModelMCP
from tests.bridge.uploads.conftest import folder
from tests.shop.models import Product
from tests.support.asking import DirectPeer, words_of
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import Message

__all__ = ["folder"]

#: What each page sends back, as packages write it.
BACK = (
    '{% csrf_token %}<input type="hidden" name="action" value="{{ request.POST.action }}">'
    "{% for row in rows %}"
    '<input type="hidden" name="_selected_action" value="{{ row.pk }}">{% endfor %}'
)
SEND = '<input type="submit" value="Send">'


def page(request: HttpRequest, markup: str, rows: Any = (), **context: Any) -> HttpResponse:
    """A page that a template of the project makes, without a context that anybody could read."""
    template = engines["django"].from_string(f"<h1>Asking</h1>{markup}")
    return HttpResponse(template.render({"rows": rows, "back": "", **context}, request))


def form(markup: str, *, action: str = "", send: str = SEND) -> str:
    """The HTML of a form that sends its rows back."""
    return f'<form method="post" action="{action}" enctype="multipart/form-data">{BACK}{markup}{send}</form>'


class Agent(DirectPeer):
    """Drives one action."""

    tool: str

    def ask(self, *pages: Any, ids: Any = None, **arguments: Any) -> Message:
        """The result of a call with answers to pages."""
        about = {"ids": ids or [str(row.pk) for row in Product.objects.order_by("pk")], **arguments}
        return self.call(self.tool, **about, **({"pages": list(pages)} if pages else {}))

    def shown(self, *pages: Any, **arguments: Any) -> Message:
        """What the page is that comes last."""
        result = self.ask(*pages, **arguments)
        assert not result["isError"], result
        found: Message = json.loads(result["content"][0]["text"])
        assert found["status"] == "form"
        return found

    def driven(self, *pages: Any, **arguments: Any) -> str:
        """What the action says once all pages are answered, each with the token of what was shown."""
        confirm: Any = {}
        for number in range(len(pages)):
            confirm = {"confirm": self.shown(*pages[:number], **confirm, **arguments)["confirm"]}
        result = self.ask(*pages, **confirm, **arguments)
        assert not result["isError"], result
        text: str = result["content"][0]["text"]
        return text

    def refused(self, *pages: Any, **arguments: Any) -> str:
        result = self.ask(*pages, **arguments)
        assert result["isError"] is True, result
        return words_of(result["content"][0]["text"])

    def wrong(self, *pages: Any, **arguments: Any) -> dict[str, str]:
        """The errors of answers that are refused, once all pages before the last were answered."""
        return self.errors(*pages, confirm=self.shown(*pages[:-1], **arguments)["confirm"], **arguments)

    def errors(self, *pages: Any, **arguments: Any) -> dict[str, str]:
        result = self.ask(*pages, **arguments)
        assert result["isError"] is True, result
        return {one["field"]: one["message"] for one in json.loads(result["content"][0]["text"])["errors"]}


class OnRow(Agent):
    """Drives an action on the page of the first product."""

    def ask(self, *pages: Any, ids: Any = None, **arguments: Any) -> Message:
        about = {"id": str(Product.objects.earliest("pk").pk), **arguments}
        return self.call(self.tool, **about, **({"pages": list(pages)} if pages else {}))


@pytest.fixture
def products(db: None) -> list[Product]:
    return [
        Product.objects.create(name=name, stock=number, api_key=f"sk-canary-{name}")
        for number, name in enumerate(("ball", "kite"))
    ]


@pytest.fixture
def drive(products: list[Product], declared: Declared) -> Callable[..., Agent]:
    """An agent of a superuser that drives a function as the only action of the ModelAdmin of products."""

    def drive(act: Any, *scopes: str, mcp: Any = None, **attributes: Any) -> Agent:
        named = act if isinstance(act, str) else "act"
        members = {"actions": [named], **({} if isinstance(act, str) else {"act": act}), **attributes}
        declared.admin(Product, type("Acting", (ModelAdmin,), members))
        declared.model(Product, type("ProductMCP", (ModelMCP,), {"writable": ("update",), **(mcp or {})}))
        switch_on(f"shop_product_{named}")
        user = User.objects.filter(username="root").first() or User.objects.create_superuser("root")
        agent = Agent(user, *(scopes or ("read", "actions", "write")))
        agent.tool = f"shop_product_{named}"
        return agent

    return drive


@pytest.fixture
def reloaded(settings: Any) -> Iterator[Callable[[], None]]:
    """Serves the URLs of the admin as they are now: a ModelAdmin of the test may have more of them."""
    from tests.bridge.browser import urls

    def reload() -> None:
        urls.urlpatterns[:] = urls.made()
        settings.ROOT_URLCONF = urls.__name__
        clear_url_caches()

    yield reload
    clear_url_caches()


@pytest.fixture
def on_row(products: list[Product], declared: Declared, reloaded: Any) -> Callable[..., OnRow]:
    """An agent of a superuser that drives an action on the page of a product."""

    def drive(admin_class: Any, action: str, *scopes: str, user: Any = None, **mcp: Any) -> OnRow:
        declared.admin(Product, admin_class)
        options = {"writable": ("update",), "fields": ("name", "stock", "active"), **mcp}
        declared.model(Product, type("ProductMCP", (ModelMCP,), options))
        reloaded()
        declared.forget()
        agent = OnRow(user or User.objects.create_superuser("root"), *(scopes or ("read", "actions", "write")))
        agent.tool = f"shop_product_object_{action}"
        switch_on(agent.tool)
        return agent

    return drive
