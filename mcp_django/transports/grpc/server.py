"""The server: the service, its health, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import grpc
from grpc.aio import ServicerContext
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.push.hub import find_hub
from mcp_django.transports.grpc.calls import Session, call

SERVICE = "mcp_django.v1.MCP"

#: How many bytes of a message are taken in before its caller is known.
_LOOKAHEAD_BYTES = 65_536
#: How long a connection may stay open without a call.
_IDLE_MS = 60_000
#: How long open sessions and calls may take to end.
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class TLS:
    """Certificates as PEM. With ``client_ca``, a client must have a certificate signed by that authority."""

    certificate: bytes
    key: bytes
    client_ca: bytes | None = None


class GRPCServer:
    """Serves a site at an address, on the event loop in which it is made."""

    def __init__(self, site: MCPSite, address: str, tls: TLS | None = None, *, shares_port: bool = False) -> None:
        """Raises RuntimeError where the address cannot be bound."""
        self._site = site
        self._health = Health()
        self._server = grpc.aio.server(options=_options(shares_port=shares_port))
        # Raw bytes: a message is looked at closely before anything is made of it.
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Session": grpc.stream_stream_rpc_method_handler(self._session),
            # A stream of one message, which is read only once its caller is known. On the wire it is a unary call.
            "Call": grpc.stream_unary_rpc_method_handler(self._call),
        }
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        #: The port that it is bound to.
        self.port = (
            self._server.add_insecure_port(address)
            if tls is None
            else self._server.add_secure_port(address, _credentials(tls))
        )

    async def start(self) -> None:
        await self._server.start()
        for name in ("", SERVICE):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Take no more calls, and end those that are open: listens are completed, and requests in flight answered."""
        await self._health.enter_graceful_shutdown()
        hub = find_hub()
        if hub is not None:
            hub.close()
        await self._server.stop(_GRACE_SECONDS)

    async def _session(self, requests: AsyncIterator[bytes], context: ServicerContext[bytes, bytes]) -> None:
        await Session(self._site, context).run()

    async def _call(self, requests: AsyncIterator[bytes], context: ServicerContext[bytes, bytes]) -> bytes:
        return await call(self._site, context)


class Health(health.HealthServicer):  # type: ignore[misc]
    """Answers ``Check`` and refuses ``Watch``, since anybody could open a watch and keep it."""

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: ServicerContext[Any, Any]) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Use Check.")


def _credentials(tls: TLS) -> grpc.ServerCredentials:
    return grpc.ssl_server_credentials(
        [(tls.key, tls.certificate)],
        root_certificates=tls.client_ca,
        require_client_auth=tls.client_ca is not None,
    )


def _options(*, shares_port: bool) -> list[tuple[str, int]]:
    conf = get_conf()
    return [
        ("grpc.max_receive_message_length", conf.MAX_BODY_BYTES),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_concurrent_streams", conf.MAX_LISTENS),
        ("grpc.so_reuseport", int(shares_port)),
        # A message stays with its client until we read it, except for these bytes.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
        # Counted while there is no call on the connection.
        ("grpc.max_connection_idle_ms", _IDLE_MS),
        # A client that has vanished is found out, and proxies see that the connection is used.
        ("grpc.keepalive_time_ms", int(conf.KEEPALIVE_SECONDS * 1000)),
        ("grpc.keepalive_timeout_ms", int((conf.WRITE_SECONDS or 30) * 1000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
    ]
