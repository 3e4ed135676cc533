"""What the checks of an event read once for many principals: tokens, permissions, and rows that everybody may see."""

from __future__ import annotations

import logging
from collections.abc import Collection, Hashable
from typing import TYPE_CHECKING, Any

from mcp_django.access import user_permissions
from mcp_django.access.authentication import admitted, authenticate_again, name_of, read_together
from mcp_django.bridge.declared.options import shows_every_row
from mcp_django.bridge.sites import MCPSite
from mcp_django.core.compat import users
from mcp_django.exchange.site import Site
from mcp_django.models import AccessToken, Grant

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.push.listeners import Listener

logger = logging.getLogger("mcp_django")


class Visible:
    """Rows that everybody who may view their model sees."""

    def __init__(self) -> None:
        #: The label of a model, a database and keys → those of the keys that are there.
        self.found: dict[tuple[str, str, frozenset[str]], set[str]] = {}
        self._shows_every_row: dict[ModelMCP, bool] = {}

    def holds(self, model: ModelRights) -> bool:
        """Whether everybody who may view the model sees the same rows of it. Found out once for each model."""
        shows = self._shows_every_row.get(model.model_mcp)
        if shows is None:
            shows = not model.checks_objects and shows_every_row(model.model_mcp)
            self._shows_every_row[model.model_mcp] = shows
        return shows


class Prefetch:
    """Reads the principals of many listeners at once, for the checks of one event. In a worker.

    A principal that cannot be read together with others, or for which that failed, is read when its turn comes.
    """

    def __init__(self, listeners: Collection[Listener] = ()) -> None:
        #: Name of an open connection's principal → the principal as it is now.
        self._principals: dict[str, Principal] = {}
        #: User → permissions of their own, and of their groups.
        self._permissions: dict[Any, user_permissions.Sets] = {}
        self._visible = Visible()
        if len({listener.principal.rights for listener in listeners}) > 1:
            try:
                self._ask(listeners)
            except Exception:
                logger.warning("Principals could not be read together; each is read alone", exc_info=True)

    def request_of(self, listener: Listener) -> MCPRequest:
        """A request of the listener's principal, whose credentials are read again. Raises MCPError."""
        request, opened = listener.request.copy(), listener.principal
        known = None if opened.token_id is None else self._principals.get(name_of(opened))
        principal = authenticate_again(opened, request) if known is None else admitted(known, opened, request)
        found = self._permissions.get(principal.user.pk)
        if found is not None and _is_plain(principal) and not listener.site.has_call_context:
            # The user of a token belongs to this request alone.
            users.keep_permissions(principal.user, *found)
        return request.for_principal(principal, listener.site)

    def visible(self, listener: Listener) -> Visible | None:
        """Rows found for other principals, of models that show every row; None where the site has a call context."""
        return None if listener.site.has_call_context else self._visible

    def _ask(self, listeners: Collection[Listener]) -> None:
        self._principals = read_together(listener.principal for listener in listeners)
        if not user_permissions.are_in_tables():
            return
        #: User → the principal whose permissions are read now, and where these are remembered.
        missing: dict[Any, tuple[Principal, dict[Hashable, user_permissions.Sets]]] = {}
        remembers: dict[Site, bool] = {}
        for listener in listeners:
            site, opened = listener.site, listener.principal
            principal = None if opened.token_id is None else self._principals.get(name_of(opened))
            # The context of a site may say what the tables hold.
            if principal is None or not _is_plain(principal) or site.has_call_context:
                continue
            if site not in remembers:
                remembers[site] = _depends_on_user_alone(listener)
            known = user_permissions.remembered(principal) if remembers[site] else None
            known = {} if known is None else known
            found = known.get((principal.user.pk, _ALONE))
            if found is None:
                missing[principal.user.pk] = principal, known
            else:
                self._permissions[principal.user.pk] = found
        if missing:
            read = user_permissions.of_users(principal.user for principal, _ in missing.values())
            for key, found in read.items():
                missing[key][1][key, _ALONE] = found
            self._permissions |= read


#: What ``MCPSite.remember_key`` gives where permissions depend on the user alone.
_ALONE = ""


def _depends_on_user_alone(listener: Listener) -> bool:
    """Whether permissions depend on nothing but the user, whatever the request: on no tenant."""
    site = listener.site
    return type(site).remember_key is MCPSite.remember_key and site.remember_key(listener.request) == _ALONE


def current_request(listener: Listener) -> MCPRequest:
    """A request of one listener's principal, whose credentials are read again. Raises MCPError."""
    return Prefetch().request_of(listener)


def _is_plain(principal: Principal) -> bool:
    """Whether this is the user of one of our tokens or grants, and permissions have to be looked up."""
    return isinstance(principal.auth, AccessToken | Grant) and not getattr(principal.user, "is_superuser", False)
