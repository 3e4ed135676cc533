"""Changes that wait for the click of their user, who agrees in the admin: shown live, and made as the agent would.

Each runs in a thread of its own, with an empty context and its own connections, through the project's middleware, by a
request like that of its agent and as its agent's user. So it is in no transaction of the request of the admin, it has
the tenant in which it was previewed, and packages that keep a history see the agent and not the person who clicks.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.contrib.auth.models import AnonymousUser
from django.utils import timezone
from django.utils.text import format_lazy
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.access import pauses
from mcp_django.access.changing_calls import calls
from mcp_django.access.permissions import using_tool
from mcp_django.access.read_only import is_read_only, read_only_ignored
from mcp_django.access.throttling import throttles
from mcp_django.bridge.callers import principal_of, request_from
from mcp_django.bridge.changes import applying, approvals, outcomes
from mcp_django.bridge.changes.approvals import NotApproved, Seen
from mcp_django.bridge.changes.change_rows import NotWaiting
from mcp_django.bridge.changes.run import StaleView
from mcp_django.bridge.changes.tenants import tenant_of
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.sites import MCPSite, all_sites
from mcp_django.bridge.tools import catalog
from mcp_django.conf import get_conf
from mcp_django.core.compat.inner_requests import SESSION, run_below_middleware
from mcp_django.core.middleware_policy import runs_below, socket_problem, unknown_middleware
from mcp_django.core.running.deadlines import deadlines
from mcp_django.core.running.own_thread import TooLate, in_own_thread_if_it_begins
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.requests import MCPRequest, from_view
from mcp_django.models import Change
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import Paused, TaskRefused, ToolNotFound
from mcp_django.protocol.names import printable
from mcp_django.protocol.revisions import NEWEST
from mcp_django.protocol.types import JSON
from mcp_django.server import dispatch, trail
from mcp_django.server.methods import Method

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import ChangingTool
    from mcp_django.bridge.changes.summaries import Line

logger = logging.getLogger("mcp_django")

T = TypeVar("T")
#: What is done with a change that waits, in a call of its agent.
Run = Callable[[Exchange, "ChangingTool", Change], T]

_GONE = _(
    "Its agent may no longer do this: a token, a permission or a tool was removed. Restore it, or let the agent's "
    "user end the change."
)
_READ_ONLY = _(
    'Agents change nothing on this server: MCP["READ_ONLY"] is True. The change waits; it can be made once that is '
    "False, or be rejected now."
)
_LACKS_SESSION = _(
    "The project's middleware looks into the login session, which an agent does not have, so it is not known for whom "
    "the change would be made. Do the work of that middleware in MCPSite.call_context."
)
_LACKS_QUERY = _(
    "The project's middleware looks into the query of the URL, which is not kept, so it is not known for whom the "
    "change would be made. Do the work of that middleware in MCPSite.call_context."
)
_LACKS_HEADER = _(
    "The project's middleware looks into {header} of the agent's request, which is not kept, so it is not known for "
    "whom the change would be made. Do the work of that middleware in MCPSite.call_context."
)
_BUSY = _(
    "The project's middleware waits for something that this page holds, such as a lock on a row, so it did not come to "
    "the change. Do the work of that middleware in MCPSite.call_context."
)
_UNDONE = _("The project's middleware has undone the change after it was made (status {status}).")
_MOVED = _("The agent's request leads to another tenant now than when it proposed this. Nothing was changed.")
_NOT_LET_IN = _("The project's middleware did not let the agent in (status {status}), as in a call.")


class _Admin(NoConnection):
    """The admin, where a person stands for the client.

    What the person agrees to is still done for the agent; what the person only looks at, or begins, is not.
    """

    transport = "admin"

    def __init__(self, *, is_of_agent: bool) -> None:
        self.is_of_agent = is_of_agent


class CannotApply(Exception):
    """The change cannot be shown or made. The text is for the user of the agent, and for the agent.

    ``may_tell_values``: only they may read it, since the project or a form may name values in it.
    """

    def __init__(self, text: Any, *, may_tell_values: bool = False) -> None:
        super().__init__(text)
        self.may_tell_values = may_tell_values


@dataclass(frozen=True, slots=True)
class Shown:
    """A change that waits, as it is now."""

    #: What a click on it brings back.
    digest: str
    #: What it does, for the user of its agent. Empty for a viewer.
    lines: Sequence[Line]
    #: As the viewer sees it; None where nobody was named.
    seen: Seen | None = None


#: In the origin of a change: a person began it in the admin, and not an agent.
BY_PERSON = "by_person"


def in_its_call(change: Change, run: Run[T]) -> T:
    """Run it as in a call of the change's tool, without changing anything. Raises CannotApply."""
    return _below_middleware(partial(_as_its_agent, change, run, is_call=False))


def shown(change: Change, viewer: Any = None) -> Shown:
    """What a change that waits would do now, also as a ``viewer`` sees it. Raises CannotApply and NotWaiting."""
    return in_its_call(change, partial(_show, viewer=viewer))


def approvers(change: Change, most: int) -> list[Any]:
    """People who may approve a change that waits, at most so many. Raises CannotApply and NotWaiting."""

    def find(exchange: Exchange, tool: ChangingTool, change: Change) -> list[Any]:
        return approvals.approvers(exchange, change, applying.propose_waiting(exchange, tool, change), most)

    return in_its_call(change, find)


def apply(change: Change, digest: str) -> JSON:
    """Make the change whose user was shown what the digest names. Raises CannotApply, StaleView and NotWaiting."""
    run = partial(applying.apply_waiting, shown=digest)
    return _below_middleware(partial(_as_its_agent, change, run, is_call=True))


def _below_middleware(run: Callable[[Callable[[], None]], T]) -> T:
    try:
        return in_own_thread_if_it_begins(run, get_conf().REQUEST_SECONDS or None)
    except TooLate:
        raise CannotApply(_BUSY) from None


def _show(exchange: Exchange, tool: ChangingTool, change: Change, viewer: Any) -> Shown:
    proposed = applying.propose_waiting(exchange, tool, change)
    digest = applying.shown_as(change, proposed)
    if viewer is None:
        return Shown(digest, proposed.summary(values=True))
    seen = approvals.seen_by(exchange, change, proposed, viewer)
    return Shown(digest, (), seen)


def _as_its_agent(change: Change, run: Run[T], begin: Callable[[], None], *, is_call: bool) -> T:
    """Run it as in a call of the agent, below the project's middleware, with the rights that the agent has now."""
    origin = from_json(change.origin)
    site = next((site for site in all_sites() if site.name == change.site), None)
    if site is None:
        raise CannotApply(_GONE)
    # An operation of the API passes the middleware by itself, as in the call of its agent.
    is_of_api = change.kind == Change.Kind.API
    if is_of_api or not _passes_middleware(origin):
        problem = socket_problem(site.has_call_context, "A change that was proposed beside HTTP, or past MIDDLEWARE,")
        if problem is not None and not is_of_api:
            raise CannotApply(problem)
        begin()
        return _in_a_call(change, site, request_from(origin), run, is_call=is_call)
    found: list[T] = []
    errors: list[BaseException] = []

    def user() -> Any:
        try:
            return principal_of(change, request_from(origin)).user
        except TaskRefused:
            return AnonymousUser()

    def check(lacking: Collection[str]) -> None:
        if lacking and runs_below(site.has_call_context):
            raise CannotApply(_lacking(min(lacking)))

    def view(request: Any, added: Mapping[str, Any], lacking: Collection[str]) -> None:
        try:
            begin()
            check(lacking)
            ours = request_from(origin, from_view(request).attributes(), added)
            # Middleware may choose a zone by the login, which the call did not have.
            with timezone.override(origin.get("zone")):
                found.append(_in_a_call(change, site, ours, run, is_call=is_call))
            # Nobody can click on what was not shown.
            check(lacking)
        except BaseException as error:  # noqa: BLE001 - no middleware may answer it
            errors.append(error)

    status, was_reached = run_below_middleware(origin, user, view)
    if errors:
        raise errors[0]
    if not was_reached:
        raise CannotApply(format_lazy(_NOT_LET_IN, status=status))
    if is_call and outcomes.waits(Change.objects.get(pk=change.pk)):
        raise CannotApply(format_lazy(_UNDONE, status=status))
    return found[0]


def _passes_middleware(origin: JSON) -> bool:
    """Whether a change is made below the project's middleware: as the call was, and where nothing is lost by it."""
    is_of_http: bool = origin.get("is_of_http", True)
    return bool(origin.get("is_below_middleware", is_of_http)) or (is_of_http and not unknown_middleware())


def _lacking(name: str) -> Any:
    """What middleware has looked for in vain, in words."""
    if name == SESSION:
        return _LACKS_SESSION
    if name == "QUERY_STRING":
        return _LACKS_QUERY
    header = name.removeprefix("HTTP_").replace("_", "-").title() if name.startswith("HTTP_") else name
    return format_lazy(_LACKS_HEADER, header=header)


def _in_a_call(
    change: Change,
    site: MCPSite,
    request: MCPRequest,
    run: Run[T],
    *,
    is_call: bool,
) -> T:
    found: list[T] = []
    refusals: list[Exception] = []

    def handle(exchange: Exchange) -> JSON:
        try:
            if change.tenant not in ("", tenant_of(site, exchange.request)):
                raise CannotApply(_MOVED)
            # What a person may do in the admin does not depend on what is offered to agents.
            by_person = _is_by_person(change)
            if is_call and (closed := why_closed(change)):
                raise CannotApply(closed)
            # What waits is shown under READ_ONLY too, so that it is known who may reject it.
            with nullcontext() if is_call else read_only_ignored():
                tool: Any = site.tools.get(change.tool) if by_person else catalog.find(exchange, change.tool)
            # A function that is declared again may have become one that only reads.
            if tool is None or not hasattr(tool, "propose"):
                raise ToolNotFound(change.tool)
            if is_call:
                calls.add(exchange)
            with using_tool(exchange.request, tool.name):
                found.append(run(exchange, tool, change))
        except (ToolError, InvalidQuery, StaleView, NotApproved, NotWaiting) as error:
            # As in a call, a refusal is a result, and no failure of the server.
            refusals.append(error)
            exchange.usage.fail(error.reason, getattr(error, "errors", ()))
            return {"isError": True}
        return {}

    def expire() -> None:
        exchange.cancellation.expire()
        exchange.cancellation.queries.interrupt()

    # Only showing a change is no call that changes data, so the trail gets no line of it.
    exchange = _exchange(change, site, request, is_call=is_call)
    seconds = get_conf().REQUEST_SECONDS
    try:
        with ExitStack() as around:
            if seconds:
                around.enter_context(deadlines.within(seconds, expire))
            if is_call:
                around.enter_context(trail.recorded(exchange))
                exchange.usage.found, exchange.usage.model = exchange.params["name"], change.model
                throttles.admit(exchange.principal, exchange.request, lambda: True)
            dispatch.run_method(exchange, Method(handle, (NEWEST,)))
        for error in refusals:
            raise error
    except ToolNotFound as error:
        raise CannotApply(_GONE) from error
    except Paused as paused:
        raise CannotApply(why_paused(paused)) from paused
    except (ToolError, InvalidQuery, MCPError) as error:
        raise CannotApply(outcomes.text_of(error), may_tell_values=True) from error
    except (StaleView, NotApproved, NotWaiting, CannotApply):
        raise
    except Exception as error:
        if (why := exchange.cancellation.why) is not None:
            raise CannotApply(why_paused(why) if isinstance(why, Paused) else why.message) from error
        logger.exception("A change of %s failed", change.user_name)
        raise CannotApply(outcomes.text_of(error), may_tell_values=True) from error
    return found[0]


def why_paused(paused: Paused) -> str:
    """Why a change is not made during a pause, for whoever has clicked."""
    reason = printable(paused.why) or gettext("nobody has said why")
    said = gettext("The agent is paused (%(reason)s), so its changes wait. Nothing is lost: agree once it may go on, "
                   "or reject it now.")  # fmt: skip
    return said % {"reason": reason}


def why_closed(change: Change) -> Any:
    """Why MCP["READ_ONLY"] lets nobody make the change; empty if it does not, as what a person undoes in the admin."""
    return _READ_ONLY if is_read_only() and not _is_by_person(change) else ""


def check_may_be_made(change: Change) -> None:
    """Raises CannotApply under READ_ONLY, and while the agent of the change is paused: no vote counts for later."""
    if closed := why_closed(change):
        raise CannotApply(closed)
    site = next((site for site in all_sites() if site.name == change.site), None)
    if site is None or _is_by_person(change):
        return
    try:
        pauses.check(site, principal_of(change, request_from(from_json(change.origin))))
    except Paused as paused:
        raise CannotApply(why_paused(paused)) from None
    except TaskRefused:
        raise CannotApply(_GONE) from None


def _is_by_person(change: Change) -> bool:
    return bool(from_json(change.origin).get(BY_PERSON, False))


def _exchange(change: Change, site: MCPSite, request: MCPRequest, *, is_call: bool) -> Exchange:
    """An exchange like that of the call in which the change was confirmed. Raises CannotApply."""
    try:
        principal = principal_of(change, request)
    except TaskRefused:
        raise CannotApply(_GONE) from None
    return Exchange(
        site=site,
        principal=principal,
        revision=NEWEST,
        method="tools/call" if is_call else "resources/read",
        params={"name": change.tool, "arguments": {}},
        request_id=change.key,
        client=Client(known_as=change.client_name),
        connection=_Admin(is_of_agent=is_call and not _is_by_person(change)),
        request=request.for_principal(principal),
    )
