"""The URLs of health, for balancers and orchestrators: whether the process lives, and whether it is ready to serve.

Nobody logs in for them. So the answers have a word for each part, and no names, versions or errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed

from mcp_django.core.types import Receive, Scope, Send
from mcp_django.protocol.jsonrpc import encode
from mcp_django.transports.http.formats import JSON_TYPE
from mcp_django.transports.http.messages import ANSWER_HEADERS

_METHODS = ("GET", "HEAD")
_OK = "ok"


@dataclass(frozen=True)
class Question:
    """One of the URLs, without the slash that may follow it. Its answer is 503 where a part is away."""

    path: str
    #: Its name in the namespace ``mcp_django``.
    name: str
    #: Part → word, in a thread and on an event loop.
    ask_in_thread: Callable[[], dict[str, str]]
    ask_on_loop: Callable[[], Awaitable[dict[str, str]]]

    def views(self) -> tuple[Callable[..., HttpResponse], Callable[..., Awaitable[HttpResponse]]]:
        """The Django views: in the thread of the request, and on an event loop."""

        def in_thread(request: HttpRequest) -> HttpResponse:
            return _response(self.ask_in_thread()) if request.method in _METHODS else _not_allowed()

        async def on_loop(request: HttpRequest) -> HttpResponse:
            return _response(await self.ask_on_loop()) if request.method in _METHODS else _not_allowed()

        return in_thread, on_loop

    async def application(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application, which answers ahead of Django: a probe knows neither host nor scheme of the site."""
        method = scope["method"]
        response = _response(await self.ask_on_loop()) if method in _METHODS else _not_allowed()
        headers = [(name.lower().encode(), value.encode()) for name, value in response.items()]
        headers.append((b"content-length", str(len(response.content)).encode()))
        await send({"type": "http.response.start", "status": response.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method == "HEAD" else response.content})


def _live() -> dict[str, str]:
    return {"process": _OK}


async def _live_on_loop() -> dict[str, str]:
    return _live()


# What looks at the parts is imported when somebody asks: a command that only reads the URLs does not.


def _ready() -> dict[str, str]:
    from mcp_django.server.readiness import ask_in_thread

    return ask_in_thread()


async def _ready_on_loop() -> dict[str, str]:
    from mcp_django.server.readiness import ask_on_loop

    return await ask_on_loop()


QUESTIONS = (
    Question("mcp/live", "live", _live, _live_on_loop),
    Question("mcp/ready", "ready", _ready, _ready_on_loop),
)


def _response(words: dict[str, str]) -> HttpResponse:
    is_well = set(words.values()) == {_OK}
    status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
    return HttpResponse(encode(words), content_type=JSON_TYPE, status=status, headers=ANSWER_HEADERS)


def _not_allowed() -> HttpResponse:
    return HttpResponseNotAllowed(_METHODS, headers=ANSWER_HEADERS)
