"""What the checks of an event read once for many principals: tokens, permissions, and rows that everybody may see."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from mcp_django.access import user_permissions
from mcp_django.access.authentication import authenticate_again, principals
from mcp_django.compat import users

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.push.listeners import Listener

#: The label of a model, a database and keys → those of the keys that everybody sees who may view the model.
Visible = dict[tuple[str, str, frozenset[str]], set[str]]

logger = logging.getLogger("mcp_django")


class Prefetch:
    """Reads the principals of many listeners at once, for the checks of one event. In a worker.

    A principal that cannot be read together with others, or for which that failed, is read when its turn comes.
    """

    def __init__(self, listeners: Collection[Listener] = ()) -> None:
        #: User → permissions of their own, and of their groups.
        self._permissions: dict[Any, user_permissions.Sets] = {}
        self._visible: Visible = {}
        if len({listener.principal.rights for listener in listeners}) > 1:
            try:
                self._ask(listeners)
            except Exception:
                logger.warning("Principals could not be read together; each is read alone", exc_info=True)

    def request_of(self, listener: Listener) -> MCPRequest:
        """A request of the listener's principal, whose credentials are read again. Raises MCPError."""
        request = listener.request.copy()
        principal = authenticate_again(listener.principal, request)
        found = self._permissions.get(principal.user.pk) if _is_plain(principal) else None
        if found is not None:
            # The user of a token belongs to this request alone.
            users.keep_permissions(principal.user, *found)
        return request.for_principal(principal)

    def visible(self, listener: Listener) -> Visible | None:
        """Rows found for other principals, of models that show every row; None where the site has a call context."""
        return None if listener.site.has_call_context else self._visible

    def _ask(self, listeners: Collection[Listener]) -> None:
        known = [listener.principal for listener in listeners if listener.principal.token_id is not None]
        principals.read({principal.auth.hash for principal in known})
        if user_permissions.are_in_tables():
            plain = {p.user.pk: p.user for p in known if _is_plain(p)}
            self._permissions = user_permissions.of_users(plain.values())


def current_request(listener: Listener) -> MCPRequest:
    """A request of one listener's principal, whose credentials are read again. Raises MCPError."""
    return Prefetch().request_of(listener)


def _is_plain(principal: Principal) -> bool:
    """Whether this is the user of one of our tokens, and permissions have to be looked up."""
    return principal.token_id is not None and not getattr(principal.user, "is_superuser", False)
