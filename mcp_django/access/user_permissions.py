"""The permissions that ModelBackend finds in the tables of django.contrib.auth, read with few statements.

They are put onto the user where ModelBackend keeps them, so that ``has_perm`` and every hook are asked as always.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission, PermissionsMixin
from django.core.exceptions import FieldDoesNotExist
from django.db import models, router

from mcp_django.core.compat import users
from mcp_django.core.compat.queries import PreparedList, PreparedQuery

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser
    from django.db.models import ManyToManyField, QuerySet

    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

#: Permissions of the user's own, and of the user's groups: names such as ``flights.view_flight``.
Sets = tuple[Collection[str], Collection[str]]

#: How many sets are remembered with a token: of tenants, and of users that it acts as.
_MAX_KEYS = 16


def put_onto_user(request: MCPRequest) -> None:
    """Read what ModelBackend would read of the request's user, unless it was read before, and put it onto the user.

    Where ModelBackend might read something else, nothing is done, and it reads by itself. The permissions are
    remembered with the token, under the user and what ``MCPSite.remember_key`` says that they depend on.
    """
    missing = Missing.of(request)
    if missing is not None:
        missing.put(_query(get_user_model()).fetch(missing.alias, request.user.pk))


class Missing:
    """The permissions of a request's user that must be read, from the database ``alias``."""

    __slots__ = ("_known", "_name", "_user", "alias")

    def __init__(self, user: Any, alias: str, known: dict[Hashable, Sets] | None, name: Hashable) -> None:
        self._user = user
        self.alias = alias
        #: Where they are remembered, if they are, and under which name.
        self._known, self._name = known, name

    @classmethod
    def of(cls, request: MCPRequest) -> Missing | None:
        """None where nothing is to be read here. Permissions that are remembered are put onto the user."""
        user: Any = request.user
        if user.pk is None or getattr(user, "is_superuser", False) or users.has_permissions(user):
            return None
        model, backends = get_user_model(), tuple(settings.AUTHENTICATION_BACKENDS)
        if not (isinstance(user, model) and user.is_active and _are_in_tables(backends, model)):
            return None
        known, key = _memory(request)
        # An authentication class of the project may let a token act as another user than its own.
        name = user.pk, key
        if found := known.get(name):
            users.keep_permissions(user, *found)
            return None
        alias = router.db_for_read(Permission, instance=user)
        # A router may read them from several databases.
        is_one = router.db_for_read(Permission) == alias
        return cls(user, alias, None if key is None else known, name) if is_one else None

    def put(self, rows: Iterable[Sequence[Any]]) -> None:
        """Put them onto the user, from rows of ``permissions_of``, and remember them."""
        own: set[str] = set()
        of_groups: set[str] = set()
        for is_own, label, codename, *_ in rows:
            (own if is_own else of_groups).add(f"{label}.{codename}")
        found = _shared(frozenset(own)), _shared(frozenset(of_groups))
        if self._known is not None:
            if len(self._known) >= _MAX_KEYS:
                self._known.clear()
            self._known[self._name] = found
        users.keep_permissions(self._user, *found)


def are_at_hand(site: Site, request: MCPRequest, principal: Principal) -> bool:
    """Whether ``put_onto_user`` needs neither the database nor code of the project for this user."""
    user, model = principal.user, get_user_model()
    if user.pk is None or getattr(user, "is_superuser", False):
        return True
    if not (isinstance(user, model) and _are_in_tables(tuple(settings.AUTHENTICATION_BACKENDS), model)):
        return True
    known = remembered(principal)
    if known is None or site.has_remember_key:
        return False
    key = site.remember_key(request)
    return key is not None and (user.pk, key) in known


def _memory(request: MCPRequest) -> tuple[dict[Hashable, Sets], Hashable | None]:
    """The sets that are remembered with the request's token, and what they depend on; None: nothing is remembered."""
    known = remembered(request.mcp.principal)
    site = getattr(request.mcp, "site", None)
    if known is None or site is None:
        return {}, None
    return known, site.remember_key(request)


def are_in_tables() -> bool:
    """Whether every ModelBackend finds permissions in the tables of django.contrib.auth, in Django's own way."""
    return _are_in_tables(tuple(settings.AUTHENTICATION_BACKENDS), get_user_model())


@lru_cache(maxsize=8)
def _are_in_tables(backends: tuple[str, ...], user_model: type[models.Model]) -> bool:
    if not (issubclass(user_model, PermissionsMixin) and users.finds_by_tables()):
        return False
    try:
        # A user model may leave them out by ``groups = None``.
        return bool(user_model._meta.get_field("groups") and user_model._meta.get_field("user_permissions"))
    except FieldDoesNotExist:
        return False


@lru_cache(maxsize=1_000)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """The first of equal sets: users of the same groups share one, which is most of what is remembered of a token."""
    return names


@lru_cache(maxsize=8)
def _query(user_model: type[models.Model]) -> PreparedQuery:
    def make(user: Any) -> QuerySet[Any, Any]:
        own, of_groups = permissions_of(user)
        # From Django 6.1 on, a union has the order of the model too.
        return own.union(of_groups, all=True).order_by()

    return PreparedQuery(make, user_model._meta.pk)


def permissions_of(user: Any, *more: Any) -> tuple[QuerySet[Any, Any], QuerySet[Any, Any]]:
    """The permissions of a user's own, and of the user's groups. ``user`` is the key, or an expression for it.

    Their rows have a mark, 1 and 0, the label of the app, the codename, and ``more`` columns.
    """

    def rows(is_own: bool, **conditions: Any) -> QuerySet[Any, Any]:
        mark = models.Value(int(is_own), output_field=models.IntegerField())
        found = Permission.objects.order_by().filter(**conditions)
        return found.values_list(mark, "content_type__app_label", "codename", *more)

    holder, member = _query_name("user_permissions"), _query_name("groups")
    return rows(True, **{holder: user}), rows(False, **{f"group__{member}": user})


def of_users(asked: Iterable[AbstractBaseUser | AnonymousUser]) -> dict[Any, Sets]:
    """The permissions by user key, as ModelBackend finds them. Users with theirs in another database are left out."""
    if get_user_model()._meta.pk.is_relation:
        return {}  # Django compiles a list of related keys only for its own values.
    alias = router.db_for_read(Permission)
    # A project may keep users with their permissions in several databases.
    keys = [user.pk for user in asked if router.db_for_read(Permission, instance=user) == alias]
    by_holder, by_member, by_group = _queries(get_user_model())
    own = _names_by(by_holder.fetch(alias, keys))
    groups: dict[Any, set[Any]] = defaultdict(set)
    for user, group in by_member.fetch(alias, keys):
        groups[user].add(group)
    of_group = _names_by(by_group.fetch(alias, set().union(*groups.values())))
    # Many users are in the same groups, and share a set.
    of_groups: dict[frozenset[Any], frozenset[str]] = {}
    found: dict[Any, Sets] = {}
    for key in keys:
        some = frozenset(groups[key])
        if some not in of_groups:
            of_groups[some] = _shared(frozenset().union(*(of_group[group] for group in some)))
        found[key] = _shared(frozenset(own[key])), of_groups[some]
    return found


@lru_cache(maxsize=8)
def _queries(user_model: type[models.Model]) -> tuple[PreparedList, PreparedList, PreparedList]:
    """For users: the permissions of their own, and their groups; for groups, their permissions."""
    holder, member = _query_name("user_permissions"), _query_name("groups")

    # The condition comes before the values: only then do both use the same join.
    def permissions(by: str) -> Callable[[list[Any]], QuerySet[Any, Any]]:
        columns = by, "content_type__app_label", "codename"
        return lambda keys: Permission.objects.order_by().filter(**{f"{by}__pk__in": keys}).values_list(*columns)

    def groups(keys: list[Any]) -> QuerySet[Any, Any]:
        return Group.objects.order_by().filter(**{f"{member}__pk__in": keys}).values_list(member, "pk")

    return (
        PreparedList(permissions(holder), user_model._meta.pk),
        PreparedList(groups, user_model._meta.pk),
        PreparedList(permissions("group"), Group._meta.pk),
    )


def _names_by(rows: Iterable[Any]) -> dict[Any, set[str]]:
    """Holder → names of permissions, as ``flights.view_flight``, from rows with their parts."""
    found: dict[Any, set[str]] = defaultdict(set)
    for key, label, codename in rows:
        found[key].add(f"{label}.{codename}")
    return found


def remembered(principal: Principal) -> dict[Hashable, Sets] | None:
    """The sets that are remembered with a principal's token, by user and key; None where no token is remembered."""
    return getattr(principal.auth, "known_permissions", None)


def _query_name(field: str) -> str:
    """The name by which a filter on permissions, or on groups, reaches users. A user model may choose it."""
    related = cast("ManyToManyField[Any, Any]", get_user_model()._meta.get_field(field))
    return related.related_query_name()
