"""An action of the list: the list is asked with its name and the rows, and calls its function."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, ActionForm

from mcp_django.bridge.browser.asking import Asking
from mcp_django.bridge.browser.browsing import Browser, Shown
from mcp_django.bridge.browser.slots import OF_LIST
from mcp_django.bridge.tools.action_pages import ListStart
from mcp_django.bridge.tools.action_responses import check_has_run, read_messages
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.markup import Page
from mcp_django.core.hooks import hook_of
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from mcp_django.bridge.browser.addresses import Address
    from mcp_django.bridge.tools.action_pages import ActionRun
    from mcp_django.exchange.requests import MCPRequest

#: The hooks by which a project has its own way from the list to an action.
_HOOKS = ("changelist_view", "response_action")


class ListBrowser(Browser[ListStart]):
    """One call of an action of the list."""

    _asking: ListAsking

    def __init__(self, run: ActionRun[ListStart]) -> None:
        super().__init__(run, ListAsking(run))

    def _begin(self) -> tuple[Any, Shown | None]:
        """The form of the list in which the action is chosen. What it asks for beside that is a page of its own."""
        form = self._asking.form_of_list()
        self._asking.made = [] if form is None else [form]
        names = [] if form is None else [name for name in form.fields if name not in OF_LIST]
        fields = "".join(str(form[name]) for name in names)
        page = Page(f'<form method="post" enctype="multipart/form-data">{fields}</form>')
        chosen = [("action", self._run.start.name), *((ACTION_CHECKBOX_NAME, key) for key in self._run.chosen.keys)]
        for name, value in (*chosen, ("index", "0"), ("select_across", "0")):
            page.forms[0].add_input({"type": "hidden", "name": name, "value": str(value)})
        slots = self._slots(page.forms[0])
        # Nothing may be asked beside the action.
        return (None, (page, slots)) if any(slots.form.seen) else (self._send(slots.form.values, FormData(), ""), None)


class ListAsking(Asking[ListStart]):
    """The requests of an action of the list."""

    def form_of_list(self) -> Any:
        """The form beside the actions of the list, where the project has its own; None where it is Django's."""
        if not self._has_own_list:
            return None
        response = self._run.admin.changelist_view(self._request("GET", self.at))
        return (getattr(response, "context_data", None) or {}).get("action_form")

    def _call(self, request: MCPRequest, address: Address) -> Any:
        if address.view is not None:
            return super()._call(request, address)
        response = self._act(request)
        check_has_run(response)
        return response

    def _act(self, request: MCPRequest) -> Any:
        """Run the action as the list does, on those of the rows that the page sends back."""
        run, keys = self._run, {str(key): key for key in self._run.chosen.keys}
        sent = dict.fromkeys(request.POST.getlist(ACTION_CHECKBOX_NAME))
        # With _save the list would take it for an edit of its rows.
        is_sent_back = sent and request.POST.get("action") == run.start.name and "_save" not in request.POST
        if not is_sent_back or not sent.keys() <= keys.keys():
            raise ToolError(
                "The page of this action does not send its rows back, so that it fails in a browser too. "
                "Nothing was changed."
            )
        if self._has_own_list:
            return self._through_list(request, {keys[one] for one in sent})
        queryset = run.chosen.queryset.all()
        if len(sent) < len(keys):
            queryset = queryset.filter(pk__in=[keys[one] for one in sent])
        return run.start.function(run.admin, request, queryset)

    @property
    def _has_own_list(self) -> bool:
        """Whether the project has its own way from the list to the action."""
        admin: Any = self._run.admin
        return admin.action_form is not ActionForm or any(
            hook_of(admin, one) is not getattr(ModelAdmin, one) for one in _HOOKS
        )

    def _through_list(self, request: MCPRequest, keys: set[Any]) -> Any:
        """Run the action by the view of the list. Raises ToolError where that does not come to it with the rows."""
        run, ran = self._run, []

        def act(admin: Any, asked: Any, queryset: Any) -> Any:
            ran.append(True)
            if set(queryset.order_by().values_list("pk", flat=True)) != keys:
                raise ToolError(f"The list in the admin does not show all of these rows. {self.by_person}")
            return run.start.function(admin, asked, queryset)

        twin: Any = copy.copy(run.admin)
        given = twin.get_actions

        # Django 6.1 looks for the parameter action_location.
        @functools.wraps(given)
        def get_actions(*args: Any, **kwargs: Any) -> Any:
            found = dict(given(*args, **kwargs))
            return {**found, run.start.name: _with(found[run.start.name], act)} if run.start.name in found else found

        twin.get_actions = get_actions
        response = twin.changelist_view(request)
        if not ran:
            said = run.texts.named(read_messages(request)[0])
            raise ToolError(" ".join(["The list in the admin did not run the action.", *said, "Nothing was changed."]))
        return response


def _with(action: Any, function: Callable[..., Any]) -> Any:
    """An action with another function: a tuple up to Django 6.0, and also later where a project makes it."""
    return (function, *action[1:]) if isinstance(action, tuple) else dataclasses.replace(action, func=function)
