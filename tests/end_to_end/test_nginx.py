"""The nginx configuration of docs/deployment.md, as it stands there, before a server of HTTP and one of gRPC."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from websockets import Subprotocol
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from mcp_django.protocol import mcp_pb2_grpc, protobuf
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


def documented() -> str:
    """The configuration that the documentation shows, with the part for gRPC where it belongs."""
    text = (ROOT / "docs/deployment.md").read_text()
    server, of_grpc = re.findall(r"```nginx\n(.*?)```", text, re.DOTALL)
    assert "`listen 443 ssl http2;`" in text
    return f"{server.rstrip().removesuffix('}')}{of_grpc}}}".replace("listen 443 ssl;", "listen 443 ssl http2;")


def adapted(port: int, served: Served, over_grpc: Served, certificate: Path, key: Path) -> str:
    """The same on ports of this machine, with a certificate of the test."""
    configuration = documented()
    for shown, here in (
        ("listen 443 ssl http2;", f"listen 127.0.0.1:{port} ssl http2;"),
        ("server 127.0.0.1:8000;", f"server 127.0.0.1:{served.port};"),
        ("grpc://127.0.0.1:50051;", f"grpc://127.0.0.1:{over_grpc.port};"),
        ("server_name example.com;", "server_name 127.0.0.1;"),
        ("/etc/ssl/example.com/fullchain.pem", str(certificate)),
        ("/etc/ssl/example.com/privkey.pem", str(key)),
    ):
        assert configuration.count(shown) == 1, shown
        configuration = configuration.replace(shown, here)
    return configuration


@dataclass
class Proxied:
    """The demo behind nginx."""

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
def nginx(program: str, folder: Path, served: Served, over_grpc: Served) -> Iterator[Proxied]:
    certificate, key = make_certificate(folder)
    port = free_port()
    user = "user root;" if os.geteuid() == 0 else ""
    configuration = adapted(port, served, over_grpc, certificate, key)
    written = folder / "nginx.conf"
    written.write_text(SURROUNDINGS.format(user=user, folder=folder, configuration=configuration))
    log = folder / "nginx.log"
    with log.open("wb") as output:
        process = subprocess.Popen([program, "-p", str(folder), "-c", str(written)], stdout=output, stderr=output)
    origin, trusted = f"https://127.0.0.1:{port}", ssl.create_default_context(cafile=str(certificate))

    def answers() -> bool:
        assert process.poll() is None, log.read_text()
        with suppress(httpx.TransportError):
            return httpx.post(f"{origin}/mcp", json={}, verify=trusted, timeout=60).status_code == 401
        return False

    try:
        wait_for(answers, "nginx")
        yield Proxied(origin, (folder / "token").read_text().strip(), trusted, certificate)
    finally:
        process.terminate()
        process.wait(STOP_SECONDS)


@pytest.fixture(scope="module")
def proxied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxied]:
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip("nginx is missing, with which docs/deployment.md is tried")
    folder = tmp_path_factory.mktemp("nginx")
    # Only now, since it takes a while to make.
    shutil.copytree(request.getfixturevalue("demo_data"), folder, dirs_exist_ok=True)
    project = demo(folder, SETTINGS)
    with (
        project.served("uvicorn") as served,
        project.served("grpc") as over_grpc,
        nginx(program, folder, served, over_grpc) as proxied,
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
    # What is no stream, this nginx compresses.
    assert called.headers["Content-Encoding"] == "gzip"
    assert told == updated(13)


def test_a_client_that_leaves_nginx_leaves_the_server_too(proxied: Proxied) -> None:
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
