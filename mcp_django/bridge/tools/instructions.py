"""What an agent is told first: as whom it acts, what it may do, in which time zone, and how to ask.

It is written for the principal of the request, so it names nothing that this principal could not list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from django.apps import apps
from django.conf import settings
from django.db import OperationalError
from django.utils import timezone

from mcp_django.access.permissions import Decision
from mcp_django.access.throttling import budgets
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.query import QueryTool
from mcp_django.conf import get_conf
from mcp_django.core.hooks import call_hook
from mcp_django.exchange import scopes

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

#: The longest text of ours, which a client adds to every conversation.
MAX_BYTES = 1_200
#: Models are named one by one up to this number, and otherwise by their apps.
_MAX_NAMED_MODELS = 12
_NAME_CHARS = 60

#: How to ask with a tool, said where the tool can be called.
_HOW = {
    "describe_models": "Call describe_models with a model before you ask: it names the fields and the lookups.",
    "find_records": (
        "find_records gives rows, as columns and rows; next_cursor, passed as cursor, gives the next page. Ask for a "
        'span of time as a range: {"created__gte": "2013-07-01", "created__lt": "2013-08-01"}.'
    ),
    "describe_form": (
        "To write: describe_form, then create_record, update_record or delete_record, which show what they would do, "
        "and do it when you call them again with confirm."
    ),
    "describe_api": (
        "describe_api names the operations of this project's API, and what one takes; call_api calls those that read, "
        "change_api the others, after a plan."
    ),
    "aggregate_records": "aggregate_records counts and computes over all rows in one call: do not count pages of rows.",
}


def instructions(exchange: Exchange) -> str:
    """The project's own words, then ours in at most MAX_BYTES. A hook that fails has nothing to say."""
    site = exchange.site
    own = ""
    if not exchange.request.is_api_only:  # The project's middleware has not let anybody in who would read it.
        own = call_hook(partial(_own, exchange), "", type(site).__name__, "get_instructions")
    try:
        ours = call_hook(lambda: _introduction(exchange), "", "mcp_django.bridge.tools.instructions")
    except OperationalError:
        # While the database is away a client still learns what this server is.
        ours = ""
    return "\n\n".join(text for text in (own, ours) if text)


def _own(exchange: Exchange) -> str:
    return str(exchange.site.get_instructions(exchange.request))


def about(exchange: Exchange) -> list[str]:
    """The same in lines and without the models, for agents that read only the results of tools."""
    tools, changes = _tools(exchange)
    return [
        _user(exchange),
        _changing(exchange, changes),
        *_budget(exchange),
        _zone(),
        *(_HOW[name] for name in _HOW if name in tools),
    ]


def _introduction(exchange: Exchange) -> str:
    user, *others = about(exchange)
    room = MAX_BYTES - len(" ".join([user, *others, ""]).encode())
    models = _models(Rights.of(exchange.site, exchange.request), room)
    return " ".join(filter(None, [user, _operations(exchange), models, *others]))


def _operations(exchange: Exchange) -> str:
    """How many operations of the project's API the credential reaches; empty where there are none."""
    if not exchange.site.api_resources:
        return ""
    reached = exchange.site.api.reached(exchange.request).values()
    count, resources = len(reached), len({one.resource for one in reached})
    return f"You reach {count} operations of the API, of {resources} resources." if count else ""


def _tools(exchange: Exchange) -> tuple[set[str], bool]:
    """The query tools that can be called, and whether a tool that may change data can be."""
    tools = exchange.site.tools.values()
    asked = [tool for tool in tools if isinstance(tool, QueryTool) or tool.name in _HOW]
    names: set[str] = set()
    for tool in catalog.usable(exchange, [*asked, *(tool for tool in tools if tool.may_change)]):
        if tool.may_change:
            return names, True
        names.add(tool.name)
    return names, False


def _user(exchange: Exchange) -> str:
    user = exchange.request.user
    if not user.is_authenticated:
        return "You act as an anonymous user."
    name = " ".join(str(user.get_username() or user).split())
    return f"You act as the user {name[:_NAME_CHARS]}."


def _models(rights: Rights, room: int) -> str:
    """How many models may be read, and those of their names that there is room for."""
    models = rights.models()
    if not models and rights.site.api_resources:
        return ""  # The site is there for its API.
    names: Sequence[str] = [model.label for model in models]
    of_apps = len(names) > _MAX_NAMED_MODELS
    if of_apps:
        names = [app for app, _ in Counter(model.model._meta.app_label for model in models).most_common()]
    beginning = f"You may read {len(models)} model{'' if len(models) == 1 else 's'}{' of the apps' if of_apps else ''}"
    listed = ", ".join(_fitting(names, room - len(beginning) - 10))
    return f"{beginning}{' ' if of_apps else ': '}{listed}." if listed else f"{beginning}."


def _fitting(names: Sequence[str], room: int) -> Iterator[str]:
    for name in names:
        room -= len(name.encode()) + 2
        if room < 0:
            yield "…"
            return
        yield name


def _changing(exchange: Exchange, changes: bool) -> str:
    if changes:
        return "Some of your tools change data; their annotations say which."
    changing = [tool for tool in exchange.site.tools.values() if tool.may_change and not tool.is_closed]
    if not changing or not get_conf().MENTION_SWITCHED_OFF:
        return "Your tools only read."
    reasons = catalog.withheld(exchange, changing)
    user = exchange.request.user
    lacks_permission = user.is_authenticated and not user.is_superuser
    if not reasons and not (lacks_permission and scopes.grant(exchange.principal.scopes, scopes.READ)):
        return "Your tools only read."
    if not reasons:
        return "Your tools only read: your user lacks the permission to change data. An administrator can give it."
    steps = []
    if Decision.SWITCHED_OFF in reasons:
        where = " in the Django admin" if apps.is_installed("django.contrib.admin") else ""
        steps.append(f"switch on tools that change data{where}")
    if missing := sorted(reasons.get(Decision.NO_SCOPE, ())):
        steps.append(f"give your token the scope{'s' * (len(missing) > 1)} {' and '.join(missing)}")
    return f"Your tools only read. A person can {' and '.join(steps)}."


def _budget(exchange: Exchange) -> list[str]:
    said = budgets.sentence(budgets.budget_of(exchange.principal, exchange.request))
    return [said] if said else []


def _zone() -> str:
    if not settings.USE_TZ:
        return "Date-times have no time zone."
    zone = timezone.get_current_timezone_name()[:_NAME_CHARS]
    return f"Date-times are in the time zone {zone}; without an offset they are read in it."
