"""The project, served over HTTP by uvicorn and in the same process over gRPC, at the port ``FAULTS_GRPC_PORT``."""

from __future__ import annotations

import os
from typing import Any

from mcp_django.routing import get_asgi_application

over_http = get_asgi_application()


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "lifespan":
        await over_http(scope, receive, send)
        return
    # Models can be imported now.
    from mcp_django import site
    from mcp_django.transports.grpc.server import GRPCServer

    await receive()
    server = GRPCServer(site, f"127.0.0.1:{os.environ['FAULTS_GRPC_PORT']}")
    await server.start()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await server.stop()
    await send({"type": "lifespan.shutdown.complete"})
