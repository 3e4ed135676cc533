"""ModelAdmins with actions on the page of a row, each in the way of one package."""

from __future__ import annotations

from functools import partial
from typing import Any

from django import forms
from django.contrib.admin import ModelAdmin
from django.core import mail
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import path, reverse

from mcp_django import ObjectAction, action
from tests.bridge.browser.conftest import page
from tests.shop.models import Product


class OfObjectActions(ModelAdmin):  # type: ignore[type-arg]
    """As django-object-actions: a view below the row calls a method with it, by GET as well as by POST."""

    change_actions: Any = ()
    tools_view_name = "admin:shop_product_actions"
    button_type = "a"

    def get_urls(self) -> Any:
        view = self.admin_site.admin_view(self._act)
        return [path("<path:pk>/actions/<str:tool>/", view, name="shop_product_actions"), *super().get_urls()]

    def _act(self, request: HttpRequest, pk: str, tool: str) -> HttpResponse:
        found = getattr(self, tool)(request, get_object_or_404(Product, pk=pk))
        return found or HttpResponseRedirect(reverse("admin:shop_product_change", args=[pk]))

    def get_change_actions(self, request: HttpRequest, object_id: str, form_url: str) -> Any:
        return self.change_actions

    def _get_tool_dict(self, name: str) -> dict[str, Any]:
        return {"button_type": self.button_type}


class _Handler:
    """A button of django-admin-extra-buttons."""

    change_form = None
    single_object_invocation = False
    permission = None

    def __init__(self, func: Any) -> None:
        self.func, self.config, self.url_pattern = func, {"label": "Press it"}, f"<path:pk>/{func.__name__}/"

    def get_button(self, context: Any) -> Any:
        """A button that is there for rows with a name."""
        return type("Button", (), {"enabled": True, "can_render": lambda _: context["original"].name != "kite"})()


class OfExtraButtons(ModelAdmin):  # type: ignore[type-arg]
    """As django-admin-extra-buttons: a method with a URL of its own, which is not a view of the AdminSite."""

    @property
    def extra_button_handlers(self) -> dict[str, _Handler]:
        return {"press": _Handler(self.press)}

    def get_urls(self) -> Any:
        return [path("<path:pk>/press/", partial(self.press), name="shop_product_press"), *super().get_urls()]

    def press(self, request: HttpRequest, pk: str) -> HttpResponse:
        Product.objects.filter(pk=pk).update(stock=70)
        return HttpResponseRedirect(request.META["HTTP_REFERER"])


class OfInlineActions(ModelAdmin):  # type: ignore[type-arg]
    """As django-inline-actions: a button in the list, whose name says what it does with which row."""

    inline_actions: Any = ["sell"]

    def render_inline_actions(self, obj: Any = None) -> str:
        return ""

    def get_inline_actions(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.inline_actions

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        for name in request.POST:
            if name.startswith("_action__"):
                owner, kind, action, app, model, key = name.removeprefix("_action__").split("__")
                assert (owner, kind, app, model) == (type(self).__name__.lower(), "admin", "shop", "product")
                found = getattr(self, action)(request, Product.objects.get(pk=key), parent_obj=None)
                return found or HttpResponseRedirect(reverse("admin:shop_product_changelist"))
        return super().changelist_view(request, extra_context)

    def sell(self, request: HttpRequest, obj: Product, parent_obj: Any = None) -> Any:
        obj.stock = 70
        obj.save()


class WithButton(ModelAdmin):  # type: ignore[type-arg]
    """As a project that adds a button to the form of a row, and acts in ``response_change``."""

    button = '<input type="submit" name="_approve" value="Approve">'
    fields: Any = ("name", "stock", "api_key", "active")

    def render_change_form(self, request: Any, context: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().render_change_form(request, context, *args, **kwargs)

        def add(rendered: Any) -> None:
            first, last = rendered.content.rsplit(b"</form>", 1)
            rendered.content = first + self.button.encode() + b"</form>" + last

        response.add_post_render_callback(add)
        return response

    def response_change(self, request: HttpRequest, obj: Product) -> HttpResponse:
        if "_approve" in request.POST:
            Product.objects.filter(pk=obj.pk).update(stock=70)
            self.message_user(request, f"{obj} is approved.")
        return super().response_change(request, obj)


def with_view(view: Any, **members: Any) -> Any:
    """A ModelAdmin with a page of its own below a row."""

    def get_urls(self: Any) -> Any:
        def shown(request: Any, key: str) -> Any:
            return view(self, request, Product.objects.get(pk=key))

        own = path("<int:key>/own/", self.admin_site.admin_view(shown), name="shop_product_own")
        return [own, *super(Own, self).get_urls()]

    Own = type("Own", (WithButton,), {"get_urls": get_urls, **members})
    return Own


def own_path(obj: Product) -> str:
    return reverse("admin:shop_product_own", args=[obj.pk])


def sells(self: Any, request: HttpRequest, obj: Product) -> None:
    obj.stock = 70
    obj.save()
    mail.send_mail("sold", "", None, ["a@example.com"])
    self.message_user(request, f"{obj} is sold.")


def selling(**options: Any) -> Any:
    """The same, with what ``mcp_django.action`` says of it."""

    def sell(self: Any, request: HttpRequest, obj: Product) -> None:
        sells(self, request, obj)

    return action(**options)(sell)


class Selling(OfObjectActions):
    change_actions = ("sell",)
    sell = sells


class Posting(Selling):
    button_type = "form"


FORM = '<form method="post">{% csrf_token %}{{ form }}<button name="go">Go</button></form>'


class Restock(forms.Form):
    stock = forms.IntegerField(min_value=1)


def restock(self: Any, request: HttpRequest, obj: Product) -> Any:
    asked = Restock(request.POST or None)
    if asked.is_bound and asked.is_valid():
        obj.stock = asked.cleaned_data["stock"]
        obj.save()
        return HttpResponseRedirect("../change/")
    return page(request, FORM, form=asked)


OWN = ObjectAction("own", "Restock it", path=own_path)
