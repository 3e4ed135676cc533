"""Tools whose runs other processes can follow."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mcp_django import tool


def trace(name: str, text: str = "") -> None:
    Path(os.environ["TASK_FILES"], name).write_text(text)


@tool(task=True, read_only=True)
def wait(request: Any, name: str) -> str:
    """Runs until a file named as the argument appears, or the task is cancelled."""
    trace(f"{name}.begun", str(os.getpid()))
    end = time.monotonic() + 60
    while not Path(os.environ["TASK_FILES"], name).exists():
        assert time.monotonic() < end
        request.mcp.progress(time.monotonic(), message="waits")
        if request.mcp.cancelled:
            trace(f"{name}.cancelled")
            return "cancelled"
        time.sleep(0.02)
    return f"{name} is there"


@tool(task=True, read_only=True)
def confirm(request: Any) -> str:
    """Asks."""
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    return f"Hello, {request.mcp.elicit('Your name?', schema, key='who').content['name']}."
