"""resources/subscribe and resources/unsubscribe (legacy sessions), and subscriptions/listen (modern)."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_django.conf import get_conf
from mcp_django.exceptions import field_error
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import InvalidParams, ResourceNotFound, SessionRequired
from mcp_django.protocol.jsonrpc import (
    SUBSCRIPTION_ID_META_KEY,
    RequestId,
    error_message,
    notification_message,
    result_message,
)
from mcp_django.protocol.revisions import MODERN
from mcp_django.protocol.types import JSON
from mcp_django.push.listeners import LISTS, Listener
from mcp_django.push.subscriptions import watch
from mcp_django.server.tasks import watched


@dataclass(frozen=True, slots=True)
class Listen:
    """The answer to subscriptions/listen: a stream in the place of a result. Its first message has ``honoured``."""

    listener: Listener
    honoured: JSON

    def acknowledgement(self, request_id: RequestId) -> JSON:
        """The stream's first message."""
        params = {"notifications": self.honoured, "_meta": {SUBSCRIPTION_ID_META_KEY: request_id}}
        return notification_message("notifications/subscriptions/acknowledged", params)

    def completion(self, request_id: RequestId) -> JSON:
        """The stream's last message, if the server ends the stream."""
        if self.listener.why is not None:
            return error_message(request_id, self.listener.why, MODERN)
        return result_message(request_id, {"resultType": "complete", "_meta": {SUBSCRIPTION_ID_META_KEY: request_id}})


def subscribe(exchange: Exchange) -> JSON:
    """Watch one resource in this session. For the client, a resource that it may not read does not exist."""
    session = exchange.session
    if session is None:
        raise SessionRequired(exchange.method)
    uri = exchange.params["uri"]
    subscription = watch(exchange.site, uri)
    if subscription is None or not subscription.look(exchange.site, exchange.request):
        raise ResourceNotFound(uri, [] if subscription is None else subscription.errors)
    session.subscribe(subscription)
    # This second look records changes since the first one. The client is not notified of them, because it reads the
    # resource only now. The answer of a live query is compared with its answer of the first look.
    subscription.look(exchange.site, exchange.request)
    return {}


def unsubscribe(exchange: Exchange) -> JSON:
    if exchange.session is None:
        raise SessionRequired(exchange.method)
    exchange.session.unsubscribe(exchange.params["uri"])
    return {}


def listen(exchange: Exchange) -> Listen:
    """Open a stream for those of the wanted resources, lists and tasks that the principal may watch (2026-07-28
    patterns/subscriptions)."""
    wanted = exchange.params["notifications"]
    uris = list(dict.fromkeys(wanted.get("resourceSubscriptions") or ()))
    limit = get_conf().MAX_SUBSCRIPTIONS
    if len(uris) > limit:
        raise InvalidParams(
            f"A listen may watch at most {limit} resources (MAX_SUBSCRIPTIONS).",
            [field_error("notifications.resourceSubscriptions", f"more than {limit} URIs", uris)],
        )
    task_ids = watched(exchange, wanted)
    listener = Listener(
        site=exchange.site,
        principal=exchange.principal,
        request=exchange.request,
        revision=exchange.revision,
        subscription_id=exchange.request_id,
        lists=frozenset(name for name in LISTS if wanted.get(f"{name}ListChanged") is True),
        tasks=dict.fromkeys(task_ids),
        transport=exchange.connection.transport,
        client_name=exchange.client.name,
    )
    found = [subscription for uri in uris if (subscription := watch(exchange.site, uri)) is not None]
    listener.subscriptions = {subscription.uri: subscription for subscription in found}
    exchange.connection.attach(listener)
    there = [subscription.uri for subscription in found if subscription.look(exchange.site, exchange.request)]
    exchange.connection.drop(listener, {subscription.uri for subscription in found} - set(there))
    honoured: JSON = {f"{name}ListChanged": True for name in LISTS if name in listener.lists}
    if there:
        honoured["resourceSubscriptions"] = there
    if task_ids:
        honoured["taskIds"] = task_ids
    return Listen(listener, honoured)
