"""Each ModelMCP: the names that it declares, its rows, its order, and what it may show."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from sysconfig import get_path
from typing import Any

from django.contrib.admin import ModelAdmin
from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.base import ModelBase

from mcp_django.bridge.declared.admin_form import is_record_field
from mcp_django.bridge.declared.options import ModelMCP, row_hook
from mcp_django.bridge.declared.secrets import is_named_as_secret
from mcp_django.bridge.declared.spelling import stray_values
from mcp_django.bridge.resources.fields.field_kinds import kind_of
from mcp_django.bridge.resources.fields.indexes import index_for, is_indexed, own_columns
from mcp_django.bridge.resources.reading.list_filters import PREFIX as LIST_FILTER
from mcp_django.bridge.writes.checks import check_model as check_writes
from mcp_django.conf import get_conf
from mcp_django.content import write_annotations
from mcp_django.protocol.unknown_names import nearest

#: Models that one warning names.
_MOST_NAMED = 5


def check_model(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    """What is wrong with one ModelMCP."""
    if isinstance(model_mcp.opts.pk, models.CompositePrimaryKey):
        text = f"{model_mcp.label} has a composite primary key, which has no URI yet"
        if model_mcp.bridged:
            yield _left_out(text, "There is no cure yet;")
        else:
            yield Error(f"{text}.", hint="Do not register it with mcp_django.", id="mcp_django.E004")
        return
    if not model_mcp.bridged and model_mcp.fields is None and model_mcp.model_admin is None:
        yield Error(
            f"{type(model_mcp).__name__} names no fields, and {model_mcp.label} has no ModelAdmin to take them from.",
            hint='Set fields = [...], or fields = "__all__" for all fields that are not secrets.',
            id="mcp_django.E005",
        )
    primary_key = model_mcp.opts.pk
    if kind_of(primary_key, named=model_mcp.names(primary_key)) is None or model_mcp.hides(primary_key):
        text = f"The primary key of {model_mcp.label} cannot be read"
        if model_mcp.bridged:
            cure = (
                f"Name {primary_key.name} in extra_fields of a ModelMCP, or its class in MCP['FIELD_KINDS'], if agents"
            )
            yield _left_out(text, f"{cure} may read it; otherwise")
        else:
            yield Error(
                f"{text}, so no agent can see the model.",
                hint=f"Name {primary_key.name} in fields if agents may read it; otherwise leave the model out.",
                id="mcp_django.E007",
            )
    yield from _check_values(model_mcp)
    yield from _check_record(model_mcp)
    yield from _check_secrets(model_mcp)
    yield from _check_rows(model_mcp)
    yield from check_writes(model_mcp)
    if model_mcp.fields is not None and model_mcp.extra_fields:
        yield Error(
            f"{type(model_mcp).__name__} has fields and extra_fields: the first names all that is shown of "
            f"{model_mcp.label}, the second what is shown beside its ModelAdmin's.",
            hint="Set one of them.",
            id="mcp_django.E015",
        )
    for attribute, is_known in _NAMES:
        declared = getattr(model_mcp, attribute)
        for name in () if declared in (None, "__all__") else declared:
            if not is_known(model_mcp, name):
                allowed = [field.name for field in model_mcp.opts.concrete_fields]
                yield Error(
                    f"{type(model_mcp).__name__}.{attribute} names {name!r}, which is no column of {model_mcp.label}.",
                    hint=nearest(name, allowed).strip() or f"Columns: {', '.join(allowed)}.",
                    id="mcp_django.E006",
                )


def _check_values(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    cls = type(model_mcp)
    for name in stray_values(model_mcp.model, cls):
        yield Warning(
            f"{cls.__name__}.{name} is no option of a ModelMCP, so mcp_django does not read it.",
            hint=f"Correct or remove it. If the name is your own, annotate it, as {name}: Any.",
            id="mcp_django.W031",
        )


def _check_record(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    """Check how one record is described: its serializer, its last change and its annotations."""
    name, cls = type(model_mcp).__name__, model_mcp.serializer_class
    if cls is not None and not _is_serializer_of(model_mcp.model, cls):
        yield Error(
            f"{name}.serializer_class is {cls!r}, which is no serializer of {model_mcp.label}: no record can be read.",
            hint="Name a subclass of rest_framework.serializers.Serializer; a ModelSerializer has the model in Meta.",
            id="mcp_django.E009",
        )
    field = model_mcp.last_modified_field
    if field is not None and not _is_datetime(model_mcp.model, field):
        moments = [item.name for item in model_mcp.opts.concrete_fields if isinstance(item, models.DateTimeField)]
        yield Error(
            f"{name}.last_modified_field names {field!r}, which is no DateTimeField of {model_mcp.label}.",
            hint=f"DateTimeFields: {', '.join(moments) or 'none'}.",
            id="mcp_django.E010",
        )
    elif field is not None and model_mcp.opts.managed and not is_indexed(model_mcp.model, [f"-{field}"]):
        yield Warning(
            f"No index of {model_mcp.label} begins with {field!r}: clients cannot see when the collection last "
            "changed, since finding that out would read the whole table.",
            hint=f'Add models.Index(fields=["{field}"], name=...) to Meta.indexes.',
            id="mcp_django.W009",
        )
    try:
        write_annotations(**model_mcp.annotations, last_modified=None)
    except (TypeError, ValueError) as error:
        yield Error(
            f"{name}.annotations cannot be sent to clients: {error}",
            hint='Only "audience" and "priority" are allowed.',
            id="mcp_django.E011",
        )


def _is_serializer_of(model: type[models.Model], cls: Any) -> bool:
    from rest_framework.serializers import ModelSerializer, Serializer  # They bring the database drivers with them.

    if not isinstance(cls, type) or not issubclass(cls, Serializer):
        return False
    of = getattr(getattr(cls, "Meta", None), "model", None)
    # A row is also a row of each parent of its model, and of its proxies.
    if not isinstance(of, ModelBase):
        return not issubclass(cls, ModelSerializer)
    return issubclass(model, of._meta.concrete_model)  # type: ignore[attr-defined]


def _is_datetime(model: type[models.Model], name: str) -> bool:
    return _is_concrete(model, name) and isinstance(model._meta.get_field(name), models.DateTimeField)


def _left_out(problem: str, cure: str) -> CheckMessage:
    """The warning about a model of the admin that agents cannot see. It is no error: a package may own the model."""
    return Warning(
        f"{problem}, so agents do not see the model, which the admin shows.",
        hint=f"{cure} add 'mcp_django.W014' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W014",
    )


def _check_secrets(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    for field in model_mcp.opts.concrete_fields:
        if is_named_as_secret(field) and model_mcp.names(field) and field.name not in model_mcp.exclude:
            attribute = "extra_fields" if model_mcp.fields is None else "fields"
            yield Warning(
                f"{type(model_mcp).__name__}.{attribute} names {field.name!r} of {model_mcp.label}, which looks like a "
                "secret: agents may read it.",
                hint="Leave it out. If it is not a secret, add 'mcp_django.W005' to SILENCED_SYSTEM_CHECKS.",
                id="mcp_django.W005",
            )


def _check_rows(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    tenant_fields = get_conf().TENANT_FIELDS
    owners = [field for field in model_mcp.opts.concrete_fields if {field.name, field.attname} & {*tenant_fields}]
    if owners and not row_hook(model_mcp):
        yield Warning(
            f"{model_mcp.label} has the field {owners[0].name!r} of MCP['TENANT_FIELDS'], and every user who may view "
            "the model can read all of its rows.",
            hint="Override get_queryset(request) in its ModelMCP or ModelAdmin. If something else keeps the tenants "
            "apart, add 'mcp_django.W006' to SILENCED_SYSTEM_CHECKS.",
            id="mcp_django.W006",
        )


def check_orderings(found: Iterable[ModelMCP]) -> Iterator[CheckMessage]:
    """One warning of all models whose order no index answers, where the project can do something about it."""
    unanswered = {
        f"{one.label} ({', '.join(order)})": (one.model, order) for one in found if (order := _unanswered(one))
    }
    if not unanswered:
        return
    names = sorted(unanswered)
    named = ", ".join(names[:_MOST_NAMED]) + (f" and {len(names) - _MOST_NAMED} more" if names[_MOST_NAMED:] else "")
    columns = ", ".join(f'"{name}"' for name in index_for(*unanswered[names[0]]))
    yield Warning(
        f"No index begins with the order of {named}: to find the first rows, the database sorts the whole table.",
        hint=f"This does not matter for small tables. Otherwise add models.Index(fields=[{columns}], name=...) to "
        "Meta.indexes, or set ordering in a ModelMCP to columns that have one. If all such tables are small, add "
        "'mcp_django.W007' to SILENCED_SYSTEM_CHECKS.",
        id="mcp_django.W007",
    )


def _unanswered(model_mcp: ModelMCP) -> Sequence[str]:
    """The order of a model's rows, if no index begins with it."""
    model = model_mcp.model
    declared = _declared_ordering(model_mcp)
    if not isinstance(declared, list | tuple):
        return ()  # Django's own check says so.
    ordering = own_columns(model, declared)
    # An order through another table has no index, and the indexes of a table that Django does not make are unknown.
    leads_away = any(isinstance(item, str) and "__" in item for item in declared)
    if leads_away or not model_mcp.opts.managed or is_indexed(model, ordering) or _is_of_package(model):
        return ()
    return ordering


def _is_of_package(model: type[models.Model]) -> bool:
    """Whether the model's app is an installed package, whose indexes the project's developer cannot change."""
    folder = Path(model._meta.app_config.path)
    return any(folder.is_relative_to(get_path(name)) for name in ("purelib", "platlib"))


def _declared_ordering(model_mcp: ModelMCP) -> Sequence[Any]:
    """The order of the rows where the agent names none. Empty where a hook decides it for each request."""
    if type(model_mcp).get_ordering is not ModelMCP.get_ordering:
        return ()
    if model_mcp.ordering is not None:
        return model_mcp.ordering
    admin = model_mcp.model_admin
    if admin is not None and type(admin).get_ordering is not ModelAdmin.get_ordering:
        return ()
    return (admin.ordering if admin is not None else None) or model_mcp.opts.ordering or ()


def _can_be_shown(model_mcp: ModelMCP, name: str) -> bool:
    """Whether the name is that of a field, or of a method or property of a row."""
    if _field_of(model_mcp.model, name) is not None:
        return is_record_field(model_mcp.model, name)
    own = hasattr(type(model_mcp), name) and not hasattr(ModelMCP, name)
    return own or any(hasattr(owner, name) for owner in (model_mcp.model, model_mcp.model_admin) if owner is not None)


def _can_be_hidden(model_mcp: ModelMCP, name: str) -> bool:
    """Whether the name is that of something shown, or of a relation that leads to other rows."""
    return _field_of(model_mcp.model, name) is not None or _can_be_shown(model_mcp, name)


def _is_path(model_mcp: ModelMCP, path: str) -> bool:
    """Whether the path leads to a field or a relation, or names a filter of the admin's list."""
    if path.startswith(LIST_FILTER):
        return True  # Which there are, the request decides.
    *steps, last = path.split("__")
    model: Any = model_mcp.model
    field: Any = None
    for step in steps:
        field = _field_of(model, step)
        model = getattr(field, "related_model", None)
        if model is None:
            return False
    leads_to_many = field is not None and (field.one_to_many or field.many_to_many)
    return last == "pk" or (leads_to_many and last == "count") or _field_of(model, last) is not None


def _is_own_field(model_mcp: ModelMCP, name: str) -> bool:
    return _is_concrete(model_mcp.model, name)


#: Attributes of a ModelMCP that hold names, and what may be named there.
_NAMES = (
    ("fields", _can_be_shown),
    ("extra_fields", _can_be_shown),
    ("exclude", _can_be_hidden),
    ("filter_fields", _is_path),
    ("audit_fields", _is_own_field),
)


def _field_of(model: type[models.Model], name: str) -> Any:
    """The field or relation of that name, or None."""
    try:
        return model._meta.get_field(name)
    except FieldDoesNotExist:
        return None


def _is_concrete(model: type[models.Model], name: str) -> bool:
    return bool(getattr(_field_of(model, name), "concrete", False))
