"""The configurations of docs/proxies.md, as they stand there, before a server of HTTP and one of gRPC."""

from __future__ import annotations

import json
import os
import pwd
import queue
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import grpc
import httpx
import pytest
from websockets import Subprotocol
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mcp_django.exchange.addresses import address_behind
from mcp_django.protocol import mcp_pb2_grpc, protobuf
from tests.conftest import is_listening, need
from tests.end_to_end.projects import install, set_up, start_project, token_of
from tests.end_to_end.servers import ROOT, STOP_SECONDS, Served, demo, free_port, wait_for
from tests.support.certificates import make_certificate
from tests.support.peers import MODERN, Message, meta

pytestmark = pytest.mark.more("a proxy in front of servers")

#: An idle stream writes nothing, so that no write can find out that its client has gone.
SETTINGS = """
MCP = {"KEEPALIVE_SECONDS": 3600, "MAX_LISTENS": 1, "BASE_URL": "https://127.0.0.1"}
ALLOWED_HOSTS = ["127.0.0.1"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
"""
#: What surrounds the configuration: a proxy that would compress everything.
SURROUNDINGS = """
{user}
daemon off;
pid {folder}/nginx.pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    gzip on;
    gzip_min_length 1;
    gzip_proxied any;
    gzip_types application/json text/event-stream;
    {configuration}
}}
"""


PAGE = (ROOT / "docs/proxies.md").read_text()


@dataclass(frozen=True)
class Ports:
    """Where the proxy listens, and what stands behind it."""

    own: int
    http: int
    grpc: int


def replaced(configuration: str, *pairs: tuple[str, object]) -> str:
    for shown, here in pairs:
        assert configuration.count(shown) == 1, shown
        configuration = configuration.replace(shown, str(here))
    return configuration


def nginx(program: str, folder: Path, ports: Ports, certificate: Path, key: Path) -> list[str]:
    """Writes the configuration, and returns the command. The part for gRPC is where it belongs."""
    server, of_grpc = re.findall(r"```nginx\n(.*?)```", PAGE, re.DOTALL)
    assert "`listen 443 ssl http2;`" in PAGE
    configuration = replaced(
        f"{server.rstrip().removesuffix('}')}{of_grpc}}}",
        ("listen 443 ssl;", f"listen 127.0.0.1:{ports.own} ssl http2;"),
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{ports.http};"),
        ("grpc://127.0.0.1:50051;", f"grpc://127.0.0.1:{ports.grpc};"),
        ("server_name example.com;", "server_name 127.0.0.1;"),
        ("/etc/ssl/example.com/fullchain.pem", certificate),
        ("/etc/ssl/example.com/privkey.pem", key),
    )
    user = "user root;" if os.geteuid() == 0 else ""
    written = folder / "nginx.conf"
    written.write_text(SURROUNDINGS.format(user=user, folder=folder, configuration=configuration))
    return [program, "-p", str(folder), "-c", str(written)]


def caddy(program: str, folder: Path, ports: Ports, certificate: Path, key: Path) -> list[str]:
    """Writes the configuration, and returns the command. This Caddy would compress everything, too."""
    [block] = re.findall(r"```caddyfile\n(.*?)```", PAGE, re.DOTALL)
    [of_grpc] = re.findall(r"`(reverse_proxy /mcp_django.v1.MCP.*?)`", PAGE)
    configuration = replaced(
        block,
        ("example.com {", f"https://127.0.0.1:{ports.own} {{\n tls {certificate} {key}\n encode gzip\n {of_grpc}"),
        ("127.0.0.1:8000", f"127.0.0.1:{ports.http}"),
        ("127.0.0.1:50051", f"127.0.0.1:{ports.grpc}"),
    )
    written = folder / "Caddyfile"
    written.write_text(f"{{\n admin off\n auto_https disable_redirects\n}}\n{configuration}")
    return [program, "run", "--config", str(written), "--adapter", "caddyfile"]


PROXIES: dict[str, Callable[[str, Path, Ports, Path, Path], list[str]]] = {"nginx": nginx, "caddy": caddy}


@dataclass
class Proxied:
    """The demo behind a proxy."""

    origin: str
    token: str
    trusted: ssl.SSLContext
    certificate: Path

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    def headers(self, method: str, name: str = "") -> dict[str, str]:
        return {
            "Authorization": f"Bearer {self.token}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            **({"Mcp-Name": name} if name else {}),
        }

    def call(self, name: str, arguments: Message, **headers: str) -> httpx.Response:
        body = message("tools/call", {"name": name, "arguments": arguments})
        sent = {**self.headers("tools/call", name), **headers}
        return httpx.post(self.url, json=body, headers=sent, verify=self.trusted, timeout=60)

    @contextmanager
    def listening(self, flight: int) -> Iterator[tuple[httpx.Response, Iterator[Message]]]:
        """A listen on a flight, by a client that would take compressed answers: the answer, and its messages."""
        with httpx.stream(
            "POST", self.url, json=listen_to(flight), headers=self.headers("subscriptions/listen"),
            verify=self.trusted, timeout=60,
        ) as response:  # fmt: skip
            lines = response.iter_lines()
            yield response, (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))

    def socket(self, **headers: str) -> ClientConnection:
        return connect(
            self.url.replace("https", "wss", 1), open_timeout=60, ssl=self.trusted, subprotocols=[Subprotocol("mcp")],
            additional_headers={"Authorization": f"Bearer {self.token}", **headers},
        )  # fmt: skip


def message(method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta()}}


def listen_to(flight: int) -> Message:
    wanted = {"resourceSubscriptions": [f"db://flights/flight/{flight}"]}
    return message("subscriptions/listen", {"notifications": wanted})


def updated(flight: int) -> Message:
    params = {"uri": f"db://flights/flight/{flight}", "_meta": {"io.modelcontextprotocol/subscriptionId": 7}}
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}


@contextmanager
def running(name: str, program: str, folder: Path, served: Served, over_grpc: Served) -> Iterator[Proxied]:
    certificate, key = make_certificate(folder)
    ports = Ports(free_port(), served.port, over_grpc.port)
    command = PROXIES[name](program, folder, ports, certificate, key)
    log, homes = folder / "proxy.log", {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **homes})
    origin, trusted = f"https://127.0.0.1:{ports.own}", ssl.create_default_context(cafile=str(certificate))

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            return httpx.post(f"{origin}/mcp", json={}, verify=trusted, timeout=60).status_code == 401
        return False

    try:
        wait_for(answers, name)
        yield Proxied(origin, (folder / "token").read_text().strip(), trusted, certificate)
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


def found(name: str) -> str:
    """The program; the test is skipped with a line where it is missing."""
    program = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    need(program is not None, name)
    return program or ""


@pytest.fixture(scope="module", params=PROXIES)
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    program = found(request.param)
    folder = tmp_path_factory.mktemp(request.param)
    # Only now, since it takes a while to make.
    shutil.copytree(request.getfixturevalue("demo_data"), folder, dirs_exist_ok=True)
    project = demo(folder, SETTINGS)
    with (
        project.served("uvicorn") as served,
        project.served("grpc") as over_grpc,
        running(request.param, program, folder, served, over_grpc) as proxied,
    ):
        yield proxied


def test_headers_and_bodies_of_calls_pass(proxied: Proxied) -> None:
    arguments = {"model": "flights.flight", "filter": {"id": 13}, "fields": ["carrier", "number"]}

    answer = proxied.call("find_records", arguments)
    renamed = proxied.call("find_records", arguments, **{"Mcp-Name": "get_record"})

    text = answer.json()["result"]["content"][0]["text"]
    assert json.loads(text) == {"columns": ["id", "carrier", "number"], "rows": [[13, "UA", 194]]}
    # The server, too, sees what the header says.
    assert renamed.status_code == 400


def test_a_stream_is_neither_held_back_nor_compressed(proxied: Proxied) -> None:
    with proxied.listening(13) as (answer, messages):
        acknowledged = next(messages)
        called = proxied.call("flights_flight_mark_cancelled", {"ids": ["13"]})
        told = next(messages)

    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["Content-Encoding"] == "identity"
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    # What is no stream, this proxy compresses where it is long enough.
    assert called.headers.get("Content-Encoding", "gzip") == "gzip"
    assert told == updated(13)


def test_a_client_that_leaves_the_proxy_leaves_the_server_too(proxied: Proxied) -> None:
    def is_admitted() -> bool:
        with proxied.listening(13) as (answer, _):
            return answer.status_code == 200

    for _ in range(3):
        wait_for(is_admitted, "the place of a client that has gone")


def test_a_socket_passes(proxied: Proxied) -> None:
    def is_admitted(socket: ClientConnection) -> bool:
        socket.send(json.dumps(listen_to(64)))
        return json.loads(socket.recv(60)).get("method") == "notifications/subscriptions/acknowledged"

    with proxied.socket(Origin=proxied.origin) as socket:
        # The stream before it may not have left yet.
        wait_for(lambda: is_admitted(socket), "the place of a client that has gone")
        proxied.call("flights_flight_mark_cancelled", {"ids": ["64"]})
        told = json.loads(socket.recv(60))

    assert told == updated(64)


def test_the_site_knows_its_own_origin_and_no_other(proxied: Proxied) -> None:
    own = proxied.call("find_records", {"model": "flights.airline"}, Origin=proxied.origin)
    plain = proxied.call("find_records", {"model": "flights.airline"}, Origin=proxied.origin.replace("https", "http"))
    with pytest.raises(InvalidStatus) as refused:
        proxied.socket(Origin="https://evil.example")

    assert own.status_code == 200
    assert plain.status_code == 403
    assert refused.value.response.status_code == 403


def test_a_body_that_is_too_long_is_refused_by_the_server_in_its_own_words(proxied: Proxied) -> None:
    answer = proxied.call("find_records", {"model": "x" * 1_100_000})

    refused: dict[str, Any] = answer.json()
    assert answer.status_code == 413
    assert "MAX_BODY_BYTES" in refused["error"]["message"]


def test_a_session_of_grpc_passes(proxied: Proxied) -> None:
    sent: queue.Queue[Any] = queue.Queue()
    credentials = grpc.ssl_channel_credentials(proxied.certificate.read_bytes())
    metadata = [("authorization", f"Bearer {proxied.token}")]
    with grpc.secure_channel(proxied.origin.removeprefix("https://"), credentials) as channel:
        received = mcp_pb2_grpc.MCPStub(channel).Session(iter(sent.get, None), metadata=metadata, timeout=60)
        sent.put(protobuf.message_of(listen_to(13)))
        acknowledged = protobuf.value_of(next(received))
        call = {"name": "find_records", "arguments": {"model": "flights.flight", "filter": {"id": 13}}}
        sent.put(protobuf.message_of({**message("tools/call", call), "id": 8}))
        answered = protobuf.value_of(next(received))
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        sent.put(protobuf.message_of(cancelled))
        sent.put(None)
        ended = list(received)

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert (answered["id"], answered["result"]["isError"]) == (8, False)
    assert ended == []
    assert received.code() is grpc.StatusCode.OK


# Cloudflare in front of a proxy: the test plays Cloudflare.


class _Forwarded(BaseHTTPRequestHandler):
    """The server behind the proxy, which keeps what it is told of the client."""

    told: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.told.append(self.headers["X-Forwarded-For"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.mark.parametrize("name", ["nginx", "caddy"])
def test_behind_cloudflare_it_is_the_address_of_the_user_that_counts(name: str, tmp_path: Path) -> None:
    program, port = found(name), free_port()
    [line] = [line for line in PAGE.splitlines() if line.lower().startswith(f"- **{name}**: ")]
    own = "\n".join(re.findall(r"`([a-z_]+ [^`]+)`", line)).replace("173.245.48.0/20", "127.0.0.0/8")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Forwarded)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    behind, written = f"127.0.0.1:{server.server_port}", tmp_path / "configuration"
    if name == "nginx":
        passing = f"proxy_pass http://{behind}; proxy_set_header X-Forwarded-For $remote_addr;"
        configuration = f"server {{ listen 127.0.0.1:{port}; {own} location / {{ {passing} }} }}"
        user = "user root;" if os.geteuid() == 0 else ""
        written.write_text(SURROUNDINGS.format(user=user, folder=tmp_path, configuration=configuration))
        command = [program, "-p", str(tmp_path), "-c", str(written)]
    else:
        passing = f"reverse_proxy {behind} {{\n{own}\n}}"
        written.write_text(f"{{\n admin off\n}}\nhttp://127.0.0.1:{port} {{\n{passing}\n}}")
        command = [program, "run", "--config", str(written), "--adapter", "caddyfile"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: is_listening(port), name)
        _Forwarded.told.clear()
        httpx.get(
            f"http://127.0.0.1:{port}/", headers={"CF-Connecting-IP": "203.0.113.7", "X-Forwarded-For": "203.0.113.7"}
        )
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)
        server.shutdown()

    [forwarded] = _Forwarded.told
    assert address_behind(int(line.rstrip(".")[-1]), "127.0.0.1", forwarded) == "203.0.113.7"


# Apache serves the project itself.

_MODULES = Path("/usr/lib/apache2/modules")
_APACHE = """
ServerRoot {folder}
PidFile {folder}/apache.pid
ErrorLog /dev/stderr
ServerName 127.0.0.1
Listen 127.0.0.1:{port}
LoadModule mpm_event_module {modules}/mod_mpm_event.so
LoadModule authz_core_module {modules}/mod_authz_core.so
LoadModule wsgi_module {modules}/mod_wsgi.so
LoadModule ssl_module {modules}/mod_ssl.so
WSGISocketPrefix {folder}/wsgi
{user}
{configuration}
"""


def python_of_apache() -> str:
    """The version of the Python that mod_wsgi is built for, as "3.11"; empty where it is not installed."""
    linked = subprocess.run(["ldd", _MODULES / "mod_wsgi.so"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"libpython(\d+\.\d+)", linked)
    return version[1] if version else ""


@pytest.fixture(scope="module")
def by_apache() -> Iterator[tuple[str, str, ssl.SSLContext]]:
    """Its URL, a token, and whom to trust."""
    program = found("apache2")
    version = "{}.{}".format(*sys.version_info)
    need(python_of_apache() == version, f"mod_wsgi of Python {version}")
    # Apache's processes give root up: nobody else may read what pytest makes.
    with tempfile.TemporaryDirectory(prefix="apache-") as name:
        folder = Path(name)
        site = folder / "site"
        site.mkdir()
        project = start_project(site)
        install(project)
        settings = project.folder / "project/settings.py"
        settings.write_text(f"{settings.read_text()}\nALLOWED_HOSTS = ['127.0.0.1']\n")
        set_up(project)
        is_root, port = os.geteuid() == 0, free_port()
        certificate, key = make_certificate(folder)
        [block] = re.findall(r"```apache\n(.*?)```", PAGE, re.DOTALL)
        packages = ":".join([str(ROOT), *(entry for entry in sys.path if entry.endswith("-packages"))])
        configuration = replaced(
            block,
            ("*:443", f"127.0.0.1:{port}"),
            ("ServerName example.com", "ServerName 127.0.0.1"),
            ("/etc/ssl/example.com/fullchain.pem", certificate),
            ("/etc/ssl/example.com/privkey.pem", key),
            # The environment of the tests may be in a home that Apache's processes cannot read.
            ("python-home=/srv/project/.venv python-path=/srv/project", f"python-path={project.folder}:{packages}"),
            ("/srv/project/project/wsgi.py", project.folder / "project/wsgi.py"),
            ("<Directory /srv/project/project>", f"<Directory {project.folder}/project>"),
        )
        if is_root:
            for path in (folder, *folder.rglob("*")):
                os.chown(path, pwd.getpwnam("www-data").pw_uid, -1)
        user = "User www-data\nGroup www-data" if is_root else ""
        written = folder / "apache.conf"
        written.write_text(
            _APACHE.format(folder=folder, port=port, modules=_MODULES, user=user, configuration=configuration)
        )
        own = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
        process = subprocess.Popen([program, "-f", str(written), "-DFOREGROUND"], env=own)
        try:
            wait_for(lambda: is_listening(port), "Apache")
            trusted = ssl.create_default_context(cafile=str(certificate))
            yield f"https://127.0.0.1:{port}/mcp", token_of(project), trusted
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def test_apache_serves_the_project_and_passes_the_token(by_apache: tuple[str, str, ssl.SSLContext]) -> None:
    url, token, trusted = by_apache
    headers = {
        "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list",
        "Authorization": f"Bearer {token}",
    }  # fmt: skip

    answer = httpx.post(url, json=message("tools/list", {}), headers=headers, verify=trusted, timeout=60)
    ready = httpx.get(f"{url}/ready", verify=trusted, timeout=60)

    assert answer.status_code == 200 and "tools" in answer.json()["result"], answer.text
    assert (ready.status_code, ready.json()) == (200, {"database": "ok", "bus": "ok"})
