"""What the converters have in common: tools come as JSON on stdin, and what was made of them leaves on stdout.

Each is a module that is run in an environment of its own, with the project's folder as the current one.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

#: A tool as tools/list has it.
Tool = dict[str, Any]
#: What is sent of the tool: ``schema``, and where they are said ``strict`` and another ``name``.
Sent = dict[str, Any]
Convert = Callable[[Tool], Sent]


def convert_all(ways: Mapping[str, Convert]) -> None:
    """Print what each way makes of each tool; where it raises an exception, the text of that as ``error``."""
    tools: list[Tool] = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):  # Packages say what they like there.
        made = {way: {tool["name"]: _made(convert, tool) for tool in tools} for way, convert in ways.items()}
    json.dump(made, sys.stdout)


def _made(convert: Convert, tool: Tool) -> Sent:
    try:
        return convert(json.loads(json.dumps(tool)))  # Some change what they are given.
    except Exception as error:  # noqa: BLE001 - whatever it is, it is what a user of the package gets
        return {"error": f"{type(error).__name__}: {error}"}


def of_openai(sent: Mapping[str, Any]) -> Sent:
    """What counts in a function as OpenAI's APIs take it."""
    function = sent.get("function", sent)
    return {"schema": function["parameters"], "strict": function.get("strict")}
