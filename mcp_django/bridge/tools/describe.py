"""describe_models: the models that an agent may read, and how to query each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcp_django.access.permissions import Decision
from mcp_django.bridge.resources import rules
from mcp_django.bridge.resources.fields import choices
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.days import Days
from mcp_django.bridge.resources.fields.errors import InvalidQuery, Mistakes
from mcp_django.bridge.resources.fields.indexes import is_indexed
from mcp_django.bridge.resources.fields.kinds import BOOLEAN, DATE, DATETIME, DECIMAL, INTEGER, NUMBER, TEXT, Kind
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading.schema import describe_model
from mcp_django.bridge.tools import catalog, instructions
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.query import MAX_LISTED_MODELS, NAMES, QueryTool, arguments_schema
from mcp_django.bridge.tools.results import structured_result
from mcp_django.conf import get_conf
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


#: A lookup of each kind of field and a value that it takes.
_SAMPLES: Mapping[Kind, tuple[str, Any]] = {
    BOOLEAN: ("exact", True),
    DATE: ("gte", "2020-01-01"),
    DATETIME: ("gte", "2020-01-01T00:00:00Z"),
    INTEGER: ("gte", 0),
    NUMBER: ("gte", 0),
    DECIMAL: ("gte", "0"),
    TEXT: ("icontains", "a"),
}


#: Models that one call describes.
_MAX_DESCRIBED = 10
#: How a client is notified of changes, for an agent that chooses what it subscribes to.
_WATCHING = (
    "A client that subscribes to a resource is notified of changes, and reads it again to see them. The uri of the "
    "model stands for each row that you may see, when it is saved or deleted; the uri with a key for that row alone. "
    "Behind a ? stand conditions, as field=value or field__lookup=value, with commas between the values of in and "
    "range: ?status=open&total__gte=10. Of such a set, a client is notified when a row in it changes, enters it or "
    "leaves it. search, order_by and limit mean what they mean in a query; with a limit, only changes of that page "
    "count. ?measures=count stands for the number of rows, and ?group_by=status&measures=count,sum:total for that "
    "table. A notification holds no value. It comes after the commit, one for several changes within a moment. Changes "
    "that do not go through Django's save or delete are notified only where the project reports them."
)
#: Why actions cannot be called → the line that says what can be done.
_WITHHELD = {
    frozenset({Decision.SWITCHED_OFF}): "Actions exist that are switched off; an administrator can switch them on.",
    frozenset({Decision.NO_SCOPE}): (
        "Actions exist that this token may not run; an administrator can give the token the scope actions."
    ),
    frozenset({Decision.SWITCHED_OFF, Decision.NO_SCOPE}): (
        "Actions exist that are switched off, or that this token may not run; an administrator can switch them on and "
        "give the token the scope actions."
    ),
}


class DescribeModels(QueryTool):
    name, way = "describe_models", "schema"
    title = "Describe models"
    description = (
        "List the models that you may read, or those of an app; with a model named, its fields: types, choices, "
        "relations and the lookups that a filter takes, with examples. Call it before you filter."
    )

    def arguments(self, model: JSON) -> Schema:
        several: JSON = {**NAMES, "maxItems": _MAX_DESCRIBED, "description": "Describe each of these."}
        app: JSON = {"type": "string", "description": "The models of this app alone, described if they are few."}
        return arguments_schema({"model": model, "models": several, "app": app})

    def get_output_schema(self, request: MCPRequest) -> JSON | None:
        properties: JSON = {
            "models": {"type": "object", "description": "A line for each model, or its description."},
            "apps": {"type": "object", "description": "Where the models are many."},
            "model": {"type": "string", "description": "Its fields and lookups are beside it."},
        }
        return {"type": "object", "properties": properties}

    def answer(self, exchange: Exchange, rights: Rights, arguments: JSON) -> JSON:
        labels, app = list(arguments.get("models", ())), arguments.get("app")
        if app is not None and (labels or "model" in arguments):
            raise InvalidQuery.one("app", "stands alone: leave it out, or leave out the models.", app)
        if "model" in arguments and not labels:
            described = _described(exchange, self._model(rights, arguments["model"]))
            described["watching"] = _WATCHING
            return structured_result(described)
        mistakes, models = Mistakes(), []
        for label in dict.fromkeys([*filter(None, [arguments.get("model")]), *labels]):
            with mistakes:
                models.append(self._model(rights, label, "models"))
        mistakes.raise_any()
        if app is not None:
            of_app = [model for model in rights.models() if model.model._meta.app_label == app]
            models = of_app if len(of_app) <= _MAX_DESCRIBED else []
        if models:
            return structured_result({"models": {model.label: _described(exchange, model) for model in models}})
        listed = _listed(rights.models(), app)
        return structured_result({**listed, "notes": [*listed.get("notes", []), *instructions.about(exchange)]})


def _described(exchange: Exchange, model: ModelRights) -> JSON:
    described = describe_model(model)
    if any(column.kind in (DATE, DATETIME) for column in model.columns.values()):
        described["today"] = Days.today().first.isoformat()
    catalog.find_actions(exchange)
    actions = exchange.site.actions_on(model.model)
    if names := [tool.name for tool in catalog.usable(exchange, actions)]:
        described["actions"] = names
    if notes := [*_groups_alone(model), *rules.of_model(model), *_withheld_actions(exchange, actions)]:
        described["notes"] = notes
    if examples := _examples(model):
        described["examples"] = examples
    return described


def _listed(models: Sequence[ModelRights], app: str | None) -> JSON:
    """The models, those of one app, or only the apps where there are many models. Raises InvalidQuery."""
    apps = Counter(model.model._meta.app_label for model in models)
    if app is not None and app not in apps:
        raise InvalidQuery.one("app", unknown_name("app", app, list(apps)), app)
    if app is None and len(models) > MAX_LISTED_MODELS:
        counted = {name: f"{count} model{'' if count == 1 else 's'}" for name, count in apps.items()}
        return {"apps": counted, "notes": ["Call describe_models with an app for its models."]}
    return {"models": {model.label: _line(model) for model in models if app in (None, model.model._meta.app_label)}}


def _line(model: ModelRights) -> str:
    description = model.description
    name = str(model.model._meta.verbose_name_plural)
    return f"{name}: {description}" if description else name


def _withheld_actions(exchange: Exchange, actions: Sequence[ActingTool]) -> list[str]:
    """The line that says that the user's permissions allow actions which cannot be called, without their names."""
    if not get_conf().MENTION_SWITCHED_OFF:
        return []
    line = _WITHHELD.get(frozenset(catalog.withheld(exchange, actions)))
    return [] if line is None else [line]


def _groups_alone(model: ModelRights) -> list[str]:
    if model.has_rows:
        return []
    return [f"Its rows are shown in groups of {model.smallest_group} and more, and never one by one."]


def _examples(model: ModelRights) -> list[JSON]:
    """Up to two calls that work as they are written, of tools that the principal may use."""
    found = [_example_of_rows(model)] if ways.is_open(model, "collection") else []
    if not model.checks_objects:
        grouped: JSON = {"tool": "aggregate_records", "arguments": {"model": model.label, **_groups(model)}}
        found += [grouped] if ways.is_open(model, "aggregate") else []
    elif found:
        fields = list(model.columns)[:2]
        found.append({"tool": "find_records", "arguments": {"model": model.label, "fields": fields}})
    return found


def _example_of_rows(model: ModelRights) -> JSON:
    found: JSON = {"model": model.label}
    # A condition on a field with choices shows most.
    columns = sorted(model.filterable.values(), key=lambda column: not column.field.flatchoices)
    condition = next((example for column in columns if (example := _condition(column))), None)
    if condition is not None:
        found["filter"] = condition
    orders = [column.name for column in model.orderable.values() if not column.field.primary_key]
    if orders:
        found["order_by"] = [f"-{next((name for name in orders if is_indexed(model.model, [name])), orders[0])}"]
    found["limit"] = 5
    return {"tool": "find_records", "arguments": found}


def _condition(column: Column) -> JSON | None:
    """A useful condition on the column."""
    listed = choices.listed(column.field, column.field.flatchoices or ())
    if "exact" in column.kind.lookups and (values := [value for value, _ in listed if value != ""]):
        return {column.name: choices.written(column.field, column.kind, values[0])}
    lookup, value = _SAMPLES.get(column.kind, ("", None))
    return {f"{column.name}__{lookup}": value} if lookup and not column.field.primary_key else None


def _groups(model: ModelRights) -> JSON:
    """Count rows by a field with few values, if there is one."""
    columns = [column for column in model.columns.values() if column.kind.orderable]
    few = [column.name for column in columns if column.field.flatchoices or column.kind is BOOLEAN or column.related]
    return {"group_by": few[:1]} if few else {}
