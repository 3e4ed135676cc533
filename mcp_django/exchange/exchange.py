"""One request being answered: what its transport lends to the handler, and how a handler talks to its client."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from mcp_types import LOG_LEVEL_META_KEY

from mcp_django.conf import MAX_MESSAGE_BYTES
from mcp_django.db.interrupts import Interruptible
from mcp_django.exceptions import MissingCapability, ToolError
from mcp_django.exchange.questions import (
    Answers,
    Elicitation,
    Elicited,
    InputRequired,
    Question,
    Root,
    Roots,
    Sampled,
    Sampling,
    URLElicitation,
    declares,
)
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.extensions import TASKS_CAPABILITY, TASKS_EXTENSION
from mcp_django.protocol.jsonrpc import is_request_id, notification_message
from mcp_django.protocol.projection import progress_params, question_params
from mcp_django.protocol.revisions import ERAS, LEGACY, NEWEST, Era
from mcp_django.types import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.push.listeners import Listener
    from mcp_django.push.subscriptions import Subscription
    from mcp_django.sites import MCPSite

RequestId = int | str

#: From the least to the most severe (RFC 5424 §6.2.1).
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
#: What a legacy session is told until it says otherwise.
DEFAULT_LOG_LEVEL = "info"

_CANNOT_ASK = (
    "This needs an answer of the client's user, and the connection cannot carry the question: it takes a session over "
    "an ASGI server, with Accept: text/event-stream, and no batch."
)
_NEEDS_TASKS = f"This takes long, and needs a client that knows tasks (the extension {TASKS_EXTENSION} of 2026-07-28)."


class TaskStarted(BaseException):
    """Ends the run of a tool that goes on as a task. No ``except Exception`` stops it, on purpose."""


class Session(Protocol):
    """A legacy session, wherever it is kept: in the database (HTTP) or in its connection (WebSocket)."""

    revision: str
    client: Client
    #: Messages below it are not for this client.
    log_level: str

    def set_log_level(self, level: str) -> None:
        """Remember what the client wants to be told."""

    def subscribe(self, subscription: Subscription) -> None:
        """Remember the subscription. Raises LimitExceeded."""

    def unsubscribe(self, uri: str) -> None:
        """Forget it; an unknown URI is no error."""


class RequestHeaders(Protocol):
    """The HTTP headers of a request, by lower-case name."""

    @property
    def repeated(self) -> Collection[str]:
        """The names of those that were sent more than once."""

    def get(self, name: str) -> str | None: ...

    def decoded(self, name: str) -> str | None:
        """The value that a header stands for, which may be encoded; None where it is absent or malformed."""


class Connection(Protocol):
    """What a transport offers beside the answer."""

    #: Whether notifications can be delivered on it.
    push: bool
    #: The headers that must repeat what the body of a modern request says; None where a request has none.
    headers: RequestHeaders | None = None

    @property
    def can_ask(self) -> bool:
        """Whether a request of ours reaches the client while its own is being answered, and the answer to it us."""

    @property
    def message_limit(self) -> int:
        """The longest message that the answer may be now, in bytes; it may be more than MAX_RESULT_BYTES."""
        return MAX_MESSAGE_BYTES

    def send(self, message: JSON) -> None:
        """Send a message that belongs to the request, ahead of its answer; from a worker. Never waits."""

    def close_stream(self, retry_ms: int) -> None:
        """Let the client go, who will come back for the rest of the request's messages; where it can."""

    def open_session(self, revision: str, client: Client) -> None:
        """Start the legacy session that ``initialize`` asked for."""

    def attach(self, listener: Listener) -> None:
        """Give the listener to the hub before its subscriptions are looked up, so that no change falls between.

        Raises RequestCancelled where nobody is there any more to listen, and LimitExceeded.
        """

    def drop(self, listener: Listener, uris: Collection[str]) -> None:
        """Take back what the principal turned out not to see, with what was pending of it."""


class NoConnection(Connection):
    """Nobody is at the other end: of a task, which keeps what it says and asks, or of a look at what there is."""

    push = False
    can_ask = False

    def send(self, message: JSON) -> None: ...

    def close_stream(self, retry_ms: int) -> None: ...

    def open_session(self, revision: str, client: Client) -> None: ...

    def attach(self, listener: Listener) -> None: ...

    def drop(self, listener: Listener, uris: Collection[str]) -> None: ...


@dataclass(slots=True, weakref_slot=True, eq=False)
class Cancellation:
    """Whether the request is to stop. Set by the transport, read by the handler and by the writer."""

    cancelled: bool = False
    #: Whether it stops since it took too long, so that its client waits for an answer still.
    expired: bool = False
    #: The database connections that work for the request.
    queries: Interruptible = field(default_factory=Interruptible)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _callbacks: list[Callable[[], object]] = field(default_factory=list)

    def cancel(self) -> None:
        """The client has given the request up."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self.cancelled = True
        for callback in callbacks:
            callback()

    def expire(self) -> None:
        """The request has had its time."""
        self.expired = True
        self.cancel()

    def begin_again(self) -> None:
        """The handler is about to run once more."""
        self.queries = Interruptible()
        if self.cancelled:
            self.queries.interrupt()

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Call back once it is cancelled, in the thread that cancels; at once, if it is already."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()


@dataclass(slots=True)
class Told:
    """What the client was told while its request was answered, over all the runs of the handler."""

    progress: float = -math.inf
    logged: int = 0
    #: Log messages of this run so far: a run says again what the one before it said.
    repeated: int = 0


@dataclass(slots=True)
class Exchange:
    """A request of ``principal`` in one revision, with the Django request that the project's hooks are given.

    Handlers and hooks find it as ``request.mcp`` while the request is being answered.
    """

    site: MCPSite
    principal: Principal
    revision: str
    method: str
    params: JSON
    request_id: RequestId
    client: Client
    connection: Connection
    request: MCPRequest
    session: Session | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    #: What was answered in earlier rounds, and how many there were.
    answers: Answers = field(default_factory=Answers)
    round: int = 0
    _told: Told = field(default_factory=Told)

    @property
    def era(self) -> Era:
        return ERAS.get(self.revision, LEGACY)

    @property
    def cancelled(self) -> bool:
        """Whether the client has given the request up, or its time is over: a long handler asks now and then."""
        return self.cancellation.cancelled

    def renew(self, principal: Principal) -> None:
        """Go on for the principal as it is now; what was found out for it as it was is forgotten."""
        is_running = self.request.mcp is self
        self.principal = principal
        self.request.for_principal(principal)
        if is_running:
            self.request.mcp = self

    # Telling the client.

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far the work is, if it asked for that. What does not grow is not told."""
        token = self.params.get("_meta", {}).get("progressToken")
        # What may be an id may be a token. A longer one would come back with each notification.
        if not is_request_id(token) or not math.isfinite(progress) or progress <= self._told.progress:
            return
        self._told.progress = progress
        params: JSON = {"progressToken": token, "progress": progress}
        if total is not None and math.isfinite(total):
            params["total"] = total
        if message:
            params["message"] = message
        self._send("notifications/progress", progress_params(params, self.revision))

    def log(self, level: LogLevel, data: Any, logger: str = "") -> None:
        """Send a line of log to the client, if it wants lines of this level: a text, or anything that JSON can say.

        It is read by a model, and kept by a client: no secrets. Raises ValueError for an unknown level.
        """
        threshold = self._log_level()
        if LOG_LEVELS.index(level) < (len(LOG_LEVELS) if threshold is None else LOG_LEVELS.index(threshold)):
            return
        self._told.repeated += 1
        if self._told.repeated <= self._told.logged:
            return
        self._told.logged = self._told.repeated
        params: JSON = {"level": level, "data": data}
        if logger:
            params["logger"] = logger
        self._send("notifications/message", params)

    def _send(self, method: str, params: JSON) -> None:
        # On the stream of a listen goes nothing but what it listens to (2026-07-28 patterns/subscriptions).
        if self.method != "subscriptions/listen":
            self.connection.send(notification_message(method, params))

    def close_stream(self, retry_ms: int = 500) -> None:
        """Let a client of a stored session go until the work is done: it comes back for the answer.

        For work that takes longer than proxies keep a connection open. Where the client cannot come back (revisions
        other than 2025-11-25, sockets) nothing happens (2025-11-25 basic/transports#sending-messages-to-the-server).
        """
        self.connection.close_stream(retry_ms)

    def _log_level(self) -> str | None:
        if self.era.enveloped:
            level: str | None = self.params.get("_meta", {}).get(LOG_LEVEL_META_KEY)
            return level
        return None if self.session is None else self.session.log_level

    # Going on as a task.

    @property
    def knows_tasks(self) -> bool:
        """Whether the client knows the tasks extension."""
        return self.era.enveloped and declares(self.client.capabilities, TASKS_CAPABILITY)

    def as_task(self, *, required: bool = False) -> None:
        """Let a call of a tool go on as a task, if its client knows tasks; where it is one already, go on.

        The run ends here, and a worker runs the tool again from the top, with the answers that were given so far: so
        nothing with an effect may stand before it. Questions before it are asked in the call, those after it in the
        task. Where the client knows no tasks, or the server runs none, the tool goes on as it is; with ``required``
        MissingCapability or ToolError is raised instead. The tool is declared with ``task="later"``.
        """
        if self.method != "tools/call":
            return
        if not self.knows_tasks:
            if required:
                raise MissingCapability(TASKS_CAPABILITY, _NEEDS_TASKS)
        elif self.site.can_run_task(self.principal):
            raise TaskStarted
        elif required:
            raise ToolError("This takes long, and the server cannot run it as a task.")

    # Asking the client. Each question ends the run until it is answered: see ``protocol.questions``.

    def supports(self, capability: str) -> bool:
        """Whether the client declared a capability, as ``elicitation``, ``elicitation.url`` or ``sampling.tools``."""
        required: JSON = {}
        for name in reversed(capability.split(".")):
            required = {name: required}
        return declares(self.client.capabilities, required)

    def elicit(
        self,
        message: str,
        schema: JSON | type[BaseModel],
        *,
        key: str = "",
        trusted: bool = True,
        single_use: bool = False,
    ) -> Elicited:
        """Ask the user to fill a form in. See ``Elicitation``; raises MissingCapability."""
        return self._ask_one(key, "elicitation", Elicitation(message, schema, trusted, single_use))  # type: ignore[no-any-return]

    def elicit_url(
        self, message: str, url: str, *, key: str = "", trusted: bool = True, single_use: bool = False
    ) -> Elicited:
        """Ask the user to open a page. See ``URLElicitation``; raises MissingCapability."""
        return self._ask_one(key, "elicitation", URLElicitation(message, url, trusted, single_use))  # type: ignore[no-any-return]

    def sample(
        self,
        messages: str | Sequence[JSON],
        *,
        max_tokens: int,
        system_prompt: str = "",
        key: str = "",
        trusted: bool = True,
        single_use: bool = False,
        **options: Any,
    ) -> Sampled:
        """Let the client's model write a message. See ``Sampling``; raises MissingCapability."""
        question = Sampling(messages, max_tokens, system_prompt, options, trusted, single_use)
        return self._ask_one(key, "sampling", question)  # type: ignore[no-any-return]

    def list_roots(self, *, key: str = "", trusted: bool = True) -> list[Root]:
        """The folders that the client works on. Raises MissingCapability."""
        return self._ask_one(key, "roots", Roots(trusted))  # type: ignore[no-any-return]

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask several questions at once. ``{key: Elicited, Sampled or list of Root}``. Raises MissingCapability."""
        try:
            return self.answers.get(questions, self.client.capabilities)
        except InputRequired as asked:
            for key, question in asked.questions.items():
                if not self.era.enveloped and not self.connection.can_ask:
                    raise MissingCapability(question.capability, _CANNOT_ASK) from None
                self.question_params(key, question)
            raise

    def _ask_one(self, key: str, kind: str, question: Question) -> Any:
        key = key or self.answers.next_key(kind)
        return self.ask({key: question})[key]

    def question_params(self, key: str, question: Question) -> JSON:
        """The params of the question as the client's revision knows it. Raises MissingCapability."""
        return question_params(question.method, key, question.to_params(), self.revision)

    def begin_again(self) -> None:
        """The handler is about to run from the top, with the answers that there are now."""
        self.round += 1
        self._told.repeated = 0
        self.answers.begin()
        self.cancellation.begin_again()
        self.request = self.request.copy().for_principal(self.principal)


def inspection_exchange(
    site: MCPSite, request: MCPRequest, method: str, connection: Connection | None = None
) -> Exchange:
    """An exchange that no client began, to find out what the request's principal may use."""
    exchange = Exchange(
        site=site,
        principal=request.mcp.principal,
        revision=NEWEST,
        method=method,
        params={},
        request_id=0,
        client=Client(),
        connection=connection or NoConnection(),
        request=request,
    )
    request.mcp = exchange
    return exchange
