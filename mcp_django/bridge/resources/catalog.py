"""The resources of a site for one exchange: the lists of them, and the contents of each."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import translation
from django.utils.text import capfirst

from mcp_django.access import overrides
from mcp_django.access.permissions import ALLOWED, Decision, check_scopes, decide, supposing
from mcp_django.bridge.resources import annotating, function, queries, rules, uris
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.function import FunctionResource
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.audited import note_filter
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading import files, returned, rows, splitting
from mcp_django.bridge.resources.reading import templates as model_templates
from mcp_django.bridge.resources.reading.schema import record_schema
from mcp_django.bridge.resources.reading.templates import MIME_TYPE
from mcp_django.conf import get_conf
from mcp_django.core import failures
from mcp_django.core.running.suspension import finishing
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.protocol.errors import InternalError, LimitExceeded, ResourceNotFound, ResourceRefused
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import distinct_titles
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")


def resources(exchange: Exchange, *, dated: bool = True, fresh: bool = False) -> list[JSON]:
    """Collections of the models that the principal may view, and the resources that the project declares.

    ``dated``: whether they carry the time of their last change, which is read from the rows. ``fresh``: whether the
    decisions of administrators are read again.
    """
    with translation.override(settings.LANGUAGE_CODE), supposing(exchange.request) as needed:
        models = ways.models(_rights(exchange, fresh=fresh), "collection")
        declared = available(exchange.site, exchange.request)
        # The time of a change is read from the rows, which these scopes may not open yet.
        dated = dated and not needed
        collections = [_describe_collection(model, dated=dated) for model in models]
        functions = [item for item in declared if isinstance(item, FunctionResource)]
        return distinct_titles([*collections, *(item.describe(exchange.request, dated=dated) for item in functions)])


def templates(exchange: Exchange, *, fresh: bool = False) -> list[JSON]:
    """Templates of each model, one for the schemas of all, and those that the project declares. ``fresh``: as above."""
    with supposing(exchange.request):
        return _templates(exchange, _rights(exchange, fresh=fresh))


def _templates(exchange: Exchange, rights: Rights) -> list[JSON]:
    models = rights.models()
    with translation.override(settings.LANGUAGE_CODE):
        described = [
            {**template, **_if_any(annotations=annotating.of_model(model))}
            for model in models
            for template in model_templates.of_model(model)
        ]
    if ways.models(rights, "schema"):
        described.append(
            {
                "uriTemplate": model_templates.SCHEMA,
                "name": "schema",
                "title": "Schema of a model",
                "description": "JSON Schema of a model's records.",
                "mimeType": "application/schema+json",
            }
        )
    declared = available(exchange.site, exchange.request)
    functions = [template.describe() for template in declared if isinstance(template, FunctionTemplate)]
    return distinct_titles([*described, *functions])


def _rights(exchange: Exchange, *, fresh: bool) -> Rights:
    """The rights of the exchange's principal, with what administrators have decided by now."""
    rights = Rights.of(exchange.site, exchange.request)
    rights.decided_by(overrides.tools.of(exchange, fresh=fresh))
    return rights


def read(exchange: Exchange, uri: str) -> JSON | None:
    """The contents of a resource, or None if there is none for this principal. Raises MCPError."""
    if len(uri) > uris.MAX_URI:
        return None
    target = uris.parse(uri)
    reader = partial(_read_declared, exchange, uri) if target is None else partial(_read_model, exchange, uri, target)
    return finishing(_bounded, reader)


def check_more_scopes(exchange: Exchange, uri: str) -> None:
    """Raises InsufficientScope for a URI that was not found, if scopes that the client can ask for would open it."""
    check_scopes(exchange.request, partial(_is_reachable, exchange, uri))


def _is_reachable(exchange: Exchange, uri: str) -> bool:
    """Whether the URI names something that the principal may read."""
    target = uris.parse(uri) if len(uri) <= uris.MAX_URI else None
    if target is None:
        return find_declared(exchange.site, exchange.request, uri) is not None
    return ways.reach(Rights.of(exchange.site, exchange.request), target) is not None


def _bounded(run: Callable[[], JSON | None]) -> JSON | None:
    """The contents. Raises LimitExceeded."""
    contents = run()
    if contents is not None and len(encode(contents)) > get_conf().MAX_RESULT_BYTES:
        raise LimitExceeded(f"The resource is larger than {get_conf().MAX_RESULT_BYTES} bytes (MAX_RESULT_BYTES).")
    return contents


def available(site: Site, request: MCPRequest) -> list[FunctionResource | FunctionTemplate]:
    """The declared resources and templates that the request's principal may read."""
    return [resource for resource in site.resources.values() if _may_read(resource, request)]


def find_declared(site: Site, request: MCPRequest, uri: str) -> FunctionResource | FunctionTemplate | None:
    """The declared resource or template of the URI, if the request's principal may read it."""
    resource = site.find_resource(uri)
    return resource if resource is not None and _may_read(resource, request) else None


def _may_read(resource: FunctionResource | FunctionTemplate, request: MCPRequest) -> bool:
    return decision(resource, request) is ALLOWED


def decision(resource: FunctionResource | FunctionTemplate, request: MCPRequest) -> Decision:
    """Whether the request's principal may read the declared resource, and if not, why: for administrators."""
    return decide(request, resource.scope, None, resource.is_available, f"resource {resource.uri}")


def _read_declared(exchange: Exchange, uri: str) -> JSON | None:
    resource = find_declared(exchange.site, exchange.request, uri)
    if resource is None:
        return None
    shown = partial(_shown, exchange, f"The resource {uri}")
    return finishing(partial(_explained, exchange, uri), partial(resource.read, exchange.request, uri, shown))


def _shown(exchange: Exchange, owner: str, value: Any) -> Any:
    """What a function has returned, with rows of a model in the form of a record or a collection.

    None for a row that the principal may not see. Raises ToolError as ``returned.read``.
    """
    given = returned.rows_in(value, owner)
    if given is None:
        return value
    found = returned.read(exchange, given, value, owner)
    if found is None:
        return [] if given.many else None
    if isinstance(found, returned.ReturnedRecord):
        return found.record.values
    notes = [*found.page.notes, *rules.of_records(found.rights, rows.RecordQuery())]
    values = {"model": found.rights.label, "columns": found.page.columns, "rows": found.page.rows}
    return {**_if_any(more=found.more), **values, **_if_any(notes=notes)}


def _explained(exchange: Exchange, uri: str, run: Callable[[], JSON | None]) -> JSON | None:
    """The contents of a declared resource. Raises MCPError for whatever its function raises, unless it is cancelled."""
    try:
        return run()
    except ToolError as error:
        raise ResourceRefused(error) from None
    except MCPError:
        raise
    except Exception as error:
        if exchange.cancelled:
            raise
        failures.note(error)
        logger.exception("resource %s failed", uri)
        raise InternalError from error


def _read_model(exchange: Exchange, uri: str, target: uris.Target) -> JSON | None:
    rights, usage = Rights.of(exchange.site, exchange.request), exchange.usage
    model = ways.reach(rights, target)
    if model is None:
        if rights.of_label(target.label) is not None:
            usage.refusal = Decision.SWITCHED_OFF.name
        return None
    usage.read(model.label, 0)
    note_filter(usage, model, target.query)
    if target.kind == "schema":
        return function.contents(uri, "application/schema+json", record_schema(model))
    if target.kind == "file":
        usage.read(model.label, 1)
        return files.read(model, uri, target)
    if target.kind == "record":
        record = rows.get(model, target.key)
        if record is None:
            usage.refusal = "NO_RECORD"
            return None
        usage.read(model.label, 1)
        return function.contents(uri, MIME_TYPE, record.values)
    try:
        with splitting.explained(model.rights, {"model": target.label, "filter": dict(target.query)}):
            found = _query_contents(model, target)
            usage.read(model.label, len(found["rows"]))
            return function.contents(uri, MIME_TYPE, found)
    except InvalidQuery as error:
        usage.refusal = error.reason
        raise ResourceNotFound(uri, queries.in_query(error)) from None


def _query_contents(model: ModelRights, target: uris.Target) -> JSON:
    """The result of the query of a collection or an aggregate, with the URI of the next page."""
    found = queries.answer(model, target)
    values, notes = dict(found.values), [*found.notes, *queries.rule_notes(model, target)]
    if found.next_cursor is not None:
        kept = [(name, value) for name, value in target.query if name != "cursor"]
        following = uris.query_uri(model.model, [*kept, ("cursor", found.next_cursor)])
        if len(following) <= uris.MAX_URI:
            values["next"] = following
        else:
            notes.append(f"There are more rows. Their URI would be too long: ask {ways.TOOLS[target.kind]} for them.")
    if notes:
        values["notes"] = notes
    return values


def _describe_collection(model: ModelRights, *, dated: bool) -> JSON:
    meta = model.model._meta
    described: JSON = {
        "uri": uris.collection_uri(model.model),
        "name": model.label,
        "title": str(capfirst(meta.verbose_name_plural)),
        "mimeType": MIME_TYPE,
    }
    if description := model.description:
        described["description"] = description
    annotations = annotating.of_collection(model) if dated else annotating.of_model(model)
    return {**described, **_if_any(annotations=annotations)}


def _if_any(**members: Any) -> JSON:
    """Those of the members that are not empty."""
    return {name: value for name, value in members.items() if value}
