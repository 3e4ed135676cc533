"""resources/list, resources/templates/list and resources/read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mcp_django.access.authentication import renew_principal
from mcp_django.bridge.resources import catalog
from mcp_django.core.running.suspension import finishing
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import ResourceNotFound
from mcp_django.protocol.types import JSON
from mcp_django.server.pages import page


def list_resources(exchange: Exchange) -> JSON:
    renew_principal(exchange)
    return page(exchange, "resources", catalog.resources(exchange, fresh=True), lambda resource: str(resource["uri"]))


def list_templates(exchange: Exchange) -> JSON:
    renew_principal(exchange)
    templates = catalog.templates(exchange, fresh=True)
    return page(exchange, "resourceTemplates", templates, lambda template: str(template["uriTemplate"]))


def read(exchange: Exchange) -> JSON:
    return finishing(partial(_found, exchange), partial(catalog.read, exchange, exchange.params["uri"]))


def _found(exchange: Exchange, run: Callable[[], JSON | None]) -> JSON:
    contents = run()
    if contents is None:
        catalog.check_more_scopes(exchange, exchange.params["uri"])
        raise ResourceNotFound(exchange.params["uri"])
    return {"contents": [contents]}
