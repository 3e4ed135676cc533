"""A tool that waits until the test lets it go on, so that a call can be caught while it runs."""

from __future__ import annotations

import threading
from typing import Any

from django.http import HttpRequest

from mcp_django import site, tool


class Gate:
    """``enter`` is a tool of the default site; each call of it waits for ``open``."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._opened = threading.Event()

        @tool(read_only=True)
        def enter(request: HttpRequest) -> str:
            """Wait at the gate."""
            self.entered.release()
            assert self._opened.wait(30), "nobody opened the gate"
            return "through"

    def wait_for_entry(self) -> None:
        assert self.entered.acquire(timeout=30), "nobody came"

    def open(self) -> None:
        self._opened.set()

    def remove(self) -> None:
        self.open()
        del site._functions["enter"]
        site._forget()


ENTER: dict[str, Any] = {"name": "enter", "arguments": {}}
