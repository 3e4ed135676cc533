"""An operation that changes data, as an agent proposes it: checked as far as that writes nothing, then sent once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.http.response import HttpResponseBase

from mcp_django.access.permissions import has_scope
from mcp_django.bridge.api import answers, bodies, calling, forms, readings, sending
from mcp_django.bridge.api.answers import Answer
from mcp_django.bridge.api.forms import FormOperation
from mcp_django.bridge.api.readings import Reading
from mcp_django.bridge.api.routes import NoPath
from mcp_django.bridge.api.sending import Sent
from mcp_django.bridge.api.views import (
    NOT_TRIED,
    around_view,
    has_own_throttle,
    is_standard,
    nothing,
    source_of,
    until_handler,
)
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import EndUnknown, NotMade, Proposed
from mcp_django.bridge.declared.consent import Considered, Needs, needs_of
from mcp_django.core.db.rolling_back import rolled_back
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import READ, of_api
from mcp_django.models import Change
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.api.describing import Description
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.resources.policy.policy import Rights
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

_OF_OBJECTS = ("update", "partial_update", "destroy")
_UNCHECKED = "Its view could not be asked whether it takes this."
_NOT_KNOWN = "Whether it takes these values shows when it is called: its code reads them in its own way."
#: Keys in the trail.
_FIELDS, _STATUS = "fields", "status"


@dataclass
class ProposedOperation(Proposed):
    """An operation with what is sent to it. Nobody knows what it writes, so it runs in no transaction of ours."""

    kind = Change.Kind.API
    operation = label = using = ""

    exchange: Exchange
    description: Description
    #: ``{"operation", "params", "body"}``, as they were given.
    arguments: JSON
    sent: Sent
    #: What the same URL shows now.
    reading: Reading
    #: What an agent is told beside the preview.
    notes: list[str]

    @property
    def called(self) -> Operation:
        return self.description.operation

    @property
    def needed_scope(self) -> str:
        return self.called.scope

    @property
    def keys(self) -> Sequence[Any]:
        return list(self.sent.path.values())[-1:]

    @property
    def row_count(self) -> int:
        return 1

    @cached_property
    def declared(self) -> Needs:
        return needs_of(self.called.consent, self.called.usual_consent, self._considered)

    def _considered(self) -> Iterator[Considered]:
        principal, body = self.exchange.principal, self.arguments.get("body")
        before = self._record or {}
        after = body if isinstance(body, Mapping) else {}
        yield Considered(self.called.action, 1, before, after, principal.user, principal.lineage)

    @cached_property
    def state(self) -> JSON:  # type: ignore[override]
        """What is shown of the record, and the headers that choose it: if they differ by the time at which it is
        confirmed, nothing is sent."""
        is_known = bool(self._diff) and all("before" in one for one in self._diff)
        # What an operation does to a record, and fields that are called otherwise there, may depend on all of it.
        shown = {"before": [one["before"] for one in self._diff]} if is_known else {"record": self.reading.compared}
        headers = sending.passed(self.called, self.exchange.request)
        return {**shown, "headers": headers} if headers else shown

    @cached_property
    def _diff(self) -> Sequence[JSON]:
        """What is given, beside what is there now; nothing for a body that is no object."""
        body = self.arguments.get("body")
        if not isinstance(body, Mapping):
            return ()
        if not self._has_before:
            return [{"field": name, "after": value} for name, value in body.items()]
        record, compared, taken = self._record or {}, self.reading.compared or {}, self.description.body
        ignored = self.reading.moving & taken.read_only if taken is not None else ()
        return [
            {"field": name, **({"before": compared[name]} if name in compared else {}), "after": value}
            for name, value in body.items()
            if name not in ignored and not (name in record and record[name] == value)
        ]

    @property
    def _record(self) -> Mapping[str, Any] | None:
        return self.reading.record if isinstance(self.reading.record, Mapping) else None

    @property
    def _has_before(self) -> bool:
        return self.called.method in ("PUT", "PATCH") or isinstance(self.called.native, FormOperation)

    @property
    def _line(self) -> str:
        """``PATCH /api/orders/3/``"""
        query = sending.query_of(self.called, self.sent)
        return f"{self.called.method} {self.called.route.path(sending.path_of(self.called, self.sent))}{query}"

    @property
    def _title(self) -> str:
        return f"{self.called.name}: {self._line}"

    @property
    def parts(self) -> Sequence[Effect]:
        return [Effect("run", "", title=self._title)]

    @property
    def effects(self) -> Sequence[Effect]:
        shown = self._diff or [{"field": name, "after": value} for name, value in self._given()]
        return [Effect("run", "", diff=list(shown), title=self._title)]

    def _given(self) -> Iterator[tuple[str, Any]]:
        """What people are shown where there is nothing to compare: the list that is sent, or what is deleted."""
        if isinstance(self.arguments.get("body"), list):
            yield "body", self.arguments["body"]
        elif self.called.method == "DELETE" and self._record is not None:
            yield from self.reading.compared.items()

    def may_be_done_by(self, rights: Rights) -> bool:
        """Whether the API would let this person call the operation, on the same record."""
        try:
            return _UNCHECKED not in ask(self.description, rights.request, self.sent, validates=False)
        except ToolError:
            return False

    def is_shown_to(self, rights: Rights) -> bool:
        """Whoever may not call the operation may not know what it shows."""
        return self.may_be_done_by(rights)

    def preview(self) -> JSON:
        shown: JSON = {"status": "plan", "operation": self.called.name, "request": self._line}
        if self._diff:
            shown["diff"] = list(self._diff)
        elif (body := self.arguments.get("body")) is not None:
            shown["sends"] = body
        elif self._record is not None:
            shown["record"] = self._record
        notes = list(self.notes)
        if self.called.is_tried:
            shown["would_answer"] = self._try()
            notes.append("It was run for this and rolled back; what it did beside its rows, such as mail, was not.")
        return {**shown, "notes": notes} if notes else shown

    def _try(self) -> JSON:
        """What the operation answers in a run that is rolled back. Raises ToolError where that is an error."""
        with rolled_back():
            answer = calling.call(self.exchange, self.called, self.sent)
        if not answer.is_done:
            raise answers.refusal(self.called, answer)
        return _shown(self.called, answer)

    def summary(self, *, values: bool) -> Sequence[Line]:
        return lines_of((one, None) for one in (self.effects if values else self.parts))

    def apply(self, by: str) -> JSON:
        exchange, operation = self.exchange, self.called
        model = operation.model
        exchange.usage.change(model._meta.label_lower if model is not None else "", self.keys)
        answer = calling.call(exchange, operation, self.sent)
        body = self.arguments.get("body")
        exchange.usage.values |= {_STATUS: answer.status}
        if isinstance(body, Mapping):
            exchange.usage.values[_FIELDS] = sorted(body)[:20]
        if answer.status >= 500:
            raise EndUnknown(
                f"{operation.name} failed (status {answer.status}), and nobody knows what it has done before. Look at "
                "what it was to change before you call it again.", reason="TOOL_ERROR",
            )  # fmt: skip
        is_moved = answer.status in answers.REDIRECTS
        if not (answer.is_done or is_moved):
            refused = answers.refusal(operation, answer)
            raise NotMade(refused.message, refused.errors, reason=refused.reason)
        exchange.usage.is_done = True
        return {"operation": operation.name, "answered": answer.status, **_shown(operation, answer)}


def _shown(operation: Operation, answer: Answer) -> JSON:
    """What the operation has answered, as far as it can be shown."""
    if isinstance(operation.native, FormOperation) and not answer.problem:
        return {}
    if not answer.is_done or answer.problem:
        return {"notes": [f"Its answer is not shown. {answer.problem}"]}
    return answers.result(operation, answer, {}, {}) if answer.value is not None else {}


# Proposing.


def propose(exchange: Exchange, operation: Operation, arguments: JSON) -> ProposedOperation:
    """Read what is to be sent, and ask the view whether it takes it. Raises ToolError."""
    request, given = exchange.request, arguments.get("body")
    params = arguments.get("params", {})
    description = calling.described(request, operation, params)
    sent = calling.sent_by(description, params, {}, None)
    form = None
    if isinstance(operation.native, FormOperation):
        form, values = operation.native.shown(operation, request, sent)
        may_read = has_scope(request, of_api(operation.resource, READ))
        reading = Reading(values, forms.steady(form, values)) if may_read else Reading()
        given = given or {}
    else:
        reading = readings.read(exchange, operation, sent)
    notes = list(reading.notes)
    try:
        notes += bodies.checked(description, given, reading)
    except ToolError:
        # Whoever may not call it learns that first.
        if operation.is_rest:
            ask(description, request, sent, validates=False)
        raise
    body = bodies.with_files(exchange, description, given)
    if isinstance(operation.native, FormOperation):
        body = operation.native.filled(operation, request, sent, form, body)
    sent = Sent(sent.path, sent.query, body, is_form=description.body is not None and description.body.is_form)
    notes += ask(description, request, sent)
    if operation.is_rest and sent.body is not None and not (description.body and description.body.is_checked):
        notes.append(_NOT_KNOWN)
    what = {"operation": operation.name, "params": params, **({} if given is None else {"body": given})}
    return ProposedOperation(exchange, description, what, sent, reading, notes)


# Asking the view.


def ask(description: Description, request: MCPRequest, sent: Sent, *, validates: bool = True) -> list[str]:
    """Ask the view whether it would take the call. Returns what to note.

    Raises ToolError as the call itself would be refused: by a permission, for a record that is not there, and for
    values that the serializer of a standard operation does not take. What is around the view refuses too. Where that
    cannot be asked without the view, that is noted, and nothing is asked.
    """
    operation = description.operation
    found: list[Answer | list[str]] = []
    view = _asking(description, found, validates=validates)
    if view is None:
        return [_UNCHECKED]
    try:
        answer = sending.ask(operation, request, sent, view, partial(answers.read, is_over=lambda: False))
    except NoPath as error:
        raise calling.no_path(operation, error) from None
    said = found[0] if found else answer
    if isinstance(said, list):
        return said
    if said.is_done:
        return [_UNCHECKED]
    raise answers.refusal(operation, said)


def _asking(
    description: Description, found: list[Answer | list[str]], *, validates: bool
) -> Callable[..., HttpResponseBase] | None:
    """A view that stands for the one of the operation, and notes what that says: notes, or how it refuses."""
    operation = description.operation

    def view(request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        found.append([] if operation.native is None else operation.native.ask(operation, request, kwargs))
        return nothing()

    if operation.is_rest:
        return until_handler(operation, partial(_note, description, found, validates=validates))
    return around_view(operation, view) if isinstance(operation.native, FormOperation) else view


def _note(description: Description, found: list[Answer | list[str]], view: Any, *, validates: bool) -> None:
    """Note what the view says; an error that it answers itself is raised."""
    from rest_framework.exceptions import APIException

    try:
        notes = _validate(description, view, validates=validates)
    except (APIException, Http404, PermissionDenied):
        raise
    except (Exception, SystemExit):
        logger.warning("The view of %s cannot be asked", description.operation.name, exc_info=True)
        notes = [_UNCHECKED]
    found.append(notes)


def _validate(description: Description, view: Any, *, validates: bool) -> list[str]:
    """Get the object, and let the serializer of a standard operation read the body. Raises what the view would."""
    operation = description.operation
    instance = None
    if hasattr(view, "get_object") and _gets_object(operation):
        instance = view.get_object()
    if not (validates and description.body is not None and description.body.is_checked):
        return []
    if has_own_throttle(operation):
        return [NOT_TRIED]
    known = {} if instance is None else {"instance": instance, "partial": operation.method == "PATCH"}
    view.get_serializer(data=view.request.data, **known).is_valid(raise_exception=True)
    return []


def _gets_object(operation: Operation) -> bool:
    """Whether it works on the object of its URL, as the standard ones do; of the project's own, the source says so."""
    if operation.action in _OF_OBJECTS and is_standard(operation):
        return True
    return "self.get_object(" in source_of(getattr(operation.view_class, operation.handler))
