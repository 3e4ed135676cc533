"""Drives an action through the pages that it answers with, as a person's browser does.

Every call begins at the list, or at the page of the row, and sends the answers to all pages anew, in its one
transaction. If a page comes back, it is described and all is rolled back. So nothing is kept between calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic

from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import ValidationError
from django.http.response import HttpResponse

from mcp_django.bridge.browser import described
from mcp_django.bridge.browser.asking import Asking
from mcp_django.bridge.browser.slots import Slots
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.fields.unreadable import fetch_instances
from mcp_django.bridge.tools.action_pages import FormShown, S
from mcp_django.bridge.tools.action_responses import is_page, read_messages
from mcp_django.bridge.tools.row_texts import named
from mcp_django.bridge.writes.form_data import FormData
from mcp_django.bridge.writes.markup import Button, Form, Page
from mcp_django.exceptions import ToolError, field_error
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.tools.action_pages import ActionRun
    from mcp_django.bridge.tools.proposed_action import ProposedAction
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.protocol.types import JSON

_MAX_BYTES = 1_000_000
_MAX_CONTROLS = 1_000
#: Shorter values of hidden columns are parts of any word.
_LEAST_HIDDEN = 4
#: Characters of an unknown name that its error repeats.
_MAX_NAME = 100


#: A page with its form.
Shown = tuple[Page, Slots]


class Browser(ABC, Generic[S]):
    """One call of an action on its rows."""

    def __init__(self, run: ActionRun[S], asking: Asking[S]) -> None:
        self._run = run
        self._asking = asking
        self._is_approved = False
        #: The rows as they were when the last page was read.
        self._stored: Sequence[Model] = ()
        #: Value of a hidden column → what stands for it.
        self._hidden: dict[str, str] = {}

    @property
    def request(self) -> MCPRequest:
        """The request of the last page. What was said with those before it was told with their pages."""
        return self._asking.request

    def close(self) -> None:
        self._asking.close()

    @abstractmethod
    def _begin(self) -> tuple[Any, Shown | None]:
        """The first response, or the first page where that is no response. Raises ToolError."""

    def run(self, proposed: ProposedAction) -> Any:
        """The response after the last answer, unless that is a page. Raises FormShown and ToolError, for a page too."""
        # What needs an approval comes here with it, or to be shown and taken back.
        self._is_approved = proposed.needs.level is Level.APPROVE
        response, shown = self._begin()
        for number, answer in enumerate(proposed.pages):
            if shown is None and not is_page(response):
                wrong = [field_error(f"pages.{number}", "there is no such page.")]
                raise ToolError(f"The action asks for {number} pages. Nothing was changed.", wrong)
            page, slots = shown or self._read(response)
            if number == len(proposed.pages) - 1:
                proposed.check_page(self._describe(page, slots, number))
            response = self._submit(slots, answer, f"pages.{number}")
            shown = self._read(response) if is_page(response) else None
            if shown is not None:
                self._check_accepted(slots, shown[1], f"pages.{number}")
            elif _is_json(response):
                raise ToolError(f"The page of this action answers a script, with JSON. {self._asking.by_person}")
        if shown is None and is_page(response):
            shown = self._read(response)
        if shown is not None:
            number = len(proposed.pages)
            if proposed.next_answer is not None:
                self._filled(shown[1], proposed.next_answer, f"pages.{number}", cleans=True)
            raise FormShown(proposed, self._describe(*shown, number))
        return response

    def _read(self, response: Any) -> Shown:
        """The form of a page. Raises ToolError with the reason why a person must go on."""
        page, form = self._form(response)
        return page, self._slots(form)

    def _page(self, response: Any) -> Page:
        """A page, if it is not too large. Raises ToolError."""
        # The answers to pages may have changed the rows of which the page speaks.
        self._run.texts.read(anew=True)
        self._stored = fetch_instances(self._run.chosen.stored(self._run.alias))
        self._hidden |= dict.fromkeys(self._hidden_values(), "…")
        by_person = self._asking.by_person
        if len(response.content) > _MAX_BYTES:
            raise ToolError(f"The page of this action is larger than {_MAX_BYTES:,} bytes. {by_person}")
        page = Page(response.content.decode(response.charset or "utf-8", errors="replace"))
        if page.count > _MAX_CONTROLS:
            raise ToolError(f"The page of this action has more than {_MAX_CONTROLS:,} controls. {by_person}")
        return page

    def _form(self, response: Any) -> tuple[Page, Form]:
        """A page, and the form on it that goes on with the action. Raises ToolError."""
        page, by_person = self._page(response), self._asking.by_person
        found = [one for one in page.posted if {ACTION_CHECKBOX_NAME, "action"} & one.controls.keys()] or page.posted
        found = [one for one in found if one.buttons or any(one.seen)]
        if len(found) > 1:
            raise ToolError(f"The page of this action has several forms. {by_person}")
        if not found:
            made = ", unless JavaScript makes it, which does not run here" if page.has_script else ""
            said = self._plain(described.text_of(page))
            raise ToolError(" ".join(filter(None, [f"The page of this action has no form{made}.", said, by_person])))
        return page, found[0]

    def _slots(self, form: Form) -> Slots:
        slots = Slots(form, self._asking.made, self._run.rights, is_approved=self._is_approved)
        slots.check_writes()
        slots.check_kept(self._stored)
        return slots

    def _describe(self, page: Page, slots: Slots, number: int) -> JSON:
        told = [self._plain(line) for line in read_messages(self.request)[0]]
        found = {"status": "form", "page": number + 1, **described.describe(page, slots, self._plain)}
        return {**found, "messages": told} if told else found

    def _submit(self, slots: Slots, answer: Mapping[str, Any], place: str) -> Any:
        """Send a form with what the agent gives. Raises ToolError."""
        return self._send(*self._filled(slots, answer, place))

    def _filled(
        self, slots: Slots, answer: Mapping[str, Any], place: str, *, cleans: bool = False
    ) -> tuple[Mapping[str, list[str]], FormData, str]:
        """What is sent of a form with what the agent gives, and where. Raises ToolError.

        ``cleans``: each field of the form is asked whether it takes its value, as nobody sends it yet.
        """
        button = _button(slots.form, answer.get("button"), place)
        sent = {**slots.form.values, **slots.withheld()}
        data, wrong, doubtful = FormData(), [], []
        for name, value in answer.get("values", {}).items():
            slot, filled, at = slots.open.get(name), FormData(), f"{place}.values.{name[:_MAX_NAME]}"
            if slot is None:
                wrong.append(field_error(at, unknown_name("field", name, list(slots.open))))
                continue
            try:
                slot.fill(value, filled)
            except ValidationError as error:
                wrong.append(field_error(at, f"{'; '.join(error.messages)}."))
                continue
            if cleans and not slot.takes(filled):
                doubtful.append(name)
            data.files.update(filled.files)
            sent |= {one.name: [*one.hidden, *filled.values.get(one.name, ())] for one in slot.controls}
        if doubtful:
            whole = FormData()
            for name, values in sent.items():
                whole.add(name, *values)
            whole.files.update(data.files)
            wrong += [field_error(f"{place}.values.{name}", f"{why}.") for name, why in slots.refused(doubtful, whole)]
        if wrong:
            raise ToolError("Nothing was changed.", wrong)
        if button is not None and button.name:
            sent[button.name] = [*sent.get(button.name, ()), button.value]
        return sent, data, slots.form.action if button is None or button.action is None else button.action

    def _send(self, sent: Mapping[str, list[str]], data: FormData, url: str) -> Any:
        for name, values in sent.items():
            data.add(name, *values)
        return self._asking.send(url, data)

    def _check_accepted(self, sent: Slots, after: Slots, place: str) -> None:
        """Raises ToolError where the same form comes back with what is wrong."""
        if {one.name for one in after.form.seen} != {one.name for one in sent.form.seen}:
            return
        if wrong := described.errors(after, place, self._plain):
            raise ToolError("The page refuses these values. Nothing was changed.", wrong)

    def _plain(self, text: str) -> str:
        """A text of the page without what the agent may not read of the rows."""
        [line] = self._run.texts.named([text])
        return named(line, self._hidden)

    def _hidden_values(self) -> Iterator[str]:
        columns = self._run.rights.columns
        for row in self._stored:
            values = {one.name: str(vars(row).get(one.attname)) for one in row._meta.concrete_fields}
            read = {value for name, value in values.items() if name in columns}
            yield from (one for one in values.values() if len(one) >= _LEAST_HIDDEN and one not in {*read, "None"})


def _button(form: Form, given: str | None, place: str) -> Button | None:
    """The button that an agent presses: the only one, or the one that it names. Raises ToolError."""
    found = described.buttons(form)
    if given is None and len(found) < 2:
        return next(iter(found.values()), None)
    by_text = [one for one in found.values() if given in (one.label, one.value)]
    if given in found or len(by_text) == 1:
        return found[given] if given in found else by_text[0]
    why = f"must name one of {', '.join(found)}." if given is None else unknown_name("button", given, list(found))
    raise ToolError("Nothing was changed.", [field_error(f"{place}.button", why)])


def _is_json(response: Any) -> bool:
    """Whether it is for a script of the page, and no download."""
    if not isinstance(response, HttpResponse) or "Content-Disposition" in response.headers:
        return False
    return response.headers.get("Content-Type", "").partition(";")[0].strip().lower() == "application/json"
