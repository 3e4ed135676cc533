"""The method table: every method, with its handler, its revisions and what it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pydantic_core import SchemaValidator

from mcp_django.exchange.connection import RequestHeaders
from mcp_django.exchange.exchange import Exchange
from mcp_django.models import Call
from mcp_django.protocol.revisions import LEGACY_REVISIONS, MODERN_REVISIONS, REVISIONS
from mcp_django.protocol.types import JSON
from mcp_django.server import completion, lifecycle, prompts, resources, subscriptions, tasks, tools


@dataclass(frozen=True, slots=True)
class Method:
    handler: Callable[[Exchange], JSON | subscriptions.Listen]
    revisions: tuple[str, ...]
    #: Its modern result has ``ttlMs`` and ``cacheScope`` (2026-07-28 server/utilities/caching).
    cacheable: bool = False
    #: The method exists only where notifications can be delivered.
    needs_push: bool = False
    #: The method exists only on a site whose tools may become tasks.
    needs_tasks: bool = False
    #: Checks its params, if mcp-types does not know them.
    params: SchemaValidator | None = None
    #: Raises HeaderMismatch if a header of a modern request does not repeat the value in its body.
    check_headers: Callable[[Exchange, RequestHeaders], None] | None = None
    #: How the audit trail calls a request of the method. Without a kind, only refusals are written down.
    kind: str = ""
    #: The handler may read the database. If False, it runs on the event loop under ASGI.
    blocking: bool = True
    #: Answered to a caller who is paused too: a client that got an error would give the server up for good.
    while_paused: bool = False
    #: Its handler looks for a pause itself, in the overrides that it reads anyway.
    asks_for_pauses: bool = False


METHODS: Mapping[str, Method] = {
    "initialize": Method(lifecycle.initialize, LEGACY_REVISIONS, while_paused=True),
    "server/discover": Method(lifecycle.discover, MODERN_REVISIONS, cacheable=True, while_paused=True),
    "ping": Method(lifecycle.ping, LEGACY_REVISIONS, blocking=False, while_paused=True),
    "tools/list": Method(tools.list_tools, REVISIONS, cacheable=True),
    "tools/call": Method(
        tools.call_tool,
        REVISIONS,
        check_headers=tools.check_param_headers,
        kind=Call.Kind.CALL,
        asks_for_pauses=True,
    ),
    "resources/list": Method(resources.list_resources, REVISIONS, cacheable=True),
    "resources/templates/list": Method(resources.list_templates, REVISIONS, cacheable=True),
    "resources/read": Method(resources.read, REVISIONS, cacheable=True, kind=Call.Kind.READ),
    "prompts/list": Method(prompts.list_prompts, REVISIONS, cacheable=True),
    "prompts/get": Method(prompts.get_prompt, REVISIONS, kind=Call.Kind.PROMPT),
    "completion/complete": Method(completion.complete, REVISIONS, kind=Call.Kind.COMPLETION),
    "resources/subscribe": Method(
        subscriptions.subscribe, LEGACY_REVISIONS, needs_push=True, kind=Call.Kind.SUBSCRIPTION
    ),
    "resources/unsubscribe": Method(
        subscriptions.unsubscribe, LEGACY_REVISIONS, needs_push=True, kind=Call.Kind.SUBSCRIPTION
    ),
    "logging/setLevel": Method(lifecycle.set_level, LEGACY_REVISIONS),
    "subscriptions/listen": Method(
        subscriptions.listen, MODERN_REVISIONS, needs_push=True, kind=Call.Kind.SUBSCRIPTION
    ),
    "tasks/get": Method(tasks.get, MODERN_REVISIONS, needs_tasks=True, params=tasks.TASK_PARAMS),
    "tasks/update": Method(
        tasks.update, MODERN_REVISIONS, needs_tasks=True, params=tasks.UPDATE_PARAMS, kind=Call.Kind.TASK
    ),
    "tasks/cancel": Method(
        tasks.cancel, MODERN_REVISIONS, needs_tasks=True, params=tasks.TASK_PARAMS, kind=Call.Kind.TASK
    ),
}


#: Methods whose requests need neither the database nor long.
QUICK_METHODS = frozenset(name for name, method in METHODS.items() if not method.blocking)

#: Legacy methods that have no meaning without a session.
SESSION_METHODS = frozenset({"resources/subscribe", "resources/unsubscribe", "logging/setLevel"})

#: Methods whose handlers may ask the client and its user (2026-07-28 patterns/mrtr#supported-requests).
ASKING_METHODS = frozenset({"tools/call", "prompts/get", "resources/read"})
