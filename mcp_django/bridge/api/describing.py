"""Describes an operation for one user: what it is for, what it takes, and what it gives.

The view itself is asked, as it is for this user, and never run. What cannot be asked is left out and said in a note: a
call is never refused because its operation could not be described.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from django.forms import BaseForm
from django.http import HttpRequest

from mcp_django.bridge.api import field_schemas, formats, sources, spectacular, words
from mcp_django.bridge.api.answers import names_of, without_secrets
from mcp_django.bridge.api.operations import BY_SERIALIZER
from mcp_django.bridge.api.sources import Found, Names
from mcp_django.bridge.api.versions import asked_for
from mcp_django.bridge.api.views import asked, is_standard, lets_in, made_view, source_of
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.core.compat.rest_views import label_of
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation

#: Methods of views that answer requests.
_HANDLERS = frozenset({
    "list", "create", "retrieve", "update", "partial_update", "destroy", "get", "post", "put", "patch", "delete",
})  # fmt: skip
_MOST_WHAT_CHARS = 300
#: Names in the line of an operation.
_MOST_NAMES = 12
#: What is known of a name that the source reads.
_FROM_SOURCE = "any"


@dataclass(slots=True)
class Body:
    """What an operation takes as its body."""

    #: Name → what it takes.
    fields: dict[str, Any] = field(default_factory=dict)
    #: The names that its answer has and that cannot be given: sent back unchanged, they are harmless.
    read_only: frozenset[str] = frozenset()
    #: The JSON Schema of the serializer that reads it; None where none is known to.
    schema: JSON | None = None
    #: Whether any name may be given.
    is_open: bool = False
    #: Whether it is a list of such objects.
    is_list: bool = False
    #: Whether that serializer alone decides what is taken, so that a plan may ask it.
    is_checked: bool = False
    #: Whether the view reads it as a form, and finds nothing in JSON.
    is_form: bool = False


@dataclass(slots=True)
class Description:
    """What is known of an operation for one user."""

    operation: Operation
    what: str = ""
    path: dict[str, Any] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    #: Names in the query that say which page, and how long it is: an agent uses limit and cursor.
    pages: frozenset[str] = frozenset()
    #: The name by which a page is made longer; empty where there is none.
    size: str = ""
    #: Whether names that are not known may count.
    is_open: bool = False
    #: Names in the query that find rows by a secret → the secret.
    by_secret: dict[str, str] = field(default_factory=dict)
    #: Names in the query that say an order → the values that sort by a secret and are called otherwise.
    orders_by_secret: dict[str, frozenset[str]] = field(default_factory=dict)
    body: Body | None = None
    returns: Any = None
    notes: list[str] = field(default_factory=list)
    #: Whether its permission classes let the user in. An error counts as yes.
    is_allowed: bool = True

    def line(self) -> str:
        """The operation in one line: what it is for, and the names that it takes."""
        taken = [*self.path, *self.query, *(self.body.fields if self.body is not None else ())]
        shown = ", ".join(taken[:_MOST_NAMES]) + (", …" if len(taken) > _MOST_NAMES else "")
        tool = "" if self.operation.is_safe else "change_api. "
        return f"{tool}{self.what}{f' ({shown})' if shown else ''}".strip()

    def to_json(self) -> JSON:
        operation = self.operation
        found: JSON = {"operation": operation.name, "what": self.what}
        found["call_with"] = "call_api" if operation.is_safe else "change_api"
        if params := {**self.path, **_folded(self.query)}:
            found["params"] = params
        if self.body is not None and (self.body.fields or self.body.is_open):
            found["body"] = [self.body.fields] if self.body.is_list else self.body.fields
            if self.body.is_open:
                found["body"] = {**self.body.fields, "…": "any"}
        if self.returns:
            found["returns"] = self.returns
        if self.notes:
            found["notes"] = self.notes
        return found


def describe(operation: Operation, request: HttpRequest, kwargs: Mapping[str, Any]) -> Description:
    """Describe it for the user of a request of InnerCall, below the middleware."""
    found = Description(operation, what_of(operation))
    named = (operation.exposure.params or {}).get(operation.name, {})
    for name in asked_for(operation):
        converter = type(operation.route.converters.get(name)).__name__
        found.path[name] = words.OF_CONVERTERS.get(converter) or _key_words(operation, name)
        if name in operation.route.optional_names:
            found.path[name] += ", may be left out"
    if operation.native is not None:
        operation.native.describe(found, request, kwargs)
    elif operation.is_rest:
        view = asked(operation.name, lambda: made_view(operation, request, kwargs))
        if view is None:
            found.notes.append("What it takes could not be found out.")
            found.is_open, found.body = True, Body(is_open=True)
        else:
            _describe_view(found, view)
    else:
        found.is_open = True
        found.body = None if operation.is_safe else Body(is_open=True)
    _add_named(found, named)
    return found


def without_view(operation: Operation) -> Description:
    """What is known of an operation whose view could not be asked, since middleware has answered in its place."""
    found = Description(operation, what_of(operation), is_open=True)
    found.path = dict.fromkeys(asked_for(operation), "string")
    found.body = None if operation.is_safe else Body(is_open=True)
    found.notes.append("What else it takes could not be found out: the project's middleware did not let that through.")
    return found


def what_of(operation: Operation) -> str:
    """What the operation is for, in the words of its author."""
    if operation.what:
        return operation.what[:_MOST_WHAT_CHARS]
    cls = operation.view_class
    handler = getattr(cls, operation.handler, None) if cls is not None else operation.route.callback
    for one in (handler, cls):
        text = inspect.getdoc(one) if _is_own(one) else None
        if text:
            return _first_paragraph(text)
    return ""


def _first_paragraph(text: str) -> str:
    return " ".join(text.strip().partition("\n\n")[0].split())[:_MOST_WHAT_CHARS]


def _is_own(one: Any) -> bool:
    module = f"{getattr(one, '__module__', '')}."
    return bool(getattr(one, "__doc__", None)) and not module.startswith(("rest_framework.", "django.", "builtins."))


def _key_words(operation: Operation, name: str) -> str:
    model = operation.model
    if model is None:
        return "string"
    if "_" in name and name.rpartition("_")[2] in ("pk", "id"):
        return f"key of {name.rpartition('_')[0].replace('_', ' ')}"
    return f"key of {model._meta.verbose_name}" if name in ("pk", "id") else f"string, {name}"


def _describe_view(found: Description, view: Any) -> None:
    name = found.operation.name
    found.is_allowed = asked(name, lambda: lets_in(view), True)
    read = _read_by_source(found.operation, view)
    _describe_query(found, view, read.query)
    serializer = asked(name, lambda: _serializer(view), None)
    if not found.operation.is_safe:
        found.body = _body(found, view, serializer, read)
        _note_renaming_parser(found)
    returned = serializer if found.body is None or found.body.schema is not None else None
    if returned is not None and found.operation.method != "DELETE":
        found.returns = asked(name, lambda: _returns(found, returned))
        if renderer := formats.renaming_renderer(found.operation):
            found.notes.append(f"Its answer is written by {renderer}, which may give fields other names.")
    _overlay(found, view)


def _serializer(view: Any) -> Any:
    return view.get_serializer() if hasattr(view, "get_serializer") else None


def _returns(found: Description, serializer: Any) -> Any:
    named = found.operation.exposure.show_secrets
    return without_secrets(words.of_serializer(_child(serializer), is_given=False, shown=named), named)


def _child(serializer: Any) -> Any:
    """The serializer of one record, where it is of many."""
    return getattr(serializer, "child", serializer)


def _read_by_source(operation: Operation, view: Any) -> Found:
    """What the project's own code reads for this operation: its handler, its hooks, and the classes of the view."""
    cls = type(view)
    if (function := _function_of(cls, operation)) is not None:
        return sources.of_function(function)
    others = {one.__name__ for one in _extra_actions(cls)} | _HANDLERS
    if operation.handler in ("partial_update", "put"):
        others.discard("update")
    found = Found()
    found.add(sources.of_view(cls, operation.handler, frozenset(others)))
    serializer = asked(operation.name, view.get_serializer) if hasattr(view, "get_serializer") else None
    of_view = (*getattr(view, "permission_classes", ()), *getattr(view, "filter_backends", ()))
    found.add(sources.of_classes(type(serializer), getattr(view, "pagination_class", None), *of_view))
    return found


def _function_of(cls: type, operation: Operation) -> Any:
    """The function of which ``@api_view`` has made the class; None for another class."""
    handler = getattr(cls, operation.handler, None)
    if getattr(handler, "__module__", "") != "rest_framework.decorators" or not inspect.isfunction(handler):
        return None
    return next((one for one in inspect.getclosurevars(handler).nonlocals.values() if inspect.isfunction(one)), None)


def _extra_actions(cls: Any) -> Sequence[Any]:
    return cls.get_extra_actions() if hasattr(cls, "get_extra_actions") else ()


# The query.


def _describe_query(found: Description, view: Any, read: Names) -> None:
    from rest_framework.versioning import QueryParameterVersioning

    operation = found.operation
    lists = _is_list(view, operation)
    if lists:
        for backend in getattr(view, "filter_backends", ()):
            names = asked(operation.name, partial(_names_of_backend, backend, view, operation))
            if names is None:
                found.notes.append(f"What {backend.__name__} takes could not be found out.")
                found.is_open = True
            found.query.update(names or {})
            asked(operation.name, partial(_note_secrets, found, backend, view))
        paginator = asked(operation.name, lambda: view.paginator) if hasattr(view, "paginator") else None
        found.pages, found.size = _of_paginator(paginator)
    versioning: Any = getattr(view.request, "versioning_scheme", None)
    if isinstance(versioning, QueryParameterVersioning) and not operation.exposure.version:
        found.query[versioning.version_param] = "string, version"
    named, is_open = _of_source(operation, read)
    found.query |= {name: said for name, said in named.items() if name not in found.query and name not in found.pages}
    for name in list(found.query):
        if name in found.by_secret or is_secret_param(name, operation):
            del found.query[name]
    found.is_open |= is_open


def _note_secrets(found: Description, backend: Any, view: Any) -> None:
    """Note what finds or sorts rows by a field that is named like a secret, whatever it is called itself."""
    from rest_framework.filters import OrderingFilter, SearchFilter

    def is_secret(name: Any) -> bool:
        return is_secret_param(str(name), found.operation)

    made = backend()
    if isinstance(made, SearchFilter):
        by = next(filter(is_secret, made.get_search_fields(view, view.request) or ()), None)
        found.by_secret |= {} if by is None else {made.search_param: str(by)}
    elif isinstance(made, OrderingFilter):
        found.orders_by_secret[made.ordering_param] = frozenset()
    elif hasattr(made, "get_filterset_class"):
        cls = made.get_filterset_class(view, _queryset(view))
        for name, one in cls.base_filters.items() if cls is not None else ():
            if hasattr(one, "param_map"):
                names = frozenset(param for by, param in one.param_map.items() if is_secret(by))
                found.orders_by_secret[name] = names
            elif is_secret(one.field_name):
                of_ends = _of_filter(cls, name, deepcopy(one), view.request)
                found.by_secret |= {param: one.field_name for param, _ in of_ends}


def _of_source(operation: Operation, read: Names) -> tuple[dict[str, Any], bool]:
    """The names that the project's own code reads, with what they take; and whether others may count."""
    found: dict[str, Any] = {name: "file" if name in read.files else _FROM_SOURCE for name in sorted(read.names)}
    is_open = read.is_whole
    for one in read.readers:
        fields = asked(operation.name, partial(_taken_by, one))
        is_open |= fields is None
        found |= fields or {}
    return found, is_open


def _taken_by(reader: type) -> Mapping[str, Any] | None:
    """The fields of a class of serializers or forms; None where they do not say what it takes."""
    from rest_framework.serializers import Serializer

    if issubclass(reader, BaseForm):
        return {
            name: words.of_form_field(one)
            for name, one in getattr(reader, "base_fields", {}).items()
            if not is_secret_name(name)
        }
    if not issubclass(reader, Serializer) or field_schemas.reads_in_its_own_way(made := reader()):
        return None
    fields: Mapping[str, Any] = words.of_serializer(made, is_given=True)
    return fields


def is_secret_param(name: str, operation: Operation) -> bool:
    """Whether rows would be found by a secret, which could be guessed letter by letter."""
    secret = {part for part in name.strip("^=@$-").split("__") if is_secret_name(part)}
    return not secret <= {*operation.exposure.show_secrets} and name not in operation.exposure.show_secrets


def _is_list(view: Any, operation: Operation) -> bool:
    """Whether its filters and its paginator take part: of the standard list, and of actions that say so."""
    from rest_framework.mixins import ListModelMixin

    if not hasattr(view, "filter_backends") or operation.method != "GET":
        return False
    if operation.action == "list" or (isinstance(view, ListModelMixin) and operation.handler == "get"):
        return True
    text = source_of(getattr(type(view), operation.handler, None))
    return "filter_queryset" in text or "paginate_queryset" in text or "self.list(" in text


def _names_of_backend(backend: Any, view: Any, operation: Operation) -> dict[str, Any]:
    return dict(_of_backend(backend, view, operation))


def _of_backend(backend: Any, view: Any, operation: Operation) -> Iterator[tuple[str, Any]]:
    """The names that a filter backend takes, each with what it takes."""
    from rest_framework.filters import OrderingFilter, SearchFilter

    made = backend()
    if isinstance(made, SearchFilter):
        if searched := made.get_search_fields(view, view.request):
            yield made.search_param, f"string, in {', '.join(name.lstrip('^=@$') for name in searched)}"
    elif isinstance(made, OrderingFilter):
        if orders := [name for name, _ in _orders(made, view) if not is_secret_param(name, operation)]:
            yield made.ordering_param, f"{words.choices_of(orders)}; -name: descending, with commas between several"
    elif hasattr(made, "get_filterset_class"):
        cls = made.get_filterset_class(view, _queryset(view))
        for name, one in cls.base_filters.items() if cls is not None else ():
            yield from _of_filter(cls, name, deepcopy(one), view.request)
    elif hasattr(made, "get_schema_operation_parameters"):
        for one in made.get_schema_operation_parameters(view):
            if one.get("in", "query") == "query":
                said = str(one.get("description", "") or "")[:200]
                kind = words.of_schema(one.get("schema") or one, {})
                yield one["name"], ", ".join(filter(None, [kind, "required" if one.get("required") else "", said]))


def _orders(made: Any, view: Any) -> Any:
    queryset = _queryset(view)
    return made.get_valid_fields(queryset, view, {"request": view.request}) if queryset is not None else ()


def _queryset(view: Any) -> Any:
    """The rows of the view, without their filters. Nobody reads them."""
    found = asked("queryset", view.get_queryset)
    return getattr(view, "queryset", None) if found is None else found


def _of_filter(cls: Any, name: str, one: Any, request: Any) -> Iterator[tuple[str, str]]:
    """A filter of django-filter, of this description alone. One of two ends has a name for each."""
    import django_filters

    # Before its field is made, which gives it a label where it has none.
    label = str(one.extra.get("help_text") or "") or _own_label(one, name)
    # Their choices are values of rows.
    are_values = isinstance(one, django_filters.AllValuesFilter | django_filters.AllValuesMultipleFilter)
    form_field = None if are_values else asked(name, lambda: _form_field(cls, one, request))
    base = one.field_class
    if isinstance(one, django_filters.OrderingFilter):
        kind = words.choices_of(one.param_map.values()) + "; -name: descending"
    elif isinstance(one, django_filters.BaseInFilter | django_filters.BaseRangeFilter):
        kind = f"list of {words.of_schema(field_schemas.of_class(base))}, with commas"
    elif form_field is not None:
        kind = words.of_form_field(form_field)
    else:
        kind = words.of_schema(field_schemas.of_class(base))
    said = ", ".join(filter(None, [kind, "required" if one.extra.get("required") else "", label[:200]]))
    suffixes = getattr(getattr(form_field, "widget", None), "suffixes", None)
    for suffix in suffixes or [""]:
        yield f"{name}_{suffix}" if suffix else name, said


def _own_label(one: Any, name: str) -> str:
    """A label that the project has given, and not the name once more."""
    label = label_of(one)
    return "" if label.lower().replace(" ", "_") == name.lower() else label


def _form_field(cls: Any, one: Any, request: Any) -> Any:
    one.model = getattr(cls._meta, "model", None) or getattr(one, "model", None)
    one.parent = SimpleNamespace(request=request)
    return one.field


def _of_paginator(paginator: Any) -> tuple[frozenset[str], str]:
    if paginator is None:
        return frozenset(), ""
    size = getattr(paginator, "page_size_query_param", None) or getattr(paginator, "limit_query_param", None) or ""
    return frozenset(names_of(paginator)), size


# The body.


def _body(found: Description, view: Any, serializer: Any, read: Found) -> Body | None:
    operation = found.operation
    named, is_open = _of_source(operation, read.body)
    if operation.method == "DELETE":
        return Body(named, is_open=is_open) if named or is_open else None
    if not _uses_serializer(operation, view):
        return Body(named, is_open=is_open or not operation.actions, is_form=read.is_form)
    if serializer is None:
        return Body(is_open=True)
    inner = _child(serializer)
    fields = asked(operation.name, lambda: words.of_serializer(inner, is_given=True))
    if not isinstance(fields, dict):
        return Body(is_open=True)
    shown = operation.exposure.show_secrets
    every = getattr(inner, "fields", {})
    fields = {**fields, **{name: words.of_field(one, is_given=True) for name, one in every.items() if name in shown}}
    body = Body(
        {**fields, **{name: said for name, said in named.items() if name not in every}},
        read_only=frozenset(name for name, one in every.items() if one.read_only),
        is_open=is_open or field_schemas.reads_in_its_own_way(inner),
        is_list=inner is not serializer,
    )
    if operation.action in BY_SERIALIZER:
        schema = asked(operation.name, lambda: field_schemas.of_serializer(inner), {})
        body = replace(body, schema=schema, is_checked=is_standard(operation))
    return body


def _note_renaming_parser(found: Description) -> None:
    if found.body is not None and (name := formats.renaming_parser(found.operation)):
        found.body = replace(found.body, is_open=True)
        found.notes.append(f"Its body is read by {name}, which may give fields other names.")


def _uses_serializer(operation: Operation, view: Any) -> bool:
    """Whether the serializer of the view reads the body: a custom action inherits it, and may not use it."""
    if not hasattr(view, "get_serializer"):
        return False
    if operation.action in BY_SERIALIZER or "serializer_class" in operation.initkwargs:
        return True
    text = source_of(getattr(type(view), operation.handler, None))
    return any(one in text for one in ("get_serializer", "serializer_class", "super()", "self.create(", "self.update("))


# What the project says itself.


def _overlay(found: Description, view: Any) -> None:
    """What ``extend_schema`` of drf-spectacular declares."""
    operation = found.operation
    declared = asked(operation.name, lambda: spectacular.declared(view, operation.handler, operation.method))
    if declared is None:
        return
    if declared.what and not operation.what:
        found.what = _first_paragraph(declared.what)
    for one in declared.query:
        named = asked(operation.name, partial(_declared_params, one), {})
        found.query |= {name: said for name, said in named.items() if not is_secret_param(name, operation)}
    if found.body is not None and declared.takes is not None:
        named = asked(operation.name, lambda: words.of_serializer(_child(declared.takes), is_given=True), {})
        found.body = replace(found.body, fields={**named, **found.body.fields})
    if declared.returns is not None:
        found.returns = asked(operation.name, lambda: _returns(found, declared.returns), found.returns)


def _declared_params(one: Any) -> Mapping[str, Any]:
    """The names in the query of an OpenApiParameter, or of a serializer that stands for several."""
    if not hasattr(one, "location"):
        fields: Mapping[str, Any] = words.of_serializer(one() if isinstance(one, type) else one, is_given=True)
        return fields
    if one.location != "query" or one.exclude:
        return {}
    kind = words.choices_of(one.enum) if one.enum else words.of_schema(spectacular.of_type(one.type))
    said = [kind, "required" if one.required else "", str(one.description or "")[:200]]
    return {one.name: ", ".join(filter(None, said))}


def _add_named(found: Description, named: Mapping[str, str]) -> None:
    """What ``params=`` says: it describes a name, and lets one in that was not found."""
    for name, said in named.items():
        place = found.path if name in found.path else found.query
        if found.body is not None and name in found.body.fields:
            place = found.body.fields
        place[name] = said


# Writing.


def _folded(query: Mapping[str, Any]) -> dict[str, Any]:
    """The query with the lookups of one name together: ``number +: __in __icontains``."""
    found: dict[str, Any] = {}
    for name, said in query.items():
        base, lookup, rest = name.partition("__")
        if lookup and base in found:
            found[base] = f"{found[base]}{' ' if ' +: ' in found[base] else ' +: '}__{rest}"
        else:
            found[name] = said
    return found
