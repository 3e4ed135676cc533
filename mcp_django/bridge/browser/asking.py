"""Asks the views of the admin as a browser does, and goes where they lead."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Generic
from urllib.parse import urljoin

from asgiref.sync import async_to_sync
from django.http import QueryDict
from django.http.response import HttpResponseBase, HttpResponseRedirectBase
from django.template.response import SimpleTemplateResponse

from mcp_django.bridge.browser.addresses import Address, address_of, list_address
from mcp_django.bridge.tools.action_pages import S
from mcp_django.bridge.tools.action_responses import changelist_url, is_page
from mcp_django.bridge.writes.pages import request_at
from mcp_django.core.compat.forms import made_forms
from mcp_django.core.compat.requests import close_resources
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from mcp_django.bridge.tools.action_pages import ActionRun
    from mcp_django.bridge.writes.form_data import FormData
    from mcp_django.exchange.requests import MCPRequest

_MAX_REDIRECTS = 3
_SEE_OTHER = (HTTPStatus.MOVED_PERMANENTLY, HTTPStatus.FOUND, HTTPStatus.SEE_OTHER)


class Asking(Generic[S]):
    """The requests of one run of an action, one after the other."""

    def __init__(self, run: ActionRun[S]) -> None:
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
        address = self._address(url)
        if address is None:
            raise ToolError(f"The page of this action goes on at {url[:200]}, outside of the admin. {self.by_person}")
        return self.open("POST", address, data)

    def open(self, method: str, address: Address, data: FormData | None = None) -> Any:
        """What comes of asking for a page: the response at the end of redirects. Raises ToolError."""
        made = self._request(method, address)
        if data is not None:
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

    def _address(self, url: str) -> Address | None:
        """Where a form leads; None if no agent may send it there."""
        return address_of(self._run.admin, self._run.request, url, self.at)

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
            response = self._call(request, address)
            if isinstance(response, HttpResponseBase):
                self._responses.append(response)
            # A template reads rows too, and that belongs to the transaction.
            if isinstance(response, SimpleTemplateResponse) and is_page(response):
                response.render()
        self.made = made
        return response

    def _call(self, request: MCPRequest, address: Address) -> Any:
        """What the view of an address returns."""
        if address.view is None:
            raise LookupError(f"{address.path} has no view")
        response = address.view(request, *address.args, **(address.kwargs or {}))
        return async_to_sync(_awaited)(response) if isawaitable(response) else response


async def _awaited(response: Any) -> Any:
    return await response
