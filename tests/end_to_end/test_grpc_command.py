"""``manage.py mcp_grpc`` in processes of its own: TLS, a port that processes share, and how it ends."""

from __future__ import annotations

import queue
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from mcp_django.protocol import mcp_pb2_grpc, protobuf
from tests.end_to_end.servers import GRPCServed, Project, demo, free_port
from tests.support import forkserver
from tests.support.certificates import make_certificate
from tests.support.peers import meta

pytestmark = pytest.mark.more("an optional wire")

COMMAND = ("manage.py", "mcp_grpc", "--port", "{port}")
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
CODE = grpc.StatusCode


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def metadata(demo_folder: Path, demo_project: Project) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {(demo_folder / 'token').read_text().strip()}")]


@contextmanager
def stub_of(address: str, credentials: grpc.ChannelCredentials | None = None) -> Iterator[Any]:
    """A client with a connection of its own."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    channel = (
        grpc.insecure_channel(address, options)
        if credentials is None
        else grpc.secure_channel(address, credentials, options)
    )
    with channel:
        yield mcp_pb2_grpc.MCPStub(channel)


def ask(stub: Any, metadata: Any, message: Any = PING) -> Any:
    return protobuf.value_of(stub.Call(protobuf.message_of(message), metadata=metadata, timeout=60))


def refusal(stub: Any, metadata: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.RpcError) as caught:
        ask(stub, metadata)
    return caught.value.code()  # type: ignore[no-any-return, attr-defined]


def test_with_a_certificate_it_is_served_by_tls_alone(
    demo_project: Project, certificate: tuple[Path, Path], metadata: Any
) -> None:
    chain, key = certificate
    trust = grpc.ssl_channel_credentials(chain.read_bytes())

    with demo_project.served("grpc", [*COMMAND, "--cert", str(chain), "--key", str(key)]) as served:
        assert isinstance(served, GRPCServed)
        with stub_of(served.address, trust) as stub:
            assert ask(stub, metadata) == PONG
        with stub_of(served.address) as stub:
            assert refusal(stub, metadata) is CODE.UNAVAILABLE


def test_with_a_client_ca_only_clients_that_it_has_signed_are_let_in(
    demo_project: Project, certificate: tuple[Path, Path], metadata: Any
) -> None:
    chain, key = certificate
    tls = ["--cert", str(chain), "--key", str(key), "--client-ca", str(chain)]
    known = grpc.ssl_channel_credentials(chain.read_bytes(), key.read_bytes(), chain.read_bytes())
    unknown = grpc.ssl_channel_credentials(chain.read_bytes())

    with demo_project.served("grpc", [*COMMAND, *tls]) as served:
        assert isinstance(served, GRPCServed)
        with stub_of(served.address, known) as stub:
            assert ask(stub, metadata) == PONG
            # A certificate says who may connect, and a token who somebody is.
            assert refusal(stub, []) is CODE.UNAUTHENTICATED
        with stub_of(served.address, unknown) as stub:
            assert refusal(stub, metadata) is CODE.UNAVAILABLE


def test_processes_share_a_port_and_one_goes_on_without_the_other(demo_project: Project, metadata: Any) -> None:
    port = free_port()

    def serve(servers: ExitStack) -> GRPCServed:
        served = servers.enter_context(demo_project.served("grpc", [*COMMAND, "--reuse-port"], port=port))
        assert isinstance(served, GRPCServed)
        return served

    with ExitStack() as servers:
        one, other = serve(servers), serve(servers)
        one.stop()
        with stub_of(other.address) as stub:
            assert ask(stub, metadata) == PONG
        third = serve(servers)
        other.stop()
        with stub_of(third.address) as stub:
            assert ask(stub, metadata) == PONG


def test_a_port_that_is_taken_is_said(demo_project: Project) -> None:
    with demo_project.served("grpc") as served:
        done = manage(demo_project, "mcp_grpc", "--port", str(served.port))

    assert done.returncode == 1
    assert f"127.0.0.1:{served.port} cannot be bound: is another process there? (--reuse-port)" in done.stderr


@pytest.mark.parametrize(("arguments", "error"), [
    (["--host", "0.0.0.0"], "Tokens would go to 0.0.0.0 in clear text: give --cert and --key, or --plaintext"),
    (["--cert", "no.pem"], "TLS needs both --cert and --key."),
    (["--cert", "no.pem", "--key", "no.pem"], "no.pem cannot be read: No such file or directory"),
])  # fmt: skip
def test_a_wrong_argument_is_said_before_a_port_is_bound(
    demo_project: Project, arguments: list[str], error: str
) -> None:
    done = manage(demo_project, "mcp_grpc", "--port", "0", *arguments)

    assert done.returncode == 1
    assert error in done.stderr


@pytest.mark.parametrize("base_url", ["", 'MCP["BASE_URL"] = "https://other.example.com"'])
def test_a_base_url_that_is_missing_or_that_the_site_does_not_allow_is_said(demo_folder: Path, base_url: str) -> None:
    project = demo(demo_folder, f'ALLOWED_HOSTS = ["example.com"]\n{base_url}')

    done = manage(project, "mcp_grpc", "--port", "0")

    assert done.returncode == 1
    assert "set BASE_URL to the URL of your site" in done.stderr


def test_sigterm_completes_a_listen_answers_what_runs_and_ends_the_process(
    demo_project: Project, metadata: Any
) -> None:
    sent: queue.Queue[Any] = queue.Queue()
    params = {"notifications": {"resourcesListChanged": True}, "_meta": meta()}
    with demo_project.served("grpc") as served:
        assert isinstance(served, GRPCServed)
        with stub_of(served.address) as stub:
            received = stub.Session(iter(sent.get, None), metadata=metadata)
            sent.put(
                protobuf.message_of({"jsonrpc": "2.0", "id": 5, "method": "subscriptions/listen", "params": params})
            )
            opened = protobuf.value_of(next(received))
            served.process.terminate()
            closing = protobuf.value_of(next(received))
            with pytest.raises(grpc.RpcError) as rest:
                next(received)
            sent.put(None)

        assert opened["method"] == "notifications/subscriptions/acknowledged"
        assert closing["id"] == 5
        assert rest.value.code() is CODE.UNAVAILABLE  # type: ignore[attr-defined]
        assert served.process.wait(60) == 0


def manage(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forkserver.run(["manage.py", *arguments], cwd=project.folder, env=project.environment)
