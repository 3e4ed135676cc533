"""Records anew what agent frameworks send to the demo's tools and make of their results; it is run by hand.

``python -m tests.bridge.tools.recorded.record NAME=PYTHON ...`` runs in the environment of the tests, with the demo's
data installed. NAME is crewai, langchain or smolagents, and PYTHON the interpreter of an environment of its own, made
with

    pip install crewai "crewai-tools[mcp]"
    pip install langchain-mcp-adapters langgraph
    pip install "smolagents[mcp]" "mcp[ws]<2"

(mcpadapt 0.1.19 does not know mcp 2). What was recorded is in ``NAME.json`` beside this file, with the versions.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bridge.tools.recorded.frameworks import FRAMEWORKS
from tests.end_to_end.servers import ROOT, demo

#: Each tool with what a model gives: what is needed, an integer as a text, errors, a file, several blocks.
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("describe_models", {}),
    ("find_records", {"model": "flights.airline"}),
    ("find_records", {"model": "flights.flight", "fields": ["carrier"], "filter": {"origin": "JFK"}, "limit": "2"}),
    ("find_records", {"model": "flights.flight", "fields": ["carrier"], "limit": 2, "format": "csv"}),
    ("find_records", {"model": "flights.flight", "filter": {"nope": 1}}),
    ("get_record", {"model": "flights.airline", "id": "AA"}),
    ("aggregate_records", {"model": "flights.flight"}),
    ("flights_flight_mark_cancelled", {"ids": ["1"]}),
    ("flights_flight_mark_cancelled", {"ids": ["0"]}),
    ("flights_flight_export_as_csv", {"ids": ["1"]}),
    ("every_block", {}),
]
#: No framework reports that it was used.
_SILENT = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "LANGSMITH_TRACING": "false"}


def record(name: str, python: str) -> dict[str, Any]:
    """What the framework sends to a new demo, and reads."""
    with tempfile.TemporaryDirectory() as folder:
        project = demo(Path(folder), 'INSTALLED_APPS = [*INSTALLED_APPS, "tests.bridge.tools.recorded"]')
        project.manage("demo", "--no-serve", "--rows", "300")
        token = Path(folder, "token").read_text().strip()
        with project.served() as served:
            given = {"url": served.url, "headers": {"Authorization": f"Bearer {token}"}, "calls": CALLS}
            command = [python, "-m", f"{__package__}.frameworks", name]
            environment = {**os.environ, **_SILENT}
            output = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                input=json.dumps(given),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout
    recorded: dict[str, Any] = json.loads(output.splitlines()[-1])
    return recorded


def main() -> None:
    for argument in sys.argv[1:]:
        name, _, python = argument.partition("=")
        if name not in FRAMEWORKS or not python:
            sys.exit(__doc__)
        # Not resolved: the interpreter of an environment is a link to another one.
        text = json.dumps(record(name, str(Path(python).absolute())), ensure_ascii=False)
        # A line for each call.
        text = text.replace('[{"tool": ', '[\n{"tool": ').replace(', {"tool": ', ',\n{"tool": ')
        Path(__file__).with_name(f"{name}.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
