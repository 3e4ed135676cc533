"""What the checks of an event read once for many principals: tokens, permissions, and rows that everybody may see."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, cast

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, PermissionsMixin
from django.db import router

from mcp_django.access.authentication import authenticate_again, principals
from mcp_django.compat import users

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser
    from django.db.models import ManyToManyField, QuerySet

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
        self._permissions: dict[Any, tuple[set[str], set[str]]] = {}
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
        if _finds_by_tables():
            self._permissions = _permissions({p.user.pk: p.user for p in known if _is_plain(p)}.values())


def current_request(listener: Listener) -> MCPRequest:
    """A request of one listener's principal, whose credentials are read again. Raises MCPError."""
    return Prefetch().request_of(listener)


def _is_plain(principal: Principal) -> bool:
    """Whether this is the user of one of our tokens, and permissions have to be looked up."""
    return principal.token_id is not None and not getattr(principal.user, "is_superuser", False)


def _finds_by_tables() -> bool:
    """Whether every ModelBackend finds permissions in the tables of django.contrib.auth, in Django's own way."""
    return issubclass(get_user_model(), PermissionsMixin) and users.finds_by_tables()


def _permissions(users: Iterable[AbstractBaseUser | AnonymousUser]) -> dict[Any, tuple[set[str], set[str]]]:
    """As ``ModelBackend`` finds them for one user: permissions of their own, and of their groups."""
    alias = router.db_for_read(Permission)
    # A project may keep users with their permissions in several databases.
    keys = [user.pk for user in users if router.db_for_read(Permission, instance=user) == alias]
    permissions, groups = Permission.objects.using(alias).order_by(), Group.objects.using(alias).order_by()
    holder, member = _query_name("user_permissions"), _query_name("groups")
    of_users = _names_by(permissions.filter(**{f"{holder}__in": keys}), holder)
    members = list(groups.filter(**{f"{member}__in": keys}).values_list(member, "pk"))
    of_groups = _names_by(permissions.filter(group__in={group for _, group in members}), "group")
    of_their_groups: dict[Any, set[str]] = defaultdict(set)
    for user, group in members:
        of_their_groups[user] |= of_groups[group]
    return {key: (of_users[key], of_their_groups[key]) for key in keys}


def _names_by(permissions: QuerySet[Permission], holder: str) -> dict[Any, set[str]]:
    """Holder → names of permissions, as ``flights.view_flight``."""
    found: dict[Any, set[str]] = defaultdict(set)
    for key, label, codename in permissions.values_list(holder, "content_type__app_label", "codename"):
        found[key].add(f"{label}.{codename}")
    return found


def _query_name(field: str) -> str:
    """The name in a filter of the users of a permission, or of a group. A user model may choose it."""
    related = cast("ManyToManyField[Any, Any]", get_user_model()._meta.get_field(field))
    return related.related_query_name()
