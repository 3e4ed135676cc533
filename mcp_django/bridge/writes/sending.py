"""Sends the forms of rows: each in a single pass of the admin's view, or with its page opened first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.http import Http404

from mcp_django.bridge.resources.fields.errors import InvalidQuery, Mistakes
from mcp_django.bridge.writes import access, filling, form_errors, pages, single_pass, states, values
from mcp_django.bridge.writes.fields import add_inline
from mcp_django.bridge.writes.form_errors import refusals
from mcp_django.bridge.writes.late_data import TooEarly
from mcp_django.bridge.writes.opening import GivenRow, Opened, WhenFilled, open_and_read, open_form
from mcp_django.bridge.writes.pages import FormPage, Refused
from mcp_django.bridge.writes.restoring import LostPrecision
from mcp_django.bridge.writes.single_pass import Filling
from mcp_django.bridge.writes.twin import ViewRun, twin_of
from mcp_django.core.compat.admin import key_for_url, key_in_url
from mcp_django.exceptions import ToolError
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableInline
    from mcp_django.bridge.writes.filling import Given
    from mcp_django.bridge.writes.pages import Sent
    from mcp_django.bridge.writes.states import State


@dataclass
class SentRow:
    """What came of sending the form of one row, or of a new one."""

    #: The key of the row; None for a new one that is not saved.
    key: Any
    opened: Opened
    sent: Sent
    #: The state that the form leads to, as far as it is known before it is saved.
    planned: State
    #: ``{"field", "note"}`` of each value that the form reads differently.
    adjusted: list[JSON]

    @property
    def before(self) -> State | None:
        """The state before; None for a new row."""
        return self.opened.before

    def after(self) -> State:
        """The state that is stored, read anew; the planned one where the admin shows the row no more."""
        try:
            with refusals(self.opened.main.rights, [self.key]):
                return self._shown() or self.planned
        except (ToolError, Http404):
            return self.planned

    def _shown(self) -> State | None:
        rights, run = self.opened.main.rights, self.sent.run
        admin = access.admin_of(rights)
        if self.before is None or not single_pass.is_possible(admin) or len(run.made_with) != len(run.formsets):
            # The page of a new row is another one than that of a row that is there.
            page, _, inlines = open_form(rights, self.key)
            return states.of_page(page, inlines)
        request = pages.request_for(admin, rights.rights.request, "GET", *pages.page_name(self.key))
        twin = twin_of(admin, ViewRun(writes=False))
        obj = twin.get_object(request, key_in_url(key_for_url(self.key)))
        if obj is None or not twin.has_view_or_change_permission(request, obj):
            return None
        page = FormPage(type(run.form)(instance=obj), self.opened.page.names)
        found: dict[str, WritableInline] = {}
        for formset, made_with, inline in zip(run.formsets, run.made_with, run.inlines, strict=True):
            if run.filling is None or run.filling.shown_inlines:
                again = single_pass.unbound(type(formset), made_with, obj)
                add_inline(found, single_pass.inline_as_shown(twin, request, obj, again, inline), rights)
        return states.of_page(page, found)


class RowSender:
    """Sends the form of one row after another of a model. What does not depend on the row is asked once."""

    def __init__(self, model: ModelRights, *, leaves_out: bool) -> None:
        """``leaves_out``: rows of inlines are no part of what is told of a row for which none is given.

        Then formsets are left out, where nothing of the project would notice.
        """
        self._admin = access.admin_of(model)
        self._is_single = single_pass.is_possible(self._admin)
        self._leaves_out = leaves_out and single_pass.can_leave_out(self._admin)
        self._checked: set[str] = set()

    def send(self, row: GivenRow, run: ViewRun, when_filled: WhenFilled = lambda opened: None) -> SentRow:
        """Send the form of a row, or of a new one, with what is given for it.

        ``run``: a new one, which says whether the view writes. Where it does, a transaction must be open, which an
        error has to roll back. Where it does not, what ``when_filled`` writes is rolled back too.

        Raises InvalidQuery and ToolError, both with the errors of each field, and what code of the project raises.
        """
        if self._is_single:
            try:
                return self._send(row, run, when_filled)
            except TooEarly:
                self._is_single = False
                run = ViewRun(writes=run.writes, by=run.by)
        return send_opened(row, open_and_read(row), run, when_filled)

    def _send(self, row: GivenRow, run: ViewRun, when_filled: WhenFilled) -> SentRow:
        page = pages.page_name(row.key)
        asked = pages.request_for(self._admin, row.rights.rights.request, "POST", *page)
        filled = run.filling = Filling(row, when_filled, leaves_out=self._leaves_out)
        filled.late.give_to(asked)
        run.when_valid = lambda: _plan(run, filled.shown_inlines)
        with refusals(row.rights, [row.key]):
            if page[0] not in self._checked:
                pages.check_has_page(self._admin, page[0], asked)
                self._checked.add(page[0])
            sent = pages.sent(twin_of(self._admin, run), asked, row.key)
            return _checked(row.key, filled.opened, sent)


def send_opened(row: GivenRow, opened: Opened, run: ViewRun, when_filled: WhenFilled = lambda opened: None) -> SentRow:
    """Send a page that was opened before. Raises InvalidQuery and ToolError."""
    when_filled(opened)
    filling.check_room(opened.inlines, opened.given)
    run.when_valid = lambda: _plan(run, opened.inlines)
    run.lost_precision = LostPrecision(opened.given)
    data = filling.fill(opened.page, opened.inlines, opened.given)
    with refusals(row.rights, [row.key]):
        sent = pages.send(access.admin_of(row.rights), row.rights.rights.request, data, run, row.key)
        return _checked(row.key, opened, sent)


def _plan(run: ViewRun, inlines: Mapping[str, WritableInline]) -> None:
    run.planned = states.of_run(run, inlines)


def _checked(key: Any, opened: Opened, sent: Sent) -> SentRow:
    """Raises Refused, and ToolError with what the form does not accept."""
    if sent.page is not None:
        errors = form_errors.errors_of(opened.given, sent.page, opened.inlines)
        raise ToolError("The form of the admin does not accept this. Nothing was changed.", errors)
    run = sent.run
    if run.planned is None:
        raise Refused(None, sent.request)
    if key is None and run.obj is not None:
        key = run.obj.pk
    return SentRow(key, opened, sent, run.planned, _adjustments(opened.given, run))


def _adjustments(given: Given, run: ViewRun) -> list[JSON]:
    """``{"field", "note"}`` of each value that the forms read differently. Raises ToolError for what is lost."""
    mistakes, found = Mistakes(), list[JSON]()
    forms = {str(form.prefix): form for formset in run.formsets for form in formset.forms}
    for one in given.forms:
        form = run.form if one.index is None else forms.get(str(one.form.form.prefix))
        for name, value in one.values.items() if form is not None else ():
            with mistakes:
                found += _adjusted(f"{one.place}.{name}", one.form.fields[name], form, value)
    if mistakes.errors:
        raise ToolError("The form of the admin would store something else. Nothing was changed.", mistakes.errors)
    return found


def _adjusted(place: str, known: Any, form: Any, value: Any) -> Iterator[JSON]:
    try:
        said = values.adjustment(replace(known, bound=form[known.name]), value)
    except ValidationError as error:
        raise InvalidQuery.one(place, f"{error.messages[0]}.") from None
    if said is not None:
        yield {"field": place, "note": said}
