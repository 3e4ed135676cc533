"""Whether a principal may use something: its scope, what an administrator decided, and the project's own permission.

Every list, call, resource, prompt and open stream asks here. To a client, something refused looks as if it did not
exist, whatever the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from contextlib import AbstractContextManager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import DatabaseError
from django.urls import NoReverseMatch, reverse

from mcp_django.access import overrides, user_permissions
from mcp_django.conf import get_conf
from mcp_django.core.hooks import call_hook
from mcp_django.exchange import scopes
from mcp_django.exchange.audience import own_page_path
from mcp_django.protocol.errors import InsufficientScope

if TYPE_CHECKING:
    from mcp_django.access.overrides import Override
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site


class Decision(Enum):
    """May the principal use it, and if not, why? The reason is for logs and administrators, never for the client."""

    ALLOWED = "allowed"
    #: The credential lacks the scope. Nothing else was asked.
    NO_SCOPE = "no scope"
    #: It may change data, or belongs to a change, and MCP["READ_ONLY"] lets no agent change any.
    READ_ONLY = "read only"
    #: An administrator switched it off.
    SWITCHED_OFF = "switched off"
    #: An administrator restricted it to groups, and the user is a member of none of them.
    NO_GROUP = "no group"
    #: The project's own hook refused, or failed.
    NO_PERMISSION = "no permission"
    #: The project does not let agents write it.
    NOT_WRITABLE = "not writable"


#: Lists compare with it for each of their items, and reading a member of an Enum is slow.
ALLOWED = Decision.ALLOWED


def decide(
    request: MCPRequest,
    scope: str,
    override: Override | None,
    hook: Callable[[MCPRequest], bool] | None,
    *name: object,
) -> Decision:
    """Decide whether the request's principal may use something that needs ``scope`` and that ``hook`` allows.

    The scope comes first, since no hook of the project may run for a credential without it. Where administrators
    cannot override, there is no override, and where the project has nothing to say, no hook. A hook that fails refuses,
    and is logged by its ``name``. Raises OperationalError while a database is away, and what the hook raised in a
    request that was given up: neither is an answer (see ``hooks.call_hook``).
    """
    if not has_scope(request, scope):
        return Decision.NO_SCOPE
    if override is not None and (decision := decide_by_override(request, override)) is not ALLOWED:
        return decision
    if hook is None:
        return ALLOWED
    user_permissions.put_onto_user(request)
    if call_hook(partial(hook, request), False, *name):
        return ALLOWED
    return Decision.NO_PERMISSION


def decide_by_override(request: MCPRequest, override: Override) -> Decision:
    """Decide by what an administrator decided alone: scope and hook are asked elsewhere."""
    if not override.enabled:
        return Decision.SWITCHED_OFF
    if override.restricted and not _is_member(request, override.groups):
        return Decision.NO_GROUP
    return ALLOWED


def decides_alone(override: Override) -> bool:
    """Whether the override decides without the user's groups, which are in the database."""
    return not (override.enabled and override.restricted)


def has_scope(request: MCPRequest, scope: str) -> bool:
    """Whether the credential of the request's principal grants the scope.

    While a tool is used, the scope ``tool:NAME`` grants whatever that tool needs: see ``using_tool``.
    """
    if request.is_api_only and not scopes.is_of_api(scope):
        return False
    held = _held(request)
    if scopes.grant(held, scope) or scopes.of_tool(request.used_tool) in held:
        return True
    return request.supposed is not None and _suppose(request, scope)


def _held(request: MCPRequest) -> frozenset[str]:
    """The scopes of the request's principal at this moment. Lists ask for each item, and mostly nothing is lent."""
    principal = request.mcp.principal
    return principal.scopes if principal.lent else principal.lasting


class supposing(AbstractContextManager[set[str]]):
    """Within the block, decide as if an OAuth client had every scope that it may get. Gives those that were needed.

    A client can ask its user for more scopes, so it is shown what they would open. For other credentials nothing
    changes: the person who made them decided what they open.
    """

    __slots__ = ("_before", "_request")

    def __init__(self, request: MCPRequest) -> None:
        self._request = request

    def __enter__(self) -> set[str]:
        request = self._request
        self._before = request.supposed
        needed: set[str] = set()
        if request.mcp.principal.grant_id is not None:
            request.supposed = needed
        return needed

    def __exit__(self, *_: object) -> None:
        self._request.supposed = self._before


def check_scopes(request: MCPRequest, is_allowed: Callable[[], object]) -> None:
    """Raises InsufficientScope where something refused would be allowed with scopes that the client can ask for."""
    with supposing(request) as needed:
        if request.supposed is None or not is_allowed():
            return
    if needed:
        held = _held(request)
        raise InsufficientScope(scopes.parse(scopes.least(needed)), scopes.parse(scopes.least(held | needed)))


def has_declined(request: MCPRequest, needed: Iterable[str], tool: object) -> bool:
    """Whether the user was asked for one of the scopes, or for the tool itself, and did not give it."""
    from mcp_django.models import Grant

    key = request.mcp.principal.grant_id
    given = Grant.objects.filter(pk=key).values_list("declined", flat=True).first() if key is not None else None
    declined = scopes.expand(given or ())
    return scopes.of_tool(str(tool)) in declined or any(scopes.grant(declined, one) for one in needed)


def _suppose(request: MCPRequest, scope: str) -> bool:
    """Whether the client may get the scope; then it is noted as needed."""
    site, named = getattr(request.mcp, "site", None), scopes.OF_ANY.get(scope, scope)
    if site is None or not can_be_granted(site, named):
        return False
    if request.supposed is not None:
        request.supposed.add(named)
    return True


class using_tool(AbstractContextManager[None]):
    """Within the block, a credential with the scope ``tool:NAME`` is granted whatever the tool of this name needs."""

    __slots__ = ("_before", "_name", "_request")

    def __init__(self, request: MCPRequest, name: str) -> None:
        self._request = request
        self._name = name

    def __enter__(self) -> None:
        request = self._request
        self._before = request.used_tool
        # A tool that lists other tools lends them none of its own rights.
        request.used_tool = self._name if scopes.of_tool(self._name) in _held(request) else ""

    def __exit__(self, *_: object) -> None:
        self._request.used_tool = self._before


def scopes_to_ask_for(site: Site) -> list[str]:
    """The scopes that an OAuth client is told to ask for, so that the first consent can give all that it will need.

    That is OAUTH_SCOPES, or else ``read``, with ``actions`` and ``write`` where a tool that needs them is switched on.
    While the database is away, the tools are on or off as the project declared them. Under READ_ONLY there is none that
    lets a client change data.
    """
    if wanted := get_conf().OAUTH_SCOPES:
        return scopes.parse(wanted if not get_conf().READ_ONLY else filter(_only_reads, scopes.expand(wanted)))
    try:
        rows = overrides.tools.of_site(site, fresh=False)
    except DatabaseError:
        rows = {}
    return scopes.parse({scopes.READ, *_needed_by_tools(site, rows)})


def _only_reads(scope: str) -> bool:
    """Whether the scope alone lets nobody change data. One for a tool opens nothing where that tool is closed."""
    return scope not in (scopes.ACTIONS, scopes.WRITE) and not scope.endswith(f":{scopes.WRITE}")


def can_be_granted(site: Site, scope: str) -> bool:
    """Whether an OAuth client may get the scope: one of those that it is told to ask for, or a part of one.

    A scope for one model, resource of the API, or tool is a part where there is such a one.
    """
    offered = scopes.expand(scopes_to_ask_for(site))
    return all(_is_part_of(offered, site, one) for one in scopes.expand([scope]))


def _is_part_of(offered: Set[str], site: Site, scope: str) -> bool:
    if scope in offered:
        return True
    if not scope.startswith("tool:"):
        is_there = scopes.is_of_some_model(scope) or scopes.resource_of(scope) in site.api_resources
        return scopes.grant(offered, scope) and is_there
    name = scope.removeprefix("tool:")
    tool = site.tools.get(name)
    # ``tool:NAME`` grants whatever the tool needs, such as reading every model, so its whole scope must be offered.
    if tool is not None:
        return tool.scope in offered
    saved = overrides.tools.of_site(site, fresh=False).get(name)
    return saved is not None and bool(saved.query) and scopes.READ in offered


def _needed_by_tools(site: Site, rows: Mapping[str, Override]) -> set[str]:
    """The scopes that the tools need, of those that are switched on."""
    return {
        tool.scope
        for name, tool in site.tools.items()
        # A row of a saved query decides nothing about a tool that was later declared under its name.
        if (rows[name].enabled if name in rows and not rows[name].query else tool.enabled_by_default)
        and not tool.is_closed
        # A tool of the scope ``write`` that only reads is for the tools that write, and those ask for the scope.
        and (tool.may_change or tool.scope != scopes.WRITE)
    }


def has_permission(request: MCPRequest, permission: str) -> bool:
    """Whether the request's user has the permission ``app.codename``. An empty one demands nothing."""
    return not permission or request.user.has_perm(permission)


def _is_member(request: MCPRequest, groups: frozenset[int]) -> bool:
    """Whether the user is in one of the groups. Users without groups, such as anonymous ones, are in none."""
    memberships = getattr(request.user, "groups", None)
    return memberships is not None and memberships.filter(pk__in=groups).exists()


def may_make_tokens(user: Any) -> bool:
    """Whether the user may make tokens of their own outside of the admin."""
    return bool(get_conf().SELF_SERVICE) and may_connect(user)


def page_for_tokens(user: Any) -> str | None:
    """The path of the page where the user makes a token, *My agent* or the form in the admin; None without one."""
    if may_make_tokens(user) and (own := own_page_path()) is not None:
        return own
    if not (getattr(user, "is_staff", False) and user.has_perm("mcp_django.add_accesstoken")):
        return None
    try:
        return reverse("admin:mcp_django_accesstoken_add")
    except NoReverseMatch:
        return None


def may_connect(user: Any) -> bool:
    """Whether the user may connect agents at all, by logging in or with a token of their own (OAUTH_USERS)."""
    rule: str | Callable[[Any], bool] = get_conf().OAUTH_USERS
    if not user.is_active:
        return False
    if callable(rule):
        return bool(rule(user))
    return not rule or bool(user.has_perm(rule))
