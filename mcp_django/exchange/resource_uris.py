"""What may be kept of the URI of a resource that a client asked for, where people watch what agents do."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.apps import apps

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

#: As ``resources.uris`` writes them. A key is kept if it is an integer or a UUID: any other text may be a secret.
_OF_MODEL = re.compile(
    r"db://(?P<app>\w+)/(?P<model>\w+)(?P<schema>\.schema)?"
    r"(?P<key>/(?:-?[0-9]{1,20}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?=/|$))?(?:/.*)?"
)


def kept_uri(exchange: Exchange) -> str:
    """The URI in the params, without what only the client knows: its query, texts that are keys, and unknown names.

    Of a declared template it is the template itself. Empty if the resource is unknown, or the request is about none.
    """
    uri = exchange.params.get("uri")
    return _kept(uri, exchange.site.resources) if isinstance(uri, str) else ""


def _kept(uri: str, declared: Mapping[str, Any]) -> str:
    bare = re.split(r"[?#]", uri, maxsplit=1)[0]
    match = _OF_MODEL.fullmatch(bare)
    if match is not None and match["model"].lower() in apps.all_models.get(match["app"].lower(), {}):
        return f"db://{match['app']}/{match['model']}{match['schema'] or ''}{match['key'] or ''}"
    # A template may have the URI of a resource as its own text: both are words of the project.
    templates = (text for text, item in declared.items() if hasattr(item, "match") and item.match(uri) is not None)
    return uri if uri in declared else next(templates, "")
