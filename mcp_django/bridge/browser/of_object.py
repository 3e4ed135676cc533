"""An action on the page of one row: a button of its form is pressed, or a page of a package is asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from django.http import Http404

from mcp_django.bridge.browser import described
from mcp_django.bridge.browser.addresses import Address, start_address
from mcp_django.bridge.browser.asking import Asking
from mcp_django.bridge.browser.browsing import Browser, Shown
from mcp_django.bridge.browser.slots import Slots
from mcp_django.bridge.tools.action_pages import PageStart
from mcp_django.bridge.tools.action_responses import is_page, read_messages
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.pages import page_path
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from mcp_django.bridge.tools.action_pages import ActionRun
    from mcp_django.bridge.writes.markup import Form, Page
    from mcp_django.exceptions import FieldError
    from mcp_django.exchange.requests import MCPRequest

_NOT_OFFERED = "The page of this row in the admin does not offer this action. Nothing was changed."
_REFUSED = "The form of this row refuses to be sent as it stands. Nothing was changed."
#: What the context of the admin's form holds, and that of its list.
_OF_ADMIN = frozenset(("adminform", "cl"))


class ObjectBrowser(Browser[PageStart]):
    """One call of an action on the page of a row."""

    _asking: ObjectAsking

    def __init__(self, run: ActionRun[PageStart]) -> None:
        super().__init__(run, ObjectAsking(run))
        #: The names of what people see of the form that was sent by a button.
        self._sent: set[str] = set()

    def _begin(self) -> tuple[Any, Shown | None]:
        start, asking = self._run.start, self._asking
        if not start.button:
            return asking.open(start.method, asking.begin(), FormData() if start.method == "POST" else None), None
        if start.method == "POST":
            data = FormData()
            data.add(start.button, start.button)
            return asking.open("POST", asking.begin(), data), None
        return self._press(asking.open("GET", asking.begin())), None

    def _press(self, response: Any) -> Any:
        """Send the form of the row as it stands, by the button. Raises ToolError."""
        name = self._run.start.button
        page = self._page(response) if is_page(response) else None
        found = [] if page is None else [(one, by) for one in page.posted for by in one.buttons if by.name == name]
        if not found:
            raise ToolError(" ".join([*self._said(), _NOT_OFFERED]))
        form, button = found[0]
        self._sent = {one.name for one in form.seen}
        sent = {**form.values, name: [*form.values.get(name, ()), button.value]}
        return self._send(sent, FormData(), form.action if button.action is None else button.action)

    def _form(self, response: Any) -> tuple[Page, Form]:
        if self._run.start.button and self._asking.is_at_start:
            again = [one for one in self._page(response).posted if self._is_again(one, response)]
            if again:
                why = _REFUSED if self._sent else _NOT_OFFERED
                raise ToolError(" ".join([*self._said(), why]), self._wrong(again[0]) if self._sent else [])
        return super()._form(response)

    def _is_again(self, form: Form, response: Any) -> bool:
        """Whether it is the form or the list of the admin: other tools fill that in, with the consent that it needs."""
        is_of_admin = not _OF_ADMIN.isdisjoint(getattr(response, "context_data", None) or {})
        names = {one.name for one in form.seen}
        return bool(names) and (is_of_admin or names == self._sent or "_save" in {one.name for one in form.buttons})

    def _wrong(self, form: Form) -> list[FieldError]:
        """What the form says is wrong, as far as the agent may know. Raises ToolError where it may not fill it in."""
        return described.errors(Slots(form, self._asking.made, self._run.rights), "form", self._plain)

    def _said(self) -> list[str]:
        return [self._plain(line) for line in read_messages(self.request)[0]]


class ObjectAsking(Asking[PageStart]):
    """The requests of an action on the page of a row."""

    _start: Address

    @property
    def is_at_start(self) -> bool:
        return self.at.path == self._start.path

    def begin(self) -> Address:
        """The page with which it begins, coming from the form of the row. Raises ToolError."""
        admin, start = self._run.admin, self._run.start
        form = page_path(admin, "change", start.key)
        found = start_address(admin, self._run.request, start)
        if found is None:
            raise ToolError(f"This action is at no page of its own in the admin. {self.by_person}")
        self._start = found
        self.at = self.at if form is None else Address(form)
        return found

    def _address(self, url: str) -> Address | None:
        parts = urlsplit(urljoin(self.at.full_path, url))
        if parts.path == self._start.path and parts.netloc in ("", self._run.request.get_host()):
            return replace(self._start, query=parts.query)
        found = super()._address(url)
        return None if found is None or found.view is None else found

    def _call(self, request: MCPRequest, address: Address) -> Any:
        try:
            return super()._call(request, address)
        except Http404:
            raise ToolError("The admin has no such page of this row. Nothing was changed.") from None
