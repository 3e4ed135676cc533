"""The client: its requests, its answers to questions, and the notifications that it gets."""

from __future__ import annotations

import itertools
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from django.contrib.auth.models import AnonymousUser
from django.http.request import HttpHeaders

from mcp_django.access import overrides
from mcp_django.access.authentication import principals
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.sites import site as default_site
from mcp_django.conf import get_conf
from mcp_django.console.review.refusals import TrueReason
from mcp_django.core import failures
from mcp_django.exceptions import MCPError
from mcp_django.exchange import scopes as known_scopes
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import from_settings
from mcp_django.protocol.envelope import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_django.protocol.jsonrpc import SUBSCRIPTION_ID_META_KEY, notification_message, request_message
from mcp_django.protocol.revisions import NEWEST, REVISIONS, era_of
from mcp_django.protocol.types import JSON
from mcp_django.server import uploads
from mcp_django.test.answerer import Answerer, Elicit, Sample
from mcp_django.test.results import (
    CallRefused,
    PromptResult,
    ProtocolError,
    ResourceResult,
    ToolResult,
    result_of,
)
from mcp_django.test.switches import check_names
from mcp_django.transports.in_process import InProcess

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

_UPDATED = "notifications/resources/updated"
_CLIENT_INFO = {"name": "mcp_django.test", "version": "1"}
#: Between two questions for the state of a task that another process runs.
_POLL_SECONDS = 0.05
#: A task that is over.
_ENDED = ("completed", "failed", "cancelled")


class MCPClient:
    """A client of a site, as ``user`` with a token of ``scopes``. Close it, or use it in a ``with`` statement.

    Without a user, it has no credentials, and the scopes of MCP["ANONYMOUS_SCOPES"]. ``elicit``, ``sample`` and
    ``roots`` answer what the server asks: the client declares those that it is given. ``tasks``: it knows tasks, and
    follows a call that becomes one to its end. ``headers`` are those of its requests. ``switched_on`` are names of
    tools that are on for this client alone, such as actions of the admin, which start off: no row is written.

    Raises ValueError for an unknown revision, scope or tool. Its requests raise ProtocolError for an error of the
    protocol, the exception of the project's own code that has ended a request unless ``raise_exceptions`` is False, and
    TimeoutError if no answer comes within ``timeout`` seconds.
    """

    def __init__(
        self,
        user: AbstractBaseUser | AnonymousUser | None = None,
        scopes: Iterable[str] | None = None,
        *,
        revision: str = NEWEST,
        site: MCPSite = default_site,
        elicit: Elicit | None = None,
        sample: Sample | None = None,
        roots: Sequence[str] | None = None,
        tasks: bool = False,
        log_level: str = "info",
        headers: Mapping[str, str] | None = None,
        switched_on: Iterable[str] = (),
        raise_exceptions: bool = True,
        timeout: float = 30.0,
    ) -> None:
        if revision not in REVISIONS:
            raise ValueError(f"{revision!r} is no revision of the protocol; they are {', '.join(REVISIONS)}.")
        self.revision = revision
        self.timeout = timeout
        #: Every notification that has come, the oldest first.
        self.notifications: list[JSON] = []
        self._log_level = log_level
        self._is_modern = era_of(revision).enveloped
        self._is_open = self._is_modern
        self._answerer = Answerer(elicit, sample, roots, tasks=tasks and self._is_modern)
        self._ids = itertools.count(1)
        self._unread: deque[JSON] = deque()
        #: Modern listens: the id of each by the URI that it watches.
        self._listens: dict[str, int] = {}
        # Another test, whose rows are gone, may have had a user with the same key.
        principals.clear()
        overrides.forget()
        principal = _principal(user, scopes)
        request = from_settings().for_principal(principal)
        request.META.update({HttpHeaders.to_wsgi_name(name): value for name, value in (headers or {}).items()})
        self._site, self._principal, self._request = site, principal, request
        self._raises = raise_exceptions
        #: The exceptions of the project's code that have ended the present request.
        self._failures: list[BaseException] = []
        # Not a method, so that a client which nothing refers to can be closed.
        self._around = partial(_around, check_names(site, request, switched_on), self._failures.append)
        self._connection = InProcess(site, principal, request, self._around)
        self._end = weakref.finalize(self, self._connection.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection. A client that nothing refers to any more is closed by itself."""
        self._end()

    # Lists.

    def list_tools(self) -> list[JSON]:
        """The tools, of all pages."""
        return self._list("tools/list", "tools")

    def list_resources(self) -> list[JSON]:
        """The resources, of all pages."""
        return self._list("resources/list", "resources")

    def list_resource_templates(self) -> list[JSON]:
        """The resource templates, of all pages."""
        return self._list("resources/templates/list", "resourceTemplates")

    def list_prompts(self) -> list[JSON]:
        """The prompts, of all pages."""
        return self._list("prompts/list", "prompts")

    # Asking the server.

    def call(self, name: str, /, *, raise_on_error: bool = True, **arguments: Any) -> ToolResult:
        """Call a tool. A result with ``isError`` raises ToolError, or is returned if not ``raise_on_error``."""
        params = {"name": name, "arguments": arguments}
        found = self.request("tools/call", params)
        is_error, reason = found.get("isError", False), self._reason("tools/call", params)
        result = ToolResult(found["content"], found.get("structuredContent"), is_error, found, reason)
        if is_error and raise_on_error:
            raise CallRefused(result.text, result.errors, reason)
        return result

    def upload(self, content: bytes, name: str = "upload.txt", content_type: str = "") -> str:
        """Upload a file, and return its URI. Raises ProtocolError where the user may use nothing that takes one."""
        site, principal = self._site, self._principal
        request = self._request.copy().for_principal(principal, site)
        with self._around(), site.in_context(request):
            try:
                return uploads.store(site, request, content, name, content_type)
            except MCPError as error:
                raise ProtocolError(error.to_json(era_of(self.revision))) from None

    def read(self, uri: str) -> ResourceResult:
        """Read a resource."""
        return ResourceResult(self.request("resources/read", {"uri": uri})["contents"])

    def get_prompt(self, name: str, /, **arguments: str) -> PromptResult:
        """Get a prompt."""
        found = self.request("prompts/get", {"name": name, "arguments": arguments})
        return PromptResult(found["messages"], found.get("description", ""))

    def complete(self, of: str, argument: str, typed: str = "", **known: str) -> list[str]:
        """Suggestions for an argument of a prompt, by its name, or of a resource template, by its URI."""
        ref = {"type": "ref/resource", "uri": of} if "://" in of else {"type": "ref/prompt", "name": of}
        params: JSON = {"ref": ref, "argument": {"name": argument, "value": typed}}
        if known:
            params["context"] = {"arguments": known}
        values: list[str] = self.request("completion/complete", params)["completion"]["values"]
        return values

    def request(self, method: str, params: JSON | None = None) -> JSON:
        """The result of any request, once what it asks is answered. Raises ProtocolError."""
        self._open()
        self._failures.clear()
        given = dict(params or {})
        while True:
            result = self._ask(method, given)
            match result.get("resultType"):
                case "input_required":
                    given["inputResponses"] = self._answerer.answer_all(result["inputRequests"])
                    given.pop("requestState", None)
                    if "requestState" in result:
                        given["requestState"] = result["requestState"]
                case "task":
                    return self._end_of(result, self._reason(method, given))
                case _:
                    return result

    # Notifications.

    def subscribe(self, *uris: str) -> list[str]:
        """Watch resources. Returns those that are watched: those that the user may not see are left out."""
        self._open()
        return [uri for uri in uris if (self._listen_to(uri) if self._is_modern else self._subscribe_to(uri))]

    def unsubscribe(self, *uris: str) -> None:
        """Watch resources no longer."""
        for uri in uris:
            if not self._is_modern:
                self.request("resources/unsubscribe", {"uri": uri})
            elif uri in self._listens:
                given_up = {"requestId": self._listens.pop(uri)}
                self._connection.send(notification_message("notifications/cancelled", given_up))

    def watch_lists(self) -> None:
        """Get notifications when the lists of tools, prompts and resources change, as every legacy session does."""
        self._open()
        if self._is_modern:
            self._listen(dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True))

    def wait_for_update(self) -> str:
        """The URI of the next resource that has changed. Raises TimeoutError."""
        return str(self.wait_for(_UPDATED)["uri"])

    def wait_for(self, method: str) -> JSON:
        """The params of the next notification of the method. Raises TimeoutError."""
        message = self._take(method)
        end = time.monotonic() + self.timeout
        while message is None:
            self._receive(end, f"no {method} came")
            message = self._take(method)
        return message.get("params") or {}

    def updates(self) -> list[str]:
        """The URIs of the resources that have changed so far, in the order of their notifications."""
        for message in self._connection.receive_all():
            self._take_in(message)
        found = []
        while (update := self._take(_UPDATED)) is not None:
            found.append(update["params"]["uri"])
        return found

    # Connection.

    def _open(self) -> None:
        """Open the session of a legacy revision."""
        if self._is_open:
            return
        self._is_open = True
        opening = {
            "protocolVersion": self.revision,
            "capabilities": self._answerer.capabilities,
            "clientInfo": _CLIENT_INFO,
        }
        self._ask("initialize", opening)
        self._connection.send(notification_message("notifications/initialized"))
        self._ask("logging/setLevel", {"level": self._log_level})

    def _list(self, method: str, name: str) -> list[JSON]:
        found: list[JSON] = []
        cursor: JSON = {}
        while True:
            page = self.request(method, cursor)
            found += page[name]
            if "nextCursor" not in page:
                return found
            cursor = {"cursor": page["nextCursor"]}

    def _ask(self, method: str, params: JSON) -> JSON:
        """The result of one request. Raises ProtocolError, and the exception of the project's code."""
        request_id = self._send(method, params)
        end = time.monotonic() + self.timeout
        while True:
            message = self._receive(end, f"no answer to {method} came")
            if message.get("id") == request_id and "method" not in message:
                if self._raises and self._failures:
                    raise self._failures[0]
                return result_of(message, self._reason(method, params))

    def _reason(self, method: str, params: JSON) -> TrueReason:
        around, failed = self._around, tuple(self._failures)
        return TrueReason(self._site, self._principal, self._request, method, params, around, failed)

    def _send(self, method: str, params: JSON) -> int:
        request_id = next(self._ids)
        meta: JSON = {"progressToken": request_id} if method == "tools/call" else {}
        if self._is_modern:
            meta |= {
                PROTOCOL_VERSION_META_KEY: self.revision,
                CLIENT_CAPABILITIES_META_KEY: self._answerer.capabilities,
                CLIENT_INFO_META_KEY: _CLIENT_INFO,
                LOG_LEVEL_META_KEY: self._log_level,
            }
        self._connection.send(request_message(request_id, method, {**params, "_meta": meta} if meta else params))
        return request_id

    def _receive(self, end: float, what: str) -> JSON:
        """The next message, which is taken in. Raises TimeoutError."""
        try:
            message = self._connection.receive(max(0.0, end - time.monotonic()))
        except TimeoutError:
            raise TimeoutError(f"{what} within {self.timeout:g} seconds") from None
        self._take_in(message)
        return message

    def _take_in(self, message: JSON) -> None:
        """Keep a notification, and answer a question."""
        if "method" not in message:
            return
        if "id" in message:
            answer = self._answerer.answer(message["method"], message.get("params") or {})
            self._connection.send({"jsonrpc": "2.0", "id": message["id"], "result": answer})
        else:
            self.notifications.append(message)
            self._unread.append(message)

    def _take(self, method: str) -> JSON | None:
        """The oldest notification of the method that was not waited for yet."""
        found = next((message for message in self._unread if message["method"] == method), None)
        if found is not None:
            self._unread.remove(found)
        return found

    # Subscriptions.

    def _subscribe_to(self, uri: str) -> bool:
        try:
            self.request("resources/subscribe", {"uri": uri})
        except ProtocolError as error:
            if error.reason != "RESOURCE_NOT_FOUND":
                raise
            return False
        return True

    def _listen_to(self, uri: str) -> bool:
        listen_id, honoured = self._listen({"resourceSubscriptions": [uri]})
        if "resourceSubscriptions" in honoured:
            self._listens[uri] = listen_id
        return "resourceSubscriptions" in honoured

    def _listen(self, wanted: JSON) -> tuple[int, JSON]:
        """The id of a new listen, and what it honours. Raises ProtocolError."""
        listen_id = self._send("subscriptions/listen", {"notifications": wanted})
        end = time.monotonic() + self.timeout
        while True:
            message = self._receive(end, "no listen was acknowledged")
            if message.get("id") == listen_id:
                result_of(message, self._reason("subscriptions/listen", wanted))
            params = message.get("params") or {}
            is_acknowledged = message.get("method") == "notifications/subscriptions/acknowledged"
            if is_acknowledged and params["_meta"][SUBSCRIPTION_ID_META_KEY] == listen_id:
                return listen_id, params["notifications"]

    # Tasks.

    def _end_of(self, task: JSON, reason: TrueReason) -> JSON:
        """The result of a task, once it has ended. Raises ProtocolError."""
        which = {"taskId": task["taskId"]}
        end = time.monotonic() + self.timeout
        while True:
            now = self._ask("tasks/get", which)
            if now["status"] in _ENDED:
                break
            if now["status"] == "input_required":
                self._ask("tasks/update", {**which, "inputResponses": self._answerer.answer_all(now["inputRequests"])})
            elif time.monotonic() >= end:
                raise TimeoutError(f"the task did not end within {self.timeout:g} seconds")
            else:
                time.sleep(_POLL_SECONDS)
        if now["status"] == "completed":
            result: JSON = now["result"]
            return result
        raise ProtocolError(now.get("error") or {"code": 0, "message": "The task was cancelled."}, reason)


@contextmanager
def _around(switched_on: frozenset[str], hear: Callable[[BaseException], None]) -> Iterator[None]:
    with overrides.switching_on(switched_on), failures.heard_by(hear):
        yield


def _principal(user: AbstractBaseUser | AnonymousUser | None, scopes: Iterable[str] | None) -> Principal:
    """Raises ValueError for an unknown scope, and for scopes of its own without a user."""
    if user is None or user.pk is None:
        allowed = known_scopes.expand(known_scopes.known(get_conf().ANONYMOUS_SCOPES))
        if scopes is not None and frozenset(scopes) != allowed:
            raise ValueError('Without a user, the scopes come from MCP["ANONYMOUS_SCOPES"].')
        return Principal(AnonymousUser(), allowed)
    wanted = known_scopes.SCOPES if scopes is None else known_scopes.parse(scopes)
    return Principal(user, known_scopes.expand(wanted), source=Source.COMMAND)
