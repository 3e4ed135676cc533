"""A program that logs in by a browser: where it sends its person, and where it waits for the answer."""

from __future__ import annotations

import queue
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.end_to_end.servers import Served
from tests.oauth.flow import Program


class Callback:
    """A program on the person's machine that waits for its answer."""

    def __init__(self) -> None:
        answers: queue.Queue[dict[str, str]] = queue.Queue()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                parts = urlsplit(self.path)
                self.send_response(200 if parts.path == "/callback" else 204)
                self.end_headers()
                if parts.path == "/callback":
                    answers.put({name: values[0] for name, values in parse_qs(parts.query).items()})
                    self.wfile.write(b"<title>Connected</title>You may close this page.")

            def log_message(self, *args: Any) -> None: ...

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.answers = answers
        self.url = f"http://127.0.0.1:{self._server.server_port}/callback"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def url_of(program: Program, served: Served, scope: str = "read actions") -> str:
    return served.origin + program.url(scope=scope, resource=served.url)
