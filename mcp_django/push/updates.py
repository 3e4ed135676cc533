"""Reports changes of the resources that a project declares as functions: ``updated``."""

from __future__ import annotations

from django.db import DEFAULT_DB_ALIAS

from mcp_django.bridge.resources import uris
from mcp_django.bridge.sites import all_sites
from mcp_django.core.events.transaction import note


def updated(uri: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Notify subscribers of a ``@resource(…, watch=True)`` that it has changed.

    ``uri`` is that of the resource, or one of the URIs of a template. Subscribers are notified when the transaction on
    the database ``using`` commits, and not at all if it is rolled back; in each process, and only those that may read
    the resource.

    Raises LookupError where no resource has the URI, ValueError where it is declared without ``watch``, and
    ConnectionDoesNotExist for an unknown alias.
    """
    if uri.startswith(uris.SCHEME):
        raise LookupError(f"{uri} is a resource of a model. mcp_django.changed(model, keys) reports its changes.")
    found = [resource for site in all_sites() if (resource := site.find_resource(uri)) is not None]
    if not found:
        raise LookupError(f"No resource has the URI {uri!r}.")
    watched = {(resource.uri, resource.spelled(uri)) for resource in found if resource.watch}
    if not watched:
        raise ValueError(f"Nobody can watch {uri}: declare it with @resource({found[0].uri!r}, watch=True).")
    for label, key in sorted(watched):
        note(using, label, written={key})
