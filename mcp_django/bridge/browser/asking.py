"""Asks the views of the admin as a browser does: the list with its actions, and the pages to which these lead."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Sequence
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from asgiref.sync import async_to_sync
from django.contrib.admin import ModelAdmin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME, ActionForm
from django.http import QueryDict
from django.http.response import HttpResponseBase, HttpResponseRedirectBase
from django.template.response import SimpleTemplateResponse

from mcp_django.bridge.browser.addresses import Address, address_of, list_address
from mcp_django.bridge.tools.action_responses import changelist_url, check_has_run, is_page, read_messages
from mcp_django.bridge.writes.pages import request_at
from mcp_django.core.compat.forms import made_forms
from mcp_django.core.compat.requests import close_resources
from mcp_django.core.hooks import hook_of
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from mcp_django.bridge.tools.action_pages import ActionRun
    from mcp_django.bridge.writes.form_data import FormData
    from mcp_django.exchange.requests import MCPRequest

_MAX_REDIRECTS = 3
_SEE_OTHER = (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER)
#: The hooks by which a project has its own way from the list to an action.
_HOOKS = ("changelist_view", "response_action")


class Asking:
    """The requests of one run of an action, one after the other."""

    def __init__(self, run: ActionRun) -> None:
        self._run = run
        #: The last request: what was said with it has not been told yet.
        self.request = run.request
        #: The page that it was for, and the forms that were made for it.
        self.at = list_address(run.admin, run.request)
        self.made: Sequence[Any] = ()
        self._responses: list[HttpResponseBase] = []

    def close(self) -> None:
        """Close all that the responses have opened."""
        for response in self._responses:
            close_resources(response)

    def send(self, url: str, data: FormData) -> Any:
        """What comes of sending a form: the response at the end of redirects. Raises ToolError."""
        address = address_of(self._run.admin, self._run.request, url, self.at)
        if address is None:
            raise ToolError(f"The page of this action goes on at {url[:200]}, outside of the admin. {self.by_person}")
        made = self._request("POST", address)
        made.POST, made.FILES = data.post(), data.files
        response = self._answered(made, address)
        for _ in range(_MAX_REDIRECTS):
            if not isinstance(response, HttpResponseRedirectBase) or response.status_code not in _SEE_OTHER:
                break
            leads_to = address_of(self._run.admin, self._run.request, response.headers["Location"], self.at)
            if leads_to is None or leads_to.view is None:
                break
            said = vars(self.request).get("_messages")
            made = self._request("GET", leads_to)
            if said is not None:
                # As in a browser's session, they wait until a page shows them.
                vars(made)["_messages"] = said
            response = self._answered(made, leads_to)
        if self.at.view is not None and isinstance(response, HttpResponseRedirectBase):
            # Whoever reads it does not know where it began.
            response.headers["Location"] = urljoin(self.at.full_path, response.headers["Location"])
        return response

    def form_of_list(self) -> Any:
        """The form beside the actions of the list, where the project has its own; None where it is Django's."""
        if not self._has_own_list:
            return None
        response = self._run.admin.changelist_view(self._request("GET", self.at))
        return (getattr(response, "context_data", None) or {}).get("action_form")

    @property
    def by_person(self) -> str:
        url = changelist_url(self._run.request, self._run.admin) or "the admin"
        return f"A person must finish this action. Nothing was changed. Open {url} and run it there."

    def _request(self, method: str, address: Address) -> MCPRequest:
        """As a browser makes it that shows a page of the admin."""
        first = self._run.request
        made = request_at(first, method, address.path, address.query)
        made.GET, made.session = QueryDict(address.query), first.session
        made.META |= {"HTTP_ACCEPT": "text/html", "HTTP_REFERER": first.build_absolute_uri(self.at.full_path)}
        if method == "POST":
            made.META["CONTENT_TYPE"] = made.content_type = "multipart/form-data"
        self.request, self.at = made, address
        return made

    def _answered(self, request: MCPRequest, address: Address) -> Any:
        with made_forms() as made:
            if address.view is None:
                response = self._act(request)
                check_has_run(response)
            else:
                response = address.view(request, *address.args, **(address.kwargs or {}))
                response = async_to_sync(_awaited)(response) if isawaitable(response) else response
            if isinstance(response, HttpResponseBase):
                self._responses.append(response)
            # A template reads rows too, and that belongs to the transaction.
            if isinstance(response, SimpleTemplateResponse) and is_page(response):
                response.render()
        self.made = made
        return response

    def _act(self, request: MCPRequest) -> Any:
        """Run the action as the list does, on those of the rows that the page sends back."""
        run, keys = self._run, {str(key): key for key in self._run.chosen.keys}
        sent = dict.fromkeys(request.POST.getlist(ACTION_CHECKBOX_NAME))
        # With _save the list would take it for an edit of its rows.
        is_sent_back = sent and request.POST.get("action") == run.name and "_save" not in request.POST
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
        return run.function(run.admin, request, queryset)

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
            return run.function(admin, asked, queryset)

        twin: Any = copy.copy(run.admin)
        given = twin.get_actions

        def get_actions(*args: Any, **kwargs: Any) -> Any:
            found = dict(given(*args, **kwargs))
            return {**found, run.name: _with(found[run.name], act)} if run.name in found else found

        twin.get_actions = get_actions
        response = twin.changelist_view(request)
        if not ran:
            said = run.texts.named(read_messages(request)[0])
            raise ToolError(" ".join(["The list in the admin did not run the action.", *said, "Nothing was changed."]))
        return response


def _with(action: Any, function: Callable[..., Any]) -> Any:
    """An action with another function: a tuple up to Django 6.0, and also later where a project makes it."""
    return (function, *action[1:]) if isinstance(action, tuple) else dataclasses.replace(action, func=function)


async def _awaited(response: Any) -> Any:
    return await response
