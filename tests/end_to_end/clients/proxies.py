"""A proxy between a client and the server that lets no header of the protocol pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx

_SECONDS = 60
_OWN = ("connection", "content-length", "date", "host", "keep-alive", "server", "transfer-encoding")


@contextmanager
def stripping_proxy(url: str) -> Iterator[str]:
    """Yields the URL under which ``url`` is reached without its ``Mcp-*`` headers, in both directions."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = httpx.request(self.command, url, headers=_passing(self.headers), content=body, timeout=_SECONDS)
            self.send_response(answer.status_code)
            for name, value in _passing(answer.headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = do_DELETE = forward

        def log_message(self, *args: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    serving = Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


def _passing(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers.items()
        if not name.lower().startswith("mcp-") and name.lower() not in _OWN
    }
