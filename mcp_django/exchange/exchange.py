"""One request being answered, and how its handler talks to the client: ``request.mcp``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import IO, TYPE_CHECKING, Any, Literal

from mcp_django.exceptions import MissingCapability, ToolError
from mcp_django.exchange.answers import Answers
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.exchange.connection import Connection, LegacySession, NoConnection
from mcp_django.exchange.questions import (
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
from mcp_django.exchange.usage import Usage
from mcp_django.protocol.envelope import LOG_LEVEL_META_KEY, Client
from mcp_django.protocol.extensions import TASKS_CAPABILITY, TASKS_EXTENSION
from mcp_django.protocol.jsonrpc import RequestId, is_request_id, notification_message
from mcp_django.protocol.projection import progress_params, question_params
from mcp_django.protocol.revisions import ERAS, LEGACY, NEWEST, Era
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

#: From the least to the most severe (RFC 5424 §6.2.1).
LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
LogLevel = Literal["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]

#: The param of a call by which a client asks for chunks of its result, with a progress token or without.
STREAM_PARAM = "_stream"

_CANNOT_ASK = (
    "This needs an answer from the client's user, and this connection cannot ask. Use a session over an ASGI server, "
    "with Accept: text/event-stream and without a batch, or poll beside the request."
)
_CONFIRMED = "A change that was confirmed asks nothing more."
_NEEDS_TASKS = f"This takes long, and needs a client that knows tasks (the extension {TASKS_EXTENSION} of 2026-07-28)."


class TaskStarted(BaseException):
    """Ends the run of a tool that continues as a task. ``except Exception`` in a tool must not catch it."""


@dataclass(slots=True)
class Sent:
    """What was sent ahead of the answer to a request, over all the runs of its handler."""

    progress: float = -math.inf
    #: Whether the handler has reported progress of its own.
    is_reported: bool = False
    #: Parts of the result that went in chunks.
    parts: int = 0
    #: Held from the choice of a progress until it is sent: chunks are sent in several threads.
    lock: Lock = field(default_factory=Lock)
    logged: int = 0
    #: Log messages of this run so far. A run repeats those of the run before it, which are not sent again.
    repeated: int = 0


@dataclass(slots=True)
class Exchange:
    """A request of ``principal`` in one revision, with the Django request that the project's hooks receive.

    Handlers and hooks find it as ``request.mcp`` while the request is being answered.
    """

    site: Site
    principal: Principal
    revision: str
    method: str
    params: JSON
    request_id: RequestId
    client: Client
    connection: Connection
    request: MCPRequest
    session: LegacySession | None = None
    cancellation: Cancellation = field(default_factory=Cancellation)
    #: What administrators decided about tools, by name, if it was read before the tool is looked up.
    tool_overrides: Mapping[str, Any] | None = None
    #: What was answered in earlier rounds, and how many there were.
    answers: Answers = field(default_factory=Answers)
    round: int = 0
    #: What this run has read and changed.
    usage: Usage = field(default_factory=Usage)
    #: Files that this run has opened.
    files: list[IO[bytes]] = field(default_factory=list)
    sent: Sent = field(default_factory=Sent)
    #: Whether a confirmed change is being made. It runs once, so it asks nothing and becomes no task.
    is_confirmed: bool = False

    @property
    def era(self) -> Era:
        return ERAS.get(self.revision, LEGACY)

    @property
    def cancelled(self) -> bool:
        """Whether the client has given the request up, or its time is over. A long handler checks it now and then."""
        return self.cancellation.cancelled

    def renew(self, principal: Principal) -> None:
        """Replace the principal by the one that was read anew, and forget the rights of the old one."""
        is_running = self.request.mcp is self
        self.principal = principal
        self.request.for_principal(principal)
        if is_running:
            self.request.mcp = self

    def close_files(self) -> None:
        """Close the files that the run has opened: it has come to its end."""
        while self.files:
            self.files.pop().close()

    # Telling the client.

    def progress(self, progress: float, total: float | None = None, message: str = "") -> None:
        """Tell the client how far the work is, if it asked for that. Progress that does not grow is not sent.

        The unit is the tool's own (2026-07-28 basic/patterns/progress).
        """
        token = self.params.get("_meta", {}).get("progressToken")
        # A token has the form of a request id. A longer one would come back with each notification.
        if not is_request_id(token) or not math.isfinite(progress):
            return
        params: JSON = {"progressToken": token, "progress": progress}
        if total is not None and math.isfinite(total):
            params["total"] = total
        if message:
            params["message"] = message
        with self.sent.lock:
            if progress <= self.sent.progress:
                return
            self.sent.progress, self.sent.is_reported = progress, True
            self._send("notifications/progress", progress_params(params, self.revision))

    def wants_chunks(self, *, by_token: bool = True) -> bool:
        """Whether the client asks for chunks of the result, and they can reach it before the answer.

        ``by_token``: a progress token asks for them too, unless the client says no.
        """
        if not self.connection.is_live:
            return False
        has_token = by_token and is_request_id(self.params.get("_meta", {}).get("progressToken"))
        return self.params.get(STREAM_PARAM, has_token) is True

    def log(self, level: LogLevel, data: Any, logger: str = "") -> None:
        """Send a log message to the client, if it wants messages of this level. ``data`` is a text or a JSON value.

        A model reads it and the client keeps it, so it must hold no secrets. Raises ValueError for an unknown level.
        """
        threshold = self._log_level()
        if LOG_LEVELS.index(level) < (len(LOG_LEVELS) if threshold is None else LOG_LEVELS.index(threshold)):
            return
        self.sent.repeated += 1
        if self.sent.repeated <= self.sent.logged:
            return
        self.sent.logged = self.sent.repeated
        params: JSON = {"level": level, "data": data}
        if logger:
            params["logger"] = logger
        self._send("notifications/message", params)

    def _send(self, method: str, params: JSON) -> None:
        # The stream of a listen carries nothing but what it listens to (2026-07-28 patterns/subscriptions).
        if self.method != "subscriptions/listen":
            self.connection.send(notification_message(method, params))

    def close_stream(self, retry_ms: int = 500) -> None:
        """Close the client's connection until the work is done. The client comes back for the answer.

        Use it for work that takes longer than proxies keep a connection open. It does nothing where the client cannot
        come back: in other revisions than 2025-11-25, and on sockets (2025-11-25
        basic/transports#sending-messages-to-the-server).
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
        """Let a call of a tool go on as a task, if its client knows tasks. In a task it does nothing.

        The run ends here. A worker runs the tool again from the top, with the answers that were given so far, so
        nothing with an effect may stand before this line. A confirmed change is not run again, so it goes on. Questions
        before it are asked in the call, and questions after it in the task. Where the client knows no tasks, or the
        server runs none, the tool goes on as it is; with ``required`` MissingCapability or ToolError is raised instead.
        The tool is declared with ``task="later"``.
        """
        if self.method != "tools/call" or self.is_confirmed:
            return
        if not self.knows_tasks:
            if required:
                raise MissingCapability(TASKS_CAPABILITY, _NEEDS_TASKS)
        elif self.site.can_run_task(self.principal):
            raise TaskStarted
        elif required:
            raise ToolError("This takes long, and the server cannot run it as a task.")

    # Asking the client. Each question ends the run until it is answered: see ``exchange.questions``.

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
        """Ask the client's model to write a message. See ``Sampling``; raises MissingCapability.

        Raises ToolError if the client refuses.
        """
        question = Sampling(messages, max_tokens, system_prompt, options, trusted, single_use)
        return self._ask_one(key, "sampling", question)  # type: ignore[no-any-return]

    def list_roots(self, *, key: str = "", trusted: bool = True) -> list[Root]:
        """The folders that the client works on. Raises MissingCapability, and ToolError if the client refuses."""
        return self._ask_one(key, "roots", Roots(trusted))  # type: ignore[no-any-return]

    def ask(self, questions: Mapping[str, Question]) -> dict[str, Any]:
        """Ask several questions at once. Returns ``{key: answer}``: an Elicited, a Sampled or a list of Root for each.

        Raises MissingCapability, ToolError if the client refuses, and InvalidParams for an answer of another shape.
        """
        if self.is_confirmed:
            raise MissingCapability(next(iter(questions.values())).capability, _CONFIRMED)
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
        """Prepare another run of the handler from the top, with the answers that there are now."""
        self.round += 1
        self.usage = Usage()
        self.sent.repeated = 0
        self.answers.begin()
        self.cancellation.begin_again()
        self.request = self.request.copy().for_principal(self.principal)


def inspection_exchange(site: Site, request: MCPRequest, method: str, connection: Connection | None = None) -> Exchange:
    """An exchange that no client began, to find out what the request's principal may use."""
    return Exchange(
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
