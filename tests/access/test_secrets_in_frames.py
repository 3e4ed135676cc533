"""No frame of ours holds a credential as plain text: reports of errors and collectors show the locals of frames.

Whatever our code calls while a request is answered may raise. So each call that a function of ours makes is watched,
over each road and in each view that has to do with credentials, and no local of that function may show one.
"""

from __future__ import annotations

import base64
import copy
import itertools
import logging
import pickle
import secrets
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from django.http import HttpRequest
from django.template import Context, Template
from django.test import RequestFactory
from django.views.debug import ExceptionReporter

import mcp_django
from mcp_django.access import tickets
from mcp_django.console.credentials.lifetimes import new_nonce
from mcp_django.core.running.workers import close_workers
from mcp_django.core.secret import Secret
from mcp_django.exchange import token_format
from mcp_django.models import AccessToken
from mcp_django.oauth import grants
from mcp_django.oauth.models import AuthorizationCode
from tests.axes import TRANSPORTS
from tests.console.visiting import client_of
from tests.oauth.flow import Person, Program, code_in, post
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, HTTPPeer, Peers

PACKAGE = str(Path(mcp_django.__file__).parent)
#: Where credentials are taken out of what a server hands over, and where their form and their hash are computed.
TAKING = (
    "without_credentials", "_without_tickets", "MCPRequest.__init__", "_secret", "_form", "new_token", "sealed",
    "is_well_formed", "_digest_of", "_hash_of_bearer", "_may_hold",
)  # fmt: skip
#: These have the whole scope of a server, until they know who answers it.
HANDING_OVER = ("MCPApplication", "HTTPApplication.answers", "MCPConsumer.__call__", "from_scope", "request_of")
ALLOWED = (*TAKING, *HANDING_OVER)
CANARY = "Zz" * 20


class Watched:
    """What the frames of our package show of the canary, as ``file:function``."""

    def __init__(self) -> None:
        self.shown: set[str] = set()
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        caller = frame.f_back
        if event != "call" or caller is None or not caller.f_code.co_filename.startswith(PACKAGE):
            return
        function = caller.f_code.co_qualname
        if function.startswith(ALLOWED):
            return
        self.calls += 1
        for name, value in list(caller.f_locals.items()):
            if name in ("send", "receive"):  # The server's own.
                continue
            try:
                shown = repr(value)
            except Exception:  # noqa: BLE001 - not made yet
                continue
            if CANARY in shown:
                self.shown.add(f"{caller.f_code.co_filename.removeprefix(PACKAGE)}:{function}: {name}")


@contextmanager
def watching(loop: LoopThread | None = None) -> Iterator[Watched]:
    """Watch each call in this thread, in that of the loop, and in each thread that begins."""
    watched = Watched()
    close_workers()  # Those that begin now are watched.

    async def on_loop(watch: Any) -> None:
        sys.setprofile(watch)

    threading.setprofile(watched)
    sys.setprofile(watched)
    if loop is not None:
        loop.run(on_loop(watched))
    try:
        yield watched
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        if loop is not None:
            loop.run(on_loop(None))
        close_workers()


@pytest.fixture
def canaries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new token, code, ticket and refresh token has the canary in it."""
    numbers, letters = itertools.count(100), itertools.cycle(CANARY + "???")
    fixed = SimpleNamespace(
        token_urlsafe=lambda _: f"{CANARY}{next(numbers)}",
        choice=lambda digits: secrets.choice(digits) if (one := next(letters)) == "?" else one,
    )
    for module in (token_format, grants, tickets):
        monkeypatch.setattr(module, "secrets", fixed)


def report_of(caplog: pytest.LogCaptureFixture) -> str:
    """What Django would mail of the errors that were logged."""
    errors = [record.exc_info for record in caplog.records if record.exc_info]
    assert errors
    reports = [ExceptionReporter(RequestFactory().get("/"), *error, is_email=True) for error in errors]  # type: ignore[misc, arg-type]
    return "".join(one.get_traceback_text() + one.get_traceback_html() for one in reports)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.usefixtures("canaries", "users")
def test_no_frame_shows_the_token_of_a_call(
    transport: str, peers: Peers, users: Users, declared: Declared, serving_loop: LoopThread,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    seen: list[Any] = []

    def fail(request: HttpRequest) -> str:
        """Fails."""
        seen.append({**request.META})
        raise RuntimeError("a bug")

    declared.tool(fail)
    _, token = AccessToken.objects.create_token(user=users.admin, scopes=["read", "actions", "write"])
    assert CANARY in token
    peer = peers(token)

    with caplog.at_level(logging.ERROR), watching(serving_loop) as watched:
        for revision in (MODERN, "2025-06-18"):
            peer.request(revision, "tools/list")
            peer.request(revision, "tools/call", {"name": "fail", "arguments": {}})
            peer.request(revision, "tools/call", {"name": "find_records", "arguments": {"model": "shop.product"}})

    assert watched.calls > 100
    assert watched.shown == set()
    assert len(seen) == 2 and not any(CANARY in str(value) for meta in seen for value in meta.values())
    assert not any({"HTTP_AUTHORIZATION", "HTTP_COOKIE"} & meta.keys() for meta in seen)
    assert CANARY not in report_of(caplog)


@pytest.mark.parametrize("transport", ["websocket"], indirect=True)
@pytest.mark.usefixtures("canaries")
def test_no_frame_shows_what_opens_a_socket(peers: Peers, users: Users, serving_loop: LoopThread) -> None:
    _, token = AccessToken.objects.create_token(user=users.admin)
    session = client_of(users.admin).cookies["sessionid"].value
    basic = base64.b64encode(f"x:{token}".encode()).decode()
    peer: Any = peers(token)

    with watching(serving_loop) as watched:
        for headers in ({"Authorization": f"Basic {basic}"}, {"Cookie": f"sessionid={session}; other={CANARY}"}):
            peer.connect(headers)

    assert watched.calls > 50
    assert watched.shown == set()


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-wsgi"], indirect=True)
@pytest.mark.usefixtures("canaries")
def test_no_frame_shows_a_ticket(peers: Peers, users: Users, serving_loop: LoopThread) -> None:
    _, token = AccessToken.objects.create_token(user=users.admin)
    desk = peers(token)
    assert isinstance(desk, HTTPPeer)
    desk.path = "/mcp/ticket"

    with watching(serving_loop) as watched:
        ticket = desk.http("POST", b"", {}).json["ticket"]
        socket = Peers("websocket", serving_loop)
        peer: Any = socket(None)
        assert peer.connect(query=f"ticket={ticket}").accepted

    socket.close()
    assert CANARY in ticket
    assert watched.shown == set()


@pytest.mark.usefixtures("canaries")
def test_no_frame_shows_what_a_client_gets_by_a_login(users: Users) -> None:
    program = Program(verifier=CANARY + "v" * 10)
    person = Person(users.ops)
    url = program.url()

    with watching() as watched:
        code = code_in(person.allow(url, "read"))
        tokens = program.exchange(code).json()
        again = program.refresh(tokens["refresh_token"]).json()
        program.exchange(code)
        post("/mcp/revoke", {"token": again["refresh_token"], "client_id": program.client_id})

    assert all(CANARY in text for text in (code, tokens["access_token"], again["refresh_token"]))
    assert watched.calls > 100
    assert watched.shown == set()


@pytest.mark.parametrize("fails_at", ["mcp_django.oauth.grants.tidy", "mcp_django.oauth.grants.trail.note_grant"])
@pytest.mark.usefixtures("canaries")
def test_no_report_shows_what_a_client_gets(
    fails_at: str, users: Users, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a bug")

    program = Program(verifier=CANARY + "v" * 10)
    code = code_in(Person(users.ops).allow(program.url(), "read"))
    monkeypatch.setattr(fails_at, fail)
    caplog.clear()

    with pytest.raises(RuntimeError), caplog.at_level(logging.ERROR):
        program.exchange(code)

    assert AuthorizationCode.objects.exists()
    assert CANARY not in report_of(caplog)


@pytest.mark.usefixtures("canaries")
def test_no_frame_shows_a_token_that_a_page_makes(users: Users) -> None:
    browser = client_of(users.admin)
    new = {"name": "laptop", "scopes": ["read"], "lifetime": "never", "user": users.admin.pk, "nonce": new_nonce()}

    with watching() as watched:
        page = browser.post("/admin/mcp_django/accesstoken/add/", new).content.decode()
        made = AccessToken.objects.latest("pk")
        rolled = browser.post(
            f"/admin/mcp_django/accesstoken/{made.pk}/roll/", {"grace": "0", "lifetime": "never", "nonce": new_nonce()}
        ).content.decode()
        tested = browser.post("/admin/mcp_django/accesstoken/test/", {"token": token_of(users.admin)}).content.decode()

    # The token, in the form that tests it, and in the setups of four clients.
    assert page.count(CANARY) > 5 and rolled.count(CANARY) > 5
    assert CANARY not in tested
    assert watched.shown == set()


# The text itself.


SHOWING: list[Callable[[Secret], object]] = [
    str, repr, "{}".format, "%s".__mod__, lambda secret: f"{secret:>3}", pickle.dumps, lambda secret: [secret],
    lambda secret: pickle.loads(pickle.dumps(secret)).reveal(),
]  # fmt: skip


@pytest.mark.parametrize("show", SHOWING)
def test_a_secret_is_not_shown(show: Callable[[Secret], object]) -> None:
    assert "canary" not in repr(show(Secret("canary")))


def test_a_secret_is_the_text_wherever_it_is_used() -> None:
    secret = Secret("a&b")

    assert secret == "a&b" and hash(secret) == hash("a&b") and secret.encode() == b"a&b"
    assert [Secret(secret).reveal(), copy.deepcopy(secret).reveal(), copy.copy(secret).reveal()] == ["a&b"] * 3
    assert Template("{{ it }}").render(Context({"it": secret})) == "a&amp;b"
