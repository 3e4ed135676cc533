"""The packages that convert our schemas, each with an environment of its own, and the files of what they made."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests import matrix
from tests.conformance import node

if TYPE_CHECKING:
    from tests.clients.listed import Tools

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

    def convert(self, tools: Tools) -> None:
        """Write anew what becomes of the tools. Raises CalledProcessError with what the script wrote, and see above."""
        converted = {name: self._converted(listed) for name, listed in tools.items()}
        lines = [f'{{"version": {_json(self.versions)},', f'"digest": {_json(digest(tools))},', '"converted": {']
        for name, ways in converted.items():
            for way, made in ways.items():
                lines.append(f"{_json(f'{name} {way}')}: {{")
                lines += [f"  {_json(tool)}: {_json(one)}," for tool, one in sorted(made.items())]
                lines[-1] = lines[-1].removesuffix(",")
                lines.append("},")
        lines[-1] = "}"
        self.file.write_text("\n".join([*lines, "}}", ""]))

    def _converted(self, tools: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """By the way of converting, and by the name of the tool."""
        done = subprocess.run(
            self.command(), cwd=matrix.ROOT, input=json.dumps(tools), capture_output=True, text=True, timeout=_SECONDS,
            check=True,
        )  # fmt: skip
        ways: dict[str, dict[str, Any]] = json.loads(done.stdout)
        return ways

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


def digest(tools: Tools) -> str:
    """What changes where the schema of a tool does."""
    schemas = {name: {tool["name"]: tool["inputSchema"] for tool in listed} for name, listed in tools.items()}
    return hashlib.sha256(_json(schemas).encode()).hexdigest()


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False)
