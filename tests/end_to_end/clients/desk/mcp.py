"""What the desk offers beside its tickets: a tool for each thing that a client may be able to do."""

import time
from typing import Literal

from mcp_django import prompt, resource, tool
from mcp_django.exchange.requests import MCPRequest
from tests.end_to_end.clients.desk.models import Ticket

NAME = {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}, "required": ["name"]}


@tool(read_only=True)
def greet(request: MCPRequest) -> str:
    """Ask the user for a name, and greet it."""
    asked = request.mcp.elicit("Who is there?", NAME)
    return f"Hello, {asked.content['name']}." if asked.accepted else f"Nobody: {asked.action}."


@tool(read_only=True)
def translate(request: MCPRequest, text: str) -> str:
    """Let the client's model translate a text into French."""
    sampled = request.mcp.sample(f"Say in French: {text}", max_tokens=50)
    return f"{sampled.model} says: {sampled.text}"


@tool(read_only=True)
def folders(request: MCPRequest) -> str:
    """Ask the client on which folders it works."""
    return ", ".join(f"{root.name} at {root.uri}" for root in request.mcp.list_roots())


@tool(read_only=True)
def count(request: MCPRequest, to: int, ticket: Ticket) -> str:
    """Count, say at every step how far it is, and end when the ticket is closed."""
    for step in range(1, to + 1):
        request.mcp.log("info", f"counted {step}", "desk")
        request.mcp.progress(step, to, f"{step} of {to}")
    # A client that is told of the last step and of the end in one breath may forget the step.
    deadline = time.monotonic() + 30
    while ticket.status != "closed" and time.monotonic() < deadline and not request.mcp.cancelled:
        time.sleep(0.02)
        ticket.refresh_from_db()
    return f"Counted to {to}, and the ticket is {ticket.status}."


@tool(read_only=True)
def letter(request: MCPRequest, size: int, steps: int = 0) -> str:
    """A letter of so many characters. With steps it says how far it is, so that its answer is a stream."""
    for step in range(1, steps + 1):
        request.mcp.progress(step, steps)
    return "abcdefghij" * (size // 10)


@tool(read_only=True)
def ledger(request: MCPRequest, lines: int, steps: int = 0) -> dict[str, list[str]]:
    """A ledger of so many lines, as structured content. With steps it says how far it is."""
    for step in range(1, steps + 1):
        request.mcp.progress(step, steps)
    return {"lines": ["abcdefghij"] * lines}


@tool(destructive=False)
def file_away(request: MCPRequest, lines: int) -> dict[str, list[str]]:
    """Write so many lines into the ledger, and return them."""
    return ledger(request, lines)


@prompt
def reply(request: MCPRequest, ticket: Ticket, tone: Literal["short", "long"] = "short") -> str:
    """Answer whoever opened a ticket."""
    return f"Write a {tone} answer to: {ticket.title}"


@resource("desk://rules", title="Rules of the desk", mime_type="text/markdown")
def rules(request: MCPRequest) -> str:
    """How the desk works."""
    return "# Rules\n\nOne ticket at a time."


@resource("desk://tickets/{id}/card", title="Card of a ticket")
def card(request: MCPRequest, id: str) -> str:
    """A ticket in a sentence."""
    return f"Ticket {id}."
