"""The packages that convert our schemas, each with an environment of its own, and the files of what they made."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import matrix
from tests.conformance import node

HERE = Path(__file__).parent
FOLDER = HERE / "converted"
#: A converter that hangs waits for a network.
_SECONDS = 300


@dataclass(frozen=True)
class Converter:
    """A script in ``converters`` that prints what some packages make of tools."""

    name: str
    #: The packages that it is about, whose versions are written down.
    packages: tuple[str, ...]
    is_python: bool = True

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.json"

    @property
    def versions(self) -> dict[str, str]:
        """The version of each package, as it is pinned."""
        if self.is_python:
            pinned = dict(line.split("==") for line in matrix.pins(self._requirements))
        else:
            pinned = json.loads((HERE / "package.json").read_text())["dependencies"]
        return {package: pinned[package] for package in self.packages}

    def command(self) -> list[str]:
        """How the script is run, in an environment that is made first if it is not there.

        Raises CalledProcessError, RuntimeError and NPMMissing where it could not be made.
        """
        if self.is_python:
            text = "\n".join([*matrix.pins(self._requirements), ""])
            folder = matrix.ROOT / f".venv-clients-{self.name}"
            # From another folder a module of ours would have the name of their package.
            return [
                matrix.environment(self.name, folder, sys.executable, text),
                "-m",
                f"{__package__}.converters.{self.name}",
            ]
        suite = node.install(HERE)
        for script in HERE.glob("converters/*.mjs"):  # Where their packages are found.
            shutil.copyfile(script, suite.folder / script.name)
        return [str(suite.node), str(suite.folder / f"{self.name}.mjs")]

    def convert(self, tools: list[dict[str, Any]]) -> None:
        """Write anew what becomes of the tools. Raises CalledProcessError with what the script wrote, and see above."""
        done = subprocess.run(
            self.command(), cwd=matrix.ROOT, input=json.dumps(tools), capture_output=True, text=True, timeout=_SECONDS,
            check=True,
        )  # fmt: skip
        written = {"version": self.versions, "tools": schemas(tools), "converted": json.loads(done.stdout)}
        self.file.write_text(json.dumps(written, indent=2, sort_keys=True, ensure_ascii=False) + "\n")

    @property
    def _requirements(self) -> Path:
        return HERE / "requirements" / f"{self.name}.txt"


CONVERTERS = (
    Converter(
        "ai_sdk", ("ai", "@ai-sdk/mcp", "@ai-sdk/anthropic", "@ai-sdk/google", "@ai-sdk/openai"), is_python=False
    ),
    Converter("beeai", ("beeai-framework",)),
    Converter("crewai", ("crewai", "crewai-tools")),
    Converter("google_adk", ("google-adk", "google-genai")),
    Converter("google_genai", ("google-genai",)),
    Converter("langchain", ("langchain-mcp-adapters", "langchain-core", "langchain-google-genai")),
    Converter("mastra", ("@mastra/core", "@mastra/mcp"), is_python=False),
    Converter("openai_agents", ("openai-agents",)),
    Converter("pydantic_ai", ("pydantic-ai-slim",)),
)


def schemas(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """The schema of each tool's arguments by its name."""
    return {tool["name"]: tool["inputSchema"] for tool in tools}
