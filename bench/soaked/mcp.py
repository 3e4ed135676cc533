"""A tool that goes on as a task, and one that takes a file."""

from __future__ import annotations

import hashlib
import time

from django.core.files.uploadedfile import UploadedFile

from mcp_django import MCPRequest, tool


@tool(read_only=True, task=True)
def wait(request: MCPRequest, steps: int) -> str:
    """Take so many steps of a tenth of a second, unless it is cancelled."""
    for number in range(steps):
        if request.mcp.cancelled:
            break
        request.mcp.progress(number, steps, f"step {number}")
        time.sleep(0.1)
    return "waited"


@tool(read_only=True)
def digest(request: MCPRequest, file: UploadedFile[bytes]) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(file.read()).hexdigest()
