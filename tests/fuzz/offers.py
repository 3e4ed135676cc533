"""What the server under test offers beside the demo's data: handlers that tell, ask, stream and take anything."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from demo_project.flights.models import Airport
from mcp_django import Roots, Sampling
from tests.support.declared import Declared

FORM = {
    "type": "object",
    "properties": {"seats": {"type": "integer"}, "why": {"type": "string"}},
    "required": ["seats"],
}


def chatty(request: Any, steps: int = 3) -> str:
    """Tells how far it is, and what it thinks."""
    for step in range(min(max(steps, 0), 5)):
        request.mcp.progress(step, total=steps, message=f"step {step}")
        request.mcp.log("info", {"step": step}, logger="chatty")
        request.mcp.close_stream(1)
    return "done"


def asker(request: Any) -> str:
    """Asks for a form, then for the rest."""
    form = request.mcp.elicit("How many seats?", FORM)
    if not form.accepted:
        return form.action
    rest = request.mcp.ask({"roots": Roots(), "draft": Sampling("Write a line.", 10)})
    return f"{form.content['seats']} {len(rest['roots'])} {rest['draft'].text}"


def trusting(request: Any) -> str:
    """Takes an answer that no state vouches for."""
    return request.mcp.elicit("Sure?", FORM, key="sure", trusted=False).action


def regional(
    request: Any,
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})],
    seats: Annotated[int, Field(json_schema_extra={"x-mcp-header": "Seats"})] = 0,
    tags: list[str | int] | None = None,
) -> dict[str, Any]:
    """Repeats what it was given."""
    return {"region": region, "seats": seats, "tags": tags}


def free(request: Any, arguments: dict[str, Any]) -> list[Any]:
    """Takes what its own schema says."""
    return [arguments]


FREE_SCHEMA = {
    "type": "object",
    "properties": {
        "tree": {"$ref": "#/$defs/node"},
        "code": {"type": "string", "pattern": "^(a+)+$"},
        "many": {"type": "array", "uniqueItems": True},
    },
    "$defs": {
        "node": {"type": "object", "additionalProperties": {"$ref": "#/$defs/leaf"}},
        "leaf": {"type": "object", "additionalProperties": {"type": "object"}},
    },
}


def summary(request: Any, airport: Airport, tone: Literal["short", "long"] = "short", note: str = "") -> str:
    """What to say of an airport."""
    return f"{airport.pk} {tone} {note}"


def asking_prompt(request: Any, topic: str) -> list[str]:
    """Asks before it says anything."""
    return [topic, request.mcp.elicit("Which?", FORM).action]


def note(request: Any, number: str) -> str:
    return f"note {number}"


def offer(declared: Declared) -> None:
    declared.tool(chatty, read_only=True)
    declared.tool(asker)
    declared.tool(trusting)
    declared.tool(regional)
    declared.tool(free, input_schema=FREE_SCHEMA)
    declared.prompt(summary, complete={"note": lambda request, typed, arguments: [typed, "x"]})
    declared.prompt(asking_prompt)
    declared.resource(
        "note://{number}", note, name="note", complete={"number": lambda request, typed, arguments: ["1", typed]}
    )
