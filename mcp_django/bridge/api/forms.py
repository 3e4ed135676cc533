"""Views that show a form and take it: FormView, CreateView and UpdateView, each driven as a browser drives it.

The form is taken from the page, filled in with what is given, and sent: what is not named keeps what the form shows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.files.uploadedfile import UploadedFile
from django.db.models import Model, QuerySet
from django.forms import BaseForm, ChoiceField, DateTimeField, JSONField, SplitDateTimeField
from django.forms.fields import InvalidJSONInput
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import resolve_url
from django.utils.timezone import get_current_timezone
from django.views.generic.edit import ProcessFormView
from pydantic_core import from_json, to_json

from mcp_django.bridge.api import answers, sending, sources, words
from mcp_django.bridge.api.answers import Answer
from mcp_django.bridge.api.identity import Identity
from mcp_django.bridge.api.sending import Sent
from mcp_django.bridge.api.views import asked
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.bridge.writes.form_data import FormData, is_disabled
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.api.describing import Description
    from mcp_django.bridge.api.exposures import Exposure
    from mcp_django.bridge.api.operations import Operation
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

#: What an agent does with such a page.
SUBMIT = "submit"
_URLENCODED = "application/x-www-form-urlencoded"


class FormOperation:
    """What only a view with a form knows of its operation."""

    has_authentication = True
    content_type = _URLENCODED

    def identity(self, exposure: Exposure) -> Identity:
        return Identity.LOGIN

    def lets_in(self, request: HttpRequest) -> bool:
        """Its mixins say it once it is run."""
        return True

    def declared(self) -> JSON:
        """What the inventory has of it, in the place of what views of DRF declare."""
        return {"authentication": ["login"]}

    def describe(self, found: Description, request: HttpRequest, kwargs: Mapping[str, Any]) -> None:
        from mcp_django.bridge.api.describing import Body

        operation = found.operation
        form = asked(operation.name, lambda: _unfilled(operation, request, kwargs))
        read = sources.of_view(operation.view_class, "post", frozenset()).query
        found.query.update(dict.fromkeys(sorted(read.names), "any"))
        found.is_open |= read.is_whole
        if form is None:
            found.body = Body(is_open=True)
            found.notes.append("What its form takes could not be found out.")
            return
        fields = {name: one for name, one in form.fields.items() if not is_secret_name(name)}
        closed = frozenset(name for name in fields if is_disabled(form[name]))
        given = {name: _described(one) for name, one in fields.items() if name not in closed}
        found.body = Body(given, closed)

    def next_page(self, value: Any, sent: Mapping[str, Any]) -> None:
        return None

    def read(self, request: HttpRequest, response: HttpResponseBase, *, is_over: Callable[[], bool]) -> Answer:
        """As a person would read it: a redirect means that it was taken, and errors of the form that it was not."""
        if response.status_code in answers.REDIRECTS:
            return Answer(HTTPStatus.UNAUTHORIZED if _leads_to_login(response) else HTTPStatus.OK)
        form = _form_of(response)
        if form is not None and form.is_bound and form.errors:
            return Answer(HTTPStatus.BAD_REQUEST, _errors(form))
        answer = answers.read(request, response, is_over=is_over)
        if answer.is_done and answer.problem:
            return replace(answer, value=None, problem="It answers with a page.")
        return answer

    # Filling in.

    def shown(self, operation: Operation, request: MCPRequest, sent: Sent) -> tuple[Any, Mapping[str, Any] | None]:
        """The form of the page, or one that is not filled in where GET shows none, with what it shows, as JSON.

        None where it cannot be made. Raises ToolError where the page is refused.
        """
        found: list[tuple[Any, Mapping[str, Any]] | None] = []

        def read(request: HttpRequest, response: HttpResponseBase) -> Answer:
            form = _form_of(response)
            found.append(None if form is None else (form, _values(form)))
            return self.read(request, response, is_over=lambda: False)

        answer = sending.call(replace(operation, method="GET"), request, Sent(sent.path, sent.query), read)
        is_error = answer.status >= HTTPStatus.BAD_REQUEST and answer.status != HTTPStatus.METHOD_NOT_ALLOWED
        if found[0] is None and is_error:
            raise answers.refusal(operation, answer)
        if found[0] is not None:
            return found[0]
        unfilled = sending.look(operation, request, sent, lambda request: _unfilled_below(operation, request))
        return (None, None) if unfilled is None else unfilled

    def filled(
        self, operation: Operation, request: MCPRequest, sent: Sent, form: Any, given: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """What a browser would send of the form, with what is given: by the names of inputs."""
        if form is None:
            return given
        found: Mapping[str, Any] | None = sending.look(operation, request, sent, lambda request: _filled(form, given))
        return given if found is None else found

    # Asking.

    def ask(self, operation: Operation, request: HttpRequest, kwargs: Mapping[str, Any]) -> Answer | list[str]:
        """Whether the view takes what is sent, without what it does then. Returns what it answers, or notes."""
        cls = operation.view_class
        if not cls.post.__module__.startswith("django."):
            return ["Its view takes the form in a way of its own, and could not be asked."]
        view: Any = cls(**operation.initkwargs)
        view.setup(request, **kwargs)
        valid: list[bool] = []
        errors: list[Any] = []

        def take(form: Any) -> HttpResponse:
            valid.append(True)
            return HttpResponse()

        def refuse(form: Any) -> HttpResponse:
            errors.append(_errors(form))
            return HttpResponse()

        # Of this one view alone: its class stays as it is.
        view.form_valid, view.form_invalid = take, refuse
        try:
            response = view.dispatch(request, **kwargs)
        except Http404:
            return Answer(HTTPStatus.NOT_FOUND)
        except PermissionDenied as error:
            return Answer(HTTPStatus.FORBIDDEN, {"detail": str(error)})
        except Exception:
            logger.warning("The view of %s cannot be asked", operation.name, exc_info=True)
            return ["Its view could not be asked whether it takes this."]
        if errors:
            return Answer(HTTPStatus.BAD_REQUEST, errors[0])
        if valid:
            return []
        answer = self.read(request, response, is_over=lambda: False)
        if not answer.is_done:
            return answer
        return Answer(HTTPStatus.CONFLICT, {"detail": "The page takes no form of yours now."})


def _filled(form: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    data, files = FormData(get_current_timezone()), {}
    for name in form.fields:
        bound, value = form[name], given.get(name)
        if isinstance(value, UploadedFile):
            files[bound.html_name] = value
        else:
            data.write(bound, _as_initial(bound.field, value) if name in given else _shown_in(bound))
    return {**data.values, **files}


def _values(form: Any) -> Mapping[str, Any]:
    shown = {name: form[name].initial for name in form.fields if not is_secret_name(name)}
    return {name: from_json(to_json(value, fallback=_as_json)) for name, value in shown.items()}


def _as_json(value: Any) -> Any:
    """A record is told by its key, as a form takes it."""
    if isinstance(value, QuerySet):
        return [one.pk for one in value]
    return value.pk if isinstance(value, Model) else str(value)


def steady(form: Any, values: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Of the values that a form shows, those of a record or of a person: not what is made up for each page.

    A new record has no values yet but its defaults, and a function gives a moment.
    """
    instance = getattr(form, "instance", None)
    if values is None or (instance is not None and instance._state.adding):
        return None
    made_up = {name for name, field in form.fields.items() if callable(form.initial.get(name, field.initial))}
    return {name: one for name, one in values.items() if name not in made_up}


def _shown_in(bound: Any) -> Any:
    """What the page shows in a field: of a choice that is not among its options, nothing."""
    value = bound.initial
    if isinstance(bound.field, ChoiceField) and value not in bound.field.empty_values:
        try:
            bound.field.clean(bound.field.prepare_value(value))
        except ValidationError:
            return None
    return value


def _as_initial(field: Any, value: Any) -> Any:
    """A value that was given, as the field would have it as its initial one."""
    if isinstance(field, JSONField) and isinstance(value, str):
        with suppress(ValueError):
            return from_json(value)
        return InvalidJSONInput(value)
    if isinstance(field, SplitDateTimeField) and isinstance(value, str):
        with suppress(ValidationError):
            return DateTimeField().to_python(value)
    return value


def _unfilled_below(operation: Operation, request: Any) -> tuple[Any, Mapping[str, Any]] | None:
    form = asked(operation.name, lambda: _unfilled(operation, request, request.resolver_match.kwargs))
    return None if form is None else (form, _values(form))


def _unfilled(operation: Operation, request: HttpRequest, kwargs: Mapping[str, Any]) -> Any:
    """The form of the view, whatever it shows: for its fields."""
    view: Any = operation.view_class(**operation.initkwargs)
    view.setup(request, **kwargs)
    view.object = None
    made = asked(operation.name, view.get_form)
    return view.get_form_class()() if made is None else made


def _form_of(response: HttpResponseBase) -> Any:
    """The form in the context of a page, whatever it is called there."""
    context: Any = getattr(response, "context_data", None) or {}
    forms = [context.get("form"), *context.values()]
    return next((one for one in forms if isinstance(one, BaseForm)), None)


def _errors(form: Any) -> Mapping[str, Any]:
    return {name: [str(text) for text in texts] for name, texts in form.errors.items()}


def _described(field: Any) -> str:
    said = [words.of_form_field(field), "required" if field.required else "", str(field.help_text or "").strip()[:200]]
    return ", ".join(filter(None, said))


def _leads_to_login(response: HttpResponseBase) -> bool:
    return urlsplit(response.get("Location", "")).path == urlsplit(resolve_url(settings.LOGIN_URL)).path


def of_route(base: Operation) -> Iterator[Operation]:
    """The operation of a view with a form; none of another view."""
    if isinstance(base.view_class, type) and issubclass(base.view_class, ProcessFormView):
        yield replace(base, method="POST", handler="post", action=SUBMIT, native=FormOperation())
