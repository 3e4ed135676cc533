"""The principal and the request of a task or a change, which are made anew when the original request is long over.

No credentials are stored: the user and the token are read again, and must still be valid. For the credentials of a
project's own authentication, only the user is stored, who must still be active. Headers are stored, because
``MCPSite.call_context`` may choose a tenant by one, but no header that carries credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser

from mcp_django.access.authentication import principals
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.conf import get_conf
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest
from mcp_django.exchange.scopes import common, expand, known
from mcp_django.protocol.errors import TaskRefused
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.models import Change, Task


#: Names of headers that carry credentials. Headers with the name of a secret are left out too.
_CREDENTIALS = re.compile("(^|_)(AUTH|AUTHENTICATION|AUTHORIZATION|COOKIE)(_|$)")
#: The names in META that are stored beside headers. Under WSGI, META may also hold the environment of the process, and
#: a query string may hold a ticket.
_KEPT = frozenset({"REMOTE_ADDR", "REMOTE_HOST", "SERVER_NAME", "SERVER_PORT", "SCRIPT_NAME"})


def can_own(principal: Principal) -> bool:
    """Whether the principal can be found again without its credentials."""
    if principal.user.pk is None:
        return principal.scopes <= expand(known(get_conf().ANONYMOUS_SCOPES))
    return isinstance(principal.user, get_user_model())


def principal_of(task: Task | Change, request: MCPRequest) -> Principal:
    """The principal with the rights that it has now, for a request like that of its client. Raises TaskRefused.

    What a token began goes on with the token that succeeded it, and ends with the grant of the token: a task, and a
    change that waits for its user.
    """
    scopes = frozenset(task.scopes)
    found: Principal | None
    if task.line != task.principal_key:
        found, source = principals.find_line(task.line, task.grant_id, request), Source.TICKET
        found = None if found is None else found.within(scopes)
    elif task.user_id is not None:
        found, source = principals.find_user(task.user_id, fresh=True), Source.COMMAND
        found = None if found is None else replace(found, lasting=scopes)
    else:
        allowed = common(scopes, expand(known(get_conf().ANONYMOUS_SCOPES)))
        found, source = Principal(AnonymousUser(), allowed), Source.REQUEST
    if found is None or not found.scopes:
        raise TaskRefused
    return replace(found, source=source)


def origin_of(request: MCPRequest) -> JSON:
    """The parts of a request that are stored: enough to make a similar request, and no credentials."""
    meta = {name: value for name, value in request.META.items() if isinstance(value, str) and _is_kept(name)}
    if request.is_below_middleware:
        meta["SCRIPT_NAME"] = request.mount
    road = {"is_of_http": request.is_of_http, "is_below_middleware": request.is_below_middleware}
    return {"path": request.path, "scheme": request.scheme, "meta": meta, **road}


def request_from(
    origin: Mapping[str, Any], attributes: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
) -> MCPRequest:
    """A request like the one that is stored, with what the project's middleware has set on a request like it."""
    path, scheme = origin["path"], origin["scheme"]
    return MCPRequest(path=path, scheme=scheme, meta={**origin["meta"], **(meta or {})}, attributes=attributes or {})


def _is_kept(name: str) -> bool:
    if not name.startswith("HTTP_"):
        return name in _KEPT
    return not _CREDENTIALS.search(name) and not is_secret_name(name.removeprefix("HTTP_"))
