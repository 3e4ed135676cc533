"""How the client of nats-py opens a connection."""

from __future__ import annotations

from typing import Any


def make_client() -> Any:
    """A client of nats-py that refuses a server without TLS if its URL begins with ``tls://``.

    nats-py itself leaves that to the server, or to an attacker who answers in its place.

    Private: ``Client._process_info`` and ``Client._current_server``. Seen with: nats-py 2.16. Public way: none.
    """
    from nats.aio.client import Client
    from nats.errors import Error

    class TLSClient(Client):
        async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
            server = self._current_server
            if initial_connection and server and server.uri.scheme == "tls" and not info.get("tls_required"):
                raise Error("nats: the server offers no TLS, which its URL asks for")
            await super()._process_info(info, initial_connection)

    return TLSClient()
