"""What the audit trail, telemetry and the admin may show of the URI of a resource that a client asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mcp_django.audit.lines import safe_key
from mcp_django.bridge.resources import uris

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite

#: Stands for a name, a key or a URI that is not repeated, since a client may write anything into it.
LEFT_OUT = "*"


def kept_uri(site: MCPSite, uri: str) -> str:
    """The URI of one of our models, or as the project declares it: without its query, and without texts that are keys.

    A key is kept if it is an integer or a UUID. For a URI of a declared template, the template itself is given.
    """
    target = uris.parse(uri)
    if target is None:
        found = site.find_resource(uri) if len(uri) <= uris.MAX_URI else None
        return found.uri if found is not None else LEFT_OUT
    model = site.models.get(target.label)
    if model is None:
        return f"{uris.SCHEME}{LEFT_OUT}"
    kept = uris.collection_uri(model.model)
    if target.kind == "schema":
        return uris.schema_uri(model.model)
    if not target.is_of_record:
        return kept
    field = f"/{target.field}" if target.field in {one.name for one in model.opts.fields} else ""
    return f"{kept}/{safe_key(target.key) or LEFT_OUT}{field}"
