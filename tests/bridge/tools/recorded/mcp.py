"""A tool of the recorded server that answers with the kinds of blocks for which frameworks have rules."""

from __future__ import annotations

from django.http import HttpRequest

from mcp_django import tool
from mcp_django.content import Block, EmbeddedBlob, EmbeddedText, ResourceLink, Text


@tool(read_only=True)
def every_block(request: HttpRequest) -> list[Block]:
    """Two texts, two files and a link."""
    return [
        Text("one"),
        Text("two"),
        EmbeddedText("file:///a.csv", "a,b\r\n", "text/csv"),
        EmbeddedBlob("file:///a.pdf", b"%PDF", "application/pdf"),
        ResourceLink("db://flights/airline/AA", "American", mime_type="application/json"),
    ]
