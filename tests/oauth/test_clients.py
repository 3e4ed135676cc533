"""Who a client is: by its document, bundled or fetched, or by its registration."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_django.oauth import documents, fetching
from mcp_django.oauth.client_metadata import InvalidMetadata
from mcp_django.oauth.documents import DocumentUnavailable, is_document_id
from mcp_django.oauth.fetching import Fetched, FetchError, Unreachable, fetch, fresh_seconds, is_public
from mcp_django.oauth.redirects import host_of, is_local, is_usable, matches, with_params
from tests.end_to_end.servers import wait_for
from tests.oauth import recorded
from tests.oauth.flow import Person, Program, code_in
from tests.oauth.test_attacks import register
from tests.support.certificates import make_certificate
from tests.support.data import Users

# Redirects.


USABLE = [
    "https://claude.ai/api/mcp/auth_callback", "https://example.com", "https://example.com:8443/a?b=c",
    "http://localhost/callback", "http://127.0.0.1:65535/", "http://[::1]:1/x", "https://[2001:db8::1]/",
    "cursor://anysphere.cursor-mcp/oauth/callback", "https://a_b.example./x",
]  # fmt: skip
UNUSABLE = [
    "", "example.com", "//example.com", "http://example.com/", "https://", "https:///x", "https://a b/", "ftp://x/",
    "https://user@example.com/", "https://example.com/#x", "https://example.com/#", "https://*.example.com/",
    "http://localhost:/", "http://localhost:0/", "http://localhost:65536/", "http://localhost.evil.example/",
    "javascript:alert(1)", "data:text/html,x", "cursor://other/oauth/callback", "cursor://anysphere.cursor-mcp/x",
    "https://example.com/\\@evil", "https://exämple.com/", "https://example.com/\n", "https://[::1", "http://127.1/",
    "https://example.com/" + "a" * 2_000, "https://example.com/*", "https:example.com", "https://example%2ecom/",
    "https://evil.example;x.claude.ai/", "https://evil.example&x.claude.ai/", "https://a..b/", "https://-,-/",
    "https://[::1%25eth0]/", "HTTP://LOCALHOST/", "http://LOCALHOST/", "http://localhost:000080/", "warp://mcp/oauth2callback",
]  # fmt: skip


def test_redirects_that_a_client_may_have() -> None:
    assert [uri for uri in USABLE if not is_usable(uri)] == []
    assert [uri for uri in UNUSABLE if is_usable(uri)] == []


MATCHING = [
    ("http://localhost/callback", "http://localhost:5/callback", True),
    ("http://localhost:4/callback", "http://localhost:5/callback", True),
    ("http://localhost:4/callback", "http://localhost/callback", True),
    ("http://[::1]/", "http://[::1]:9/", True),
    ("http://localhost/callback", "http://127.0.0.1/callback", False),
    ("http://localhost/callback", "http://localhost:5/callback/", False),
    ("http://localhost/callback", "http://localhost:5/callback?x=1", False),
    ("http://localhost/callback", "http://localhost:99999/callback", False),
    ("http://localhost/callback", "http://localhost:5@evil.example/callback", False),
    ("http://localhost/callback", "https://localhost:5/callback", False),
    ("https://example.com/a", "https://example.com:443/a", False),
    ("https://example.com/a", "https://example.com/A", False),
]  # fmt: skip


def test_only_the_port_on_the_own_machine_is_free() -> None:
    assert [(known, asked, matches(known, asked)) for known, asked, _ in MATCHING] == MATCHING


def test_a_redirect_that_stays_on_the_own_machine_or_network() -> None:
    expected = [
        ("http://localhost:1/x", True), ("https://localhost/x", True), ("https://[::1]/x", True),
        ("cursor://a/b", True),
        ("https://app.localhost/x", True), ("https://localhost./x", True), ("https://127.1/x", True),
        ("https://2130706433/x", True), ("https://0.0.0.0/x", True), ("https://[::ffff:127.0.0.1]/x", True),
        ("https://192.168.1.4/x", True), ("https://8.8.8.8/x", False),
        ("https://localhost.example/x", False), ("https://claude.ai/x", False),
    ]  # fmt: skip

    assert [(uri, is_local(uri)) for uri, _ in expected] == expected


def test_parameters_are_added_to_those_of_the_redirect() -> None:
    assert with_params("https://a.example/b?c=d", {"e": "f g", "h": "ü"}) == "https://a.example/b?c=d&e=f+g&h=%C3%BC"
    assert with_params("cursor://x/y", {"code": "1"}) == "cursor://x/y?code=1"


def test_what_people_are_shown_of_a_redirect() -> None:
    expected = [
        ("https://a.example:8443/x", "a.example:8443"), ("https://a.example:443/x", "a.example"), ("https://a", "a"),
        ("http://localhost:80/", "localhost"), ("http://[::1]:443/", "[::1]:443"), ("cursor://x/y", "cursor://x"),
    ]  # fmt: skip

    assert [(uri, host_of(uri)) for uri, _ in expected] == expected


# Recorded clients.


def test_the_registrations_of_known_clients_pass(users: Users) -> None:
    for name, (payload, redirect) in recorded.REGISTRATIONS.items():
        answer = register(payload)
        assert answer.status_code == 201, (name, answer.content)
        program = Program(answer.json()["client_id"], redirect)
        code = code_in(Person(users.ops).allow(program.url(), "read"))
        assert program.exchange(code).status_code == 200, name


@pytest.mark.parametrize("is_bundled", [True, False])
def test_the_documents_of_known_clients_pass(
    is_bundled: bool, serve: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_bundled:
        old = {"redirect_uris": ["https://old.example/callback"]}
        monkeypatch.setattr(documents, "BUNDLED", dict.fromkeys(documents.BUNDLED, old))
    for document in recorded.DOCUMENTS:
        asked = serve(document)
        found = documents.find(document["client_id"], document["redirect_uris"][0], person="1")
        assert (found.name, found.host) == (document["client_name"], document["client_id"].split("/")[2])
        assert found.allows(document["redirect_uris"][0])
        assert asked == ([] if is_bundled else [document["client_id"]])


# Documents.


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[str]]]:
    """``serve(document, seconds)``: what every URL answers. Gives the URLs that are asked for."""
    documents._kept.clear()

    def serve(document: Any, seconds: float = 0.0) -> list[str]:
        asked: list[str] = []

        def answer(url: str) -> Fetched:
            asked.append(url)
            if isinstance(document, Exception):
                raise document
            body = document if isinstance(document, bytes) else json.dumps(document).encode()
            return Fetched(body, seconds)

        monkeypatch.setattr(fetching, "fetch", answer)
        return asked

    yield serve
    documents._kept.clear()


URL = "https://client.example/oauth/client.json"
REDIRECT = "https://client.example/callback"
DOCUMENT: dict[str, Any] = {"client_id": URL, "client_name": "A client", "redirect_uris": [REDIRECT]}


DOCUMENT_IDS = [
    URL, "https://client.example/c", "https://client.example:443/c", "https://client.example/c?v=1",
    *(document["client_id"] for document in recorded.DOCUMENTS),
]  # fmt: skip
OTHER_IDS = [
    "", "x", "http://client.example/c", "https://client.example", "https://client.example/", "https://client.example/#",
    "https://user@client.example/c", "https://client.example/../c", "https://client.example/./c",
    "https://client.example:8443/c", "https://Client.example/c", "https://client.example/c\n", "https:///c",
    "https://client.example/%2e%2E/c", "https://client.example/.%2e/c", "https://client.example/%2E",
    "https://client.example/" + "c" * 255, "https://[::1]/c", "https://client.example\\@evil/c",
]  # fmt: skip


def test_ids_that_are_urls_of_documents() -> None:
    assert [one for one in DOCUMENT_IDS if not is_document_id(one)] == []
    assert [one for one in OTHER_IDS if is_document_id(one)] == []


OFFERED = {"token_endpoint_auth_methods_supported": ["none", "private_key_jwt"]}
#: Of a client that prefers to authenticate itself: why it may not come without.
NOT_AT_HOME: list[dict[str, Any]] = [
    {}, {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
    {"token_endpoint_auth_methods_supported": "none"},
    *({**OFFERED, "redirect_uris": [REDIRECT, other]} for other in (
        "https://other.example/callback", "https://client.example.evil.example/", "https://client.example:8443/callback",
        "http://localhost/callback", "cursor://anysphere.cursor-mcp/oauth/callback", "http://client.example/callback",
        1,         "https://sub.client.example/callback", "https://client.example@evil.example/",
    )),
]  # fmt: skip


def test_a_client_that_prefers_to_authenticate_itself_and_is_answered_at_home(serve: Callable[..., list[str]]) -> None:
    own = {**DOCUMENT, "token_endpoint_auth_method": "private_key_jwt", **OFFERED}
    for document in (recorded.CHATGPT_APP, own):
        serve(document)
        assert (
            documents.find(document["client_id"], document["redirect_uris"][0], person="1").registered_by == "document"
        )


def test_documents_that_describe_no_client_of_ours(serve: Callable[..., list[str]]) -> None:
    changes: list[dict[str, Any]] = [
        {"client_id": "https://other.example/c"}, {"client_id": None}, {"redirect_uris": []}, {"redirect_uris": "x"},
        {"redirect_uris": ["http://evil.example/"]}, {"client_secret": "x"}, {"grant_types": ["client_credentials"]},
        {"response_types": ["token"]}, {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_method": "client_secret_basic"},
        *({"token_endpoint_auth_method": "private_key_jwt", **change} for change in NOT_AT_HOME),
    ]  # fmt: skip
    bodies = [b"", b"[]", b"{", b"null", b"[" * 10_000, b"\xff"]

    for document in (*({**DOCUMENT, **change} for change in changes), *bodies):
        documents._kept.clear()
        serve(document)
        with pytest.raises(InvalidMetadata):
            documents.find(URL, REDIRECT, person="1")


def test_a_document_is_fetched_once_in_its_time_for_a_minute_at_least_and_a_day_at_most(
    serve: Callable[..., list[str]], monkeypatch: Any
) -> None:
    now = 0.0
    monkeypatch.setattr(documents.time, "monotonic", lambda: now)

    for seconds, least, most in ((300.0, 299.0, 301.0), (0.0, 59.5, 61.0), (10e9, 86_398.5, 86_401.0)):
        begun, asked = now, serve(DOCUMENT, seconds)
        documents._kept.clear()
        found = []
        for now in (begun, begun + least, begun + most):  # noqa: B007 - the clock reads it
            documents.find(URL, REDIRECT, person="1")
            found.append(len(asked))
        assert found == [1, 1, 2], seconds


def test_a_failure_is_remembered_too_and_gathers_nothing(serve: Callable[..., list[str]]) -> None:
    asked = serve(FetchError("client.example could not be reached."))
    depths = []

    for _ in range(3):
        with pytest.raises(DocumentUnavailable, match="could not be reached") as raised:
            documents.find(URL, REDIRECT, person="1")
        depths.append(len(raised.traceback))

    assert len(asked) == len(set(depths)) == 1


@pytest.mark.parametrize(("waiting", "next_one"), [
    (["1", "2", "3"], "4"),  # Everybody's places are taken.
    (["1", "1"], "1"),  # One person's are, and others go on.
])  # fmt: skip
def test_people_who_wait_for_the_same_document_share_one_request(
    serve: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, waiting: list[str], next_one: str
) -> None:
    asked, go_on = serve(DOCUMENT), threading.Event()
    answer = fetching.fetch
    monkeypatch.setattr(documents, "_MOST_WAITING", 3)
    monkeypatch.setattr(fetching, "fetch", lambda url: go_on.wait(60) and answer(url))
    found: list[Any] = []
    people = [
        threading.Thread(target=lambda key=key: found.append(documents.find(URL, REDIRECT, person=key)))
        for key in waiting
    ]

    for person in people:
        person.start()
    wait_for(lambda: documents._kept._people.total() == len(waiting), "all of them")
    with pytest.raises(DocumentUnavailable, match="Too many"):
        documents.find("https://other.example/c", REDIRECT, person=next_one)
    go_on.set()
    for person in people:
        person.join(60)

    assert [one.client_id for one in found] == [URL] * len(waiting)
    assert asked == [URL]
    assert not documents._kept._people


def test_that_this_server_was_busy_is_not_remembered(serve: Callable[..., list[str]]) -> None:
    asked = serve(fetching.Busy("Too many."))

    for _ in range(2):
        with pytest.raises(DocumentUnavailable, match="Too many"):
            documents.find(URL, REDIRECT, person="1")

    assert len(asked) == 2


def test_so_many_documents_are_remembered(serve: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "_MAX_KEPT", 3)
    serve(FetchError("no"))

    for number in range(10):
        with pytest.raises(DocumentUnavailable):
            documents.find(f"{URL}?{number}", REDIRECT, person="1")

    assert len(documents._kept._entries) == 3


def test_a_bundled_copy_serves_while_its_host_is_away(serve: Callable[..., list[str]]) -> None:
    serve(FetchError("no"))

    found = documents.find(recorded.CLAUDE["client_id"], "https://claude.ai/other", person="1")

    assert not found.allows("https://claude.ai/other")


def test_nobody_makes_the_server_fetch_before_a_login(users: Users, serve: Callable[..., list[str]]) -> None:
    asked = serve(DOCUMENT)
    program = Program(URL, REDIRECT)

    assert Person().open(program.url())["Location"].startswith("/admin/login/")
    assert asked == []
    assert Person(users.ops).open(program.url()).status_code == 200
    assert asked == [URL]
    assert program.exchange("x").status_code == program.refresh("x").status_code == 400
    assert asked == [URL], "a token is given without asking anew who the client is"


# Fetching.


INSIDE = [
    "127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
    "192.0.0.1", "192.0.0.192", "192.88.99.1", "168.63.129.16", "100.100.100.200",
    "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1",
    "2001::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0",
    "fec0::1", "ff02::1", "3fff::1", "5f00::1", "nonsense", "", "2130706433", "0177.0.0.1",
]  # fmt: skip


def test_addresses_that_everybody_reaches_and_that_lead_inside_or_stand_for_others() -> None:
    public = ["8.8.8.8", "1.1.1.1", "160.79.104.10", "2606:4700::1111", "2a00:1450:4001::1"]

    assert [address for address in (*public, *INSIDE) if is_public(address)] == public


def resolver(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """Names resolve to these addresses, one answer after the other. Gives the names that were asked for."""
    left, asked = list(answers), []

    def getaddrinfo(host: str, port: int, **kwargs: Any) -> list[Any]:
        asked.append(host)
        found = left.pop(0) if left else []
        if not found:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(fetching.socket, "getaddrinfo", getaddrinfo)
    return asked


def test_a_name_that_means_an_address_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching.socket, "create_connection", lambda *args, **kwargs: pytest.fail("it connected"))
    resolver(monkeypatch, ["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:10.0.0.1"], ["169.254.169.254"])

    for _ in range(5):
        with pytest.raises(FetchError) as inside:
            fetch(URL)
        assert str(inside.value) == "client.example could not be reached.", "as for a name that means nothing"


def test_a_name_that_means_another_address_a_moment_later(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = resolver(monkeypatch, ["8.8.8.8"], ["127.0.0.1"])
    monkeypatch.setattr(fetching.time, "monotonic", lambda: 1_000.0)
    connected: list[Any] = []

    def connect(address: Any, timeout: float) -> Any:
        connected.append((address, timeout))
        raise OSError("not in a test")

    monkeypatch.setattr(fetching.socket, "create_connection", connect)

    with pytest.raises(FetchError, match="could not be reached"):
        fetch(URL)

    assert asked == ["client.example"]
    assert connected == [(("8.8.8.8", 443), 5.0)]


def test_an_address_that_is_silent_leaves_time_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    resolver(monkeypatch, ["8.8.8.8", "8.8.4.4"])
    connected: list[Any] = []

    def connect(address: Any, timeout: float) -> Any:
        connected.append((address[0], timeout <= fetching.SECONDS / (2 - len(connected))))
        raise TimeoutError

    monkeypatch.setattr(fetching.socket, "create_connection", connect)

    with pytest.raises(FetchError, match="could not be reached"):
        fetch(URL)

    assert connected == [("8.8.8.8", True), ("8.8.4.4", True)]


def test_a_resolver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(fetching, "SECONDS", 0.05)
    monkeypatch.setattr(fetching, "_resolving", threading.BoundedSemaphore(1))
    monkeypatch.setattr(fetching.socket, "getaddrinfo", lambda *args, **kwargs: release.wait(60) and [])

    with pytest.raises(FetchError, match="took longer than"):
        fetch(URL)
    with pytest.raises(FetchError, match="Too many such documents"):
        fetch(URL)

    release.set()


def test_no_connection_comes_about(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(error: Exception) -> Any:
        def connect(*args: Any, **kwargs: Any) -> Any:
            raise error

        return connect

    for error in (TimeoutError(), ConnectionRefusedError(), OSError("No route to host")):
        with monkeypatch.context() as patched:
            patched.setattr(fetching.socket, "create_connection", failing(error))
            with pytest.raises(Unreachable):
                fetch(LOCAL)
    resolver(monkeypatch, [])
    with pytest.raises(Unreachable):
        fetch(LOCAL)
    for addresses, url in ((["10.0.0.1"], LOCAL), (["8.8.8.8"], URL)):  # An address inside; a wrong certificate.
        resolver(monkeypatch, addresses)
        with pytest.raises(FetchError, match="could not be reached") as raised:
            fetch(url)
        assert not isinstance(raised.value, Unreachable), url


def test_urls_that_are_not_fetched() -> None:
    for url in (
        "http://client.example/c", "https://client.example:8443/c", "ftp://client.example/c",
        "https://client.example:99999/c", "https://[::1/c", "https:///c", "",
    ):  # fmt: skip
        with pytest.raises(FetchError, match="not an https URL"):
            fetch(url)


class Server:
    """A TLS server on this machine that answers each connection with the same bytes, and then waits."""

    def __init__(self, folder: Path) -> None:
        certificate, key = make_certificate(folder)
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self.trusted = ssl.create_default_context(cafile=str(certificate))
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.answer = b""
        self.drips = False
        self.requests: list[bytes] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while not self._over.is_set():
            try:
                plain, _ = self._socket.accept()
            except OSError:
                return
            try:
                with self._context.wrap_socket(plain, server_side=True) as connection:
                    self.requests.append(connection.recv(10_000))
                    connection.sendall(self.answer)
                    while self.drips and not self._over.wait(0.01):
                        connection.sendall(b"x")
            except OSError:
                continue

    def close(self) -> None:
        self._over.set()
        self._socket.close()


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """What a public address is for ``fetch``."""
    made = Server(tmp_path)

    def connect(address: Any, timeout: float) -> socket.socket:
        assert address == ("8.8.8.8", 443)
        made_one = socket.socket()
        made_one.settimeout(timeout)
        made_one.connect(("127.0.0.1", made.port))
        return made_one

    resolver(monkeypatch, *[["8.8.8.8"]] * 5)
    monkeypatch.setattr(fetching, "SECONDS", 60.0)  # Tests that are about it set less.
    monkeypatch.setattr(fetching.socket, "create_connection", connect)
    monkeypatch.setattr(fetching.ssl, "create_default_context", lambda: made.trusted)
    yield made
    made.close()


def answer(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"Content-Type": "application/json", "Content-Length": str(len(body)), **given}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + body


#: The name in the certificate of the server.
LOCAL = "https://127.0.0.1/oauth/client.json?v=1"


def test_a_document_is_fetched_by_tls_and_without_anything_else(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.answer = answer(b'{"a": 1}', Cache_Control="public, max-age=300", Set_Cookie="a=b")

    found = fetch(LOCAL)

    assert found == Fetched(b'{"a": 1}', 300.0)
    [request] = server.requests
    assert request.startswith(b"GET /oauth/client.json?v=1 HTTP/1.1\r\n")
    assert b"Host: 127.0.0.1\r\n" in request and b"Accept: application/json\r\n" in request
    assert b"cookie" not in request.lower() and b"authorization" not in request.lower()


def test_answers_that_are_no_document(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [
        (answer(b"", "302 Found", Location="http://127.0.0.1/"), "answered with the status 302"),
        (answer(b"{}", "404 Not Found"), "answered with the status 404"),
        (answer(b"{}", "201 Created"), "answered with the status 201"),
        (answer(b"<html>", Content_Type="text/html"), "something other than JSON"),
        (answer(b" " * 16_385), "more than 16384 bytes"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000 + b"\r\n", "could not be reached"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n", "could not be reached"),
        (b"nonsense\r\n\r\n", "could not be reached"), (b"", "could not be reached"),
    ]  # fmt: skip
    resolver(monkeypatch, *[["8.8.8.8"]] * len(expected))

    for bytes_, reason in expected:
        server.answer = bytes_
        with pytest.raises(FetchError, match=reason) as raised:
            fetch(LOCAL)
        assert not isinstance(raised.value, Unreachable), "it was reached"


@pytest.mark.parametrize("begun", [
    b"", b"HTTP/1.1 200 OK\r\nX: ",
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16000\r\n\r\n",
], ids=["status", "header", "body"])  # fmt: skip
def test_a_server_that_drips(server: Server, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.5)
    server.answer, server.drips = begun, True

    with pytest.raises(FetchError, match="took longer than"):
        fetch(LOCAL)


def test_a_server_that_does_not_shake_hands(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server.port = silent.getsockname()[1]

        with pytest.raises(FetchError, match="took longer than"):
            fetch(LOCAL)


def test_a_handshake_that_ends_at_the_deadline(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    shake_hands, clock, late = server.trusted.wrap_socket, fetching.time.monotonic, [0.0]

    def shake_hands_late(*args: Any, **kwargs: Any) -> Any:
        made = shake_hands(*args, **kwargs)
        late[0] = fetching.SECONDS
        return made

    monkeypatch.setattr(server.trusted, "wrap_socket", shake_hands_late)
    monkeypatch.setattr(fetching.time, "monotonic", lambda: clock() + late[0])

    with pytest.raises(FetchError, match="took longer than"):
        fetch(LOCAL)

    assert not any(server.requests)


def test_a_certificate_for_another_name(server: Server) -> None:
    server.answer = answer(b"{}")

    with pytest.raises(FetchError, match="could not be reached"):
        fetch(URL)

    assert server.requests == [] or server.requests == [b""]


DATE, LATER = "Tue, 24 Nov 2026 10:00:00 GMT", "Tue, 24 Nov 2026 10:05:00 GMT"


def test_for_how_long_an_answer_may_be_kept() -> None:
    controls = {
        "max-age=60": 60.0, "public, max-age=86400": 86_400.0, 'max-age="5"': 5.0, "no-store, max-age=60": 0.0,
        "no-cache, max-age=60": 0.0, "s-maxage=60": 0.0, "max-age=-1": 0.0, "": 0.0,
    }  # fmt: skip
    expected: list[tuple[dict[str, str], float]] = [
            *(({"CACHE-control": control}, seconds) for control, seconds in controls.items()),
        ({"Date": DATE, "Expires": LATER}, 300.0), ({"Date": DATE, "Expires": LATER, "Age": "100"}, 200.0),
        ({"Date": DATE, "Expires": LATER, "Cache-Control": "max-age=60"}, 60.0),
        ({"Date": DATE, "Expires": LATER, "Cache-Control": "no-store"}, 0.0),
        ({"Date": LATER, "Expires": DATE}, 0.0), ({"Date": DATE, "Expires": "0"}, 0.0), ({"Expires": LATER}, 0.0),
        ({"Date": "x" * 50, "Expires": LATER}, 0.0), ({"Cache-Control": "max-age=60", "Age": "90"}, 0.0),
        ({"Cache-Control": "max-age=60", "Age": "-9"}, 60.0),
        ({"Cache-Control": "max-age=60", "Age": "9" * 5_000}, 60.0),
    ]  # fmt: skip

    assert [(headers, fresh_seconds(headers)) for headers, _ in expected] == expected


def test_a_header_that_comes_twice_counts_twice_and_sixteen_kilobytes_are_read(server: Server) -> None:
    server.answer = answer(b" " * 16_384, Cache_Control="no-store\r\nCache-Control: max-age=300")

    assert fetch(LOCAL) == Fetched(b" " * 16_384, 0.0)
