"""On whose behalf a task runs, when the request that asked for it is long over.

No credentials are kept: the user and the token are read again, and must still be allowed in. Of credentials that a
project made itself only the user is left, who must still be active. Headers are kept but for those whose names are of
credentials: ``MCPSite.call_context`` may choose a tenant by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.utils import translation

from mcp_django.access.authentication import principals
from mcp_django.conf import get_conf
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import TaskRefused
from mcp_django.secrets import is_secret_name
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.models import Task


#: Headers that are credentials by their name, beside those whose names are of secrets.
_CREDENTIALS = re.compile("(^|_)(AUTH|AUTHENTICATION|AUTHORIZATION|COOKIE)(_|$)")
#: What is kept beside headers. Under WSGI the rest of META may hold the environment of the process, and a query string
#: may hold a ticket.
_KEPT = frozenset({"REMOTE_ADDR", "REMOTE_HOST", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME"})


def can_own(principal: Principal) -> bool:
    """Whether the principal can be found again without its credentials."""
    if principal.user.pk is None:
        return principal.scopes <= frozenset(get_conf().ANONYMOUS_SCOPES)
    return isinstance(principal.user, get_user_model())


def principal_of(task: Task) -> Principal:
    """The task's principal, as the database has it now. Raises TaskRefused."""
    scopes = frozenset(task.scopes)
    found: Principal | None
    if task.token is not None:
        found, source = principals.find_hash(task.token.hash, fresh=True), Source.TICKET
        scopes &= found.scopes if found is not None else frozenset()
    elif task.user_id is not None:
        found, source = principals.find_user(task.user_id, fresh=True), Source.COMMAND
    else:
        found, source = Principal(AnonymousUser(), scopes), Source.REQUEST
        scopes &= frozenset(get_conf().ANONYMOUS_SCOPES)
    if found is None or not scopes:
        raise TaskRefused
    return replace(found, scopes=scopes, source=source)


def origin_of(request: MCPRequest) -> JSON:
    """What is kept of a request: enough to make one like it, and no credentials."""
    meta = {name: value for name, value in request.META.items() if isinstance(value, str) and _is_kept(name)}
    return {"path": request.path, "scheme": request.scheme, "meta": meta, "language": translation.get_language()}


def request_from(origin: Mapping[str, Any]) -> MCPRequest:
    return MCPRequest(path=origin["path"], scheme=origin["scheme"], meta=origin["meta"], attributes={})


def _is_kept(name: str) -> bool:
    if not name.startswith("HTTP_"):
        return name in _KEPT
    return not _CREDENTIALS.search(name) and not is_secret_name(name.removeprefix("HTTP_"))
