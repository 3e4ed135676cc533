"""The tutorial is true: with the built package it shows what it says, up to the sale that an agent is told of."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest

from tests.conformance import node
from tests.conformance.node import INSPECTOR
from tests.conftest import is_listening, need
from tests.end_to_end.servers import Person, Project, Served, assert_no_traceback, free_port, wait_for
from tests.end_to_end.wheels import Built, build, lend_packages, packages_of
from tests.support.pages import PAGES

pytestmark = [pytest.mark.more("goes the whole tutorial, in an environment of its own"), pytest.mark.timeout(900)]

PAGE = PAGES["docs/tutorial.md"]
#: Each block of the page, by its language, in the order in which the reader meets them.
BLOCKS = re.findall(r"^(?<!-->\n)```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
INSTALL = "python -m pip install django-admin-mcp-server"
INSTALL_SDK = 'python -m pip install "mcp>=2.3,<3"'
#: For what takes a moment: a limit for what would never come.
SECONDS = 120
#: What is another one each time.
_MASKS = {
    r"mcpdj_\w+": "TOKEN",
    r"[A-Z][a-z]+ \d\d, \d{4} - \d\d:\d\d:\d\d": "MOMENT",
    r"(?<=version )\d[\w.]*": "VERSION",
    r"(?<=-server-)\d[\w.]*": "VERSION",
}
_CONSOLE = [
    "/admin/mcp_django/",
    "/admin/mcp_django/tool/",
    "/admin/mcp_django/accesstoken/",
    "/admin/mcp_django/accesstoken/add/",
    "/admin/mcp_django/call/",
    "/admin/mcp_django/change/",
    "/admin/mcp_django/prompt/",
    "/mcp",
]


def masked(text: str) -> str:
    for mask, name in _MASKS.items():
        text = re.sub(mask, name, text)
    return text


def pattern_of(shown: str) -> re.Pattern[str]:
    """What an output may be that the page shows: a line of three dots is any lines, and dots in a line are any text."""
    lines = [
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, re.split(r" ?\.\.\. ?", line))) + "\n"
        for line in masked(shown).splitlines()
    ]
    return re.compile("".join(lines))


class Terminal:
    """A command that runs, in a process group of its own so that Ctrl-C and the end reach all of it."""

    def __init__(self, command: str, folder: Path, env: dict[str, str], log: Path) -> None:
        self.command = command
        self.log = log
        #: How much of the output the page has shown, as it is masked.
        self.shown = 0
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", "-c", command],
                cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip

    @property
    def printed(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, pattern: re.Pattern[str]) -> str:
        """What it prints next, once that begins as the pattern says; otherwise what it printed instead."""

        def found() -> bool:
            return bool(pattern.match(masked(self.printed)[self.shown :])) or self.process.poll() is not None

        with suppress(AssertionError):
            wait_for(found, f"the output of {self.command}", SECONDS)
        printed = masked(self.printed)[self.shown :]
        if match := pattern.match(printed):
            self.shown += match.end()
            return match[0]
        return printed

    def press_ctrl_c(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(SECONDS)

    def end(self) -> None:
        """Nothing of it is left, whatever it was doing."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(SECONDS)


@dataclass(frozen=True)
class Output:
    """What the page shows of a command, and what it has printed."""

    command: str
    shown: str
    printed: str

    @property
    def is_as_shown(self) -> bool:
        return bool(pattern_of(self.shown).fullmatch(masked(self.printed)))


@dataclass
class Reader:
    """Does all that the page says, in its order, in an empty folder."""

    folder: Path
    wheel: Path
    #: Where the terminals are written down.
    scratch: Path
    port: int = field(default_factory=free_port)
    terminals: list[Terminal] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    server: Terminal | None = None
    agent: Terminal | None = None

    @property
    def environment(self) -> dict[str, str]:
        """That of a shell in which ``. .venv/bin/activate`` was typed, which reaches no network and no checkout."""
        inherited = Project(self.folder, "bakery", self.scratch).environment
        path = f"{self.folder / '.venv/bin'}{os.pathsep}{inherited['PATH']}"
        dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        return {name: value for name, value in inherited.items() if name not in dropped} | {
            "PATH": path,
            "PIP_NO_INDEX": "1",
        }

    @property
    def served(self) -> Served:
        assert self.server is not None
        return Served(Project(self.folder, "bakery", self.scratch), self.server.process, self.port, self.server.log)

    @property
    def password(self) -> str:
        [found] = re.findall(r"DJANGO_SUPERUSER_PASSWORD=(\w+)", PAGE)
        return str(found)

    @property
    def logged(self) -> str:
        """All terminals, for the message of a failure."""
        return "\n".join(f"$ {terminal.command}\n{terminal.printed}" for terminal in self.terminals)

    def follow(self) -> None:
        used: Terminal | None = None
        for language, text in BLOCKS:
            if language == "python":
                self._write(text)
            elif language == "sh":
                used = self._type(text)
            else:
                # What a command has printed is shown once: anything more is what the agent prints meanwhile.
                used = used or self.agent
                assert used is not None, f"nothing prints this:\n{text}"
                shown = self._here(text)
                self.outputs.append(Output(used.command, shown, used.wait_for(pattern_of(shown))))
                used = None

    def start(self, command: str) -> Terminal:
        log = self.scratch / f"terminal-{len(self.terminals)}.log"
        terminal = Terminal(command, self.folder, self.environment, log)
        self.terminals.append(terminal)
        return terminal

    def leave(self) -> None:
        for terminal in self.terminals:
            terminal.end()

    def _here(self, text: str) -> str:
        return text.replace(":8000", f":{self.port}")

    def _write(self, block: str) -> None:
        name, at_end, _ = block.partition("\n")[0].removeprefix("# ").partition(", at the end")
        file = self.folder / name
        with file.open("a" if at_end else "w") as written:
            written.write(self._here(block))

    def _type(self, block: str) -> Terminal:
        command = self._here(block)
        python, wheel = shlex.quote(sys.executable), shlex.quote(str(self.wheel))
        for typed, instead in {
            "python3 -m venv": f"{python} -m venv --without-pip",
            INSTALL: f"{python} -m pip --python .venv/bin/python install --no-deps --no-index --no-cache-dir {wheel}",
            INSTALL_SDK: "python -c 'import mcp'",
            "django-admin ": "python -m django ",
            "npx --yes @modelcontextprotocol/inspector": shlex.join(inspector()),
            "runserver": f"runserver {self.port}",
        }.items():
            command = command.replace(typed, instead)
        if "runserver" in block:
            return self._serve(command)
        terminal = self.start(command)
        if "agent.py" in block:
            self.agent = terminal
            return terminal
        code = terminal.process.wait(SECONDS)
        assert code == 0, f"{block} ended with {code}:\n{self.logged}"
        if INSTALL in block:
            lend_packages(self.folder / ".venv")
        return terminal

    def _serve(self, command: str) -> Terminal:
        if self.server is not None:
            self.server.press_ctrl_c()
            wait_for(lambda: not is_listening(self.port), "the end of the server", SECONDS)
        terminal = self.server = self.start(command)

        def listens() -> bool:
            assert terminal.process.poll() is None, f"the server has ended:\n{terminal.printed}"
            return is_listening(self.port)

        wait_for(listens, f"the server, in {terminal.log},", SECONDS)
        return terminal


def inspector() -> list[str]:
    """The command of the Inspector that the tests pin, which npx would download."""
    need(shutil.which("npm") is not None, "npm")
    suite = node.install()
    return [str(suite.node), str(suite.folder / INSPECTOR)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    need(find_spec("build") is not None, "build (pip install -r requirements-dev.txt)")
    return build(tmp_path_factory.mktemp("built"))


@pytest.fixture(scope="module")
def reader(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Somebody who has come to the end of the page; the server and the agent still run."""
    need(shutil.which("curl") is not None, "curl")
    scratch = tmp_path_factory.mktemp("tutorial")
    reader = Reader(scratch / "empty", built.wheel, scratch)
    reader.folder.mkdir()
    try:
        reader.follow()
        yield reader
    finally:
        reader.leave()
    assert_no_traceback(reader.logged)


@pytest.fixture(scope="module")
def person(reader: Reader) -> Iterator[Person]:
    """The reader in a browser."""
    person = Person(reader.served, "admin", reader.password)
    yield person
    person.close()


def test_each_command_prints_what_the_page_shows(reader: Reader) -> None:
    for output in reader.outputs:
        assert output.is_as_shown, f"{output}\n\n{reader.logged}"


def test_the_package_is_the_one_that_was_installed(reader: Reader) -> None:
    asked = reader.start(
        'python -c "import mcp_django; print(mcp_django.__file__)\n'
        "from importlib.util import find_spec; print(find_spec('demo_project'))\""
    )
    asked.process.wait(SECONDS)

    file, of_checkout = asked.printed.splitlines()
    assert Path(file) == packages_of(reader.folder / ".venv") / "mcp_django/__init__.py"
    assert of_checkout == "None"


def test_the_agent_is_told_of_a_sale_that_is_made_in_the_admin(reader: Reader, person: Person) -> None:
    assert reader.agent is not None
    line = "db://store/sale has changed. Sale 2: 5 x Pretzel\n"

    person.post("/admin/store/sale/add/", product="2", quantity="5")

    assert reader.agent.wait_for(pattern_of(line)) == line, reader.logged


def test_the_action_is_a_tool_once_it_is_switched_on(reader: Reader, person: Person) -> None:
    token = (reader.folder / "token").read_text().strip()
    before = reader.served.tools(token)
    page = person.client.get("/admin/mcp_django/tool/").text
    rows = dict(re.findall(r'<input type="hidden" name="(form-[\w-]+)" value="(\d+)"', page))
    ticked = re.findall(r'name="(form-\d+-enabled)"[^>]* checked', page)
    [box] = re.findall(r'name="(form-\d+-enabled)"[^>]*> on<span[^>]*> store_product_bake<', page)

    person.post("/admin/mcp_django/tool/", **rows, **dict.fromkeys([*ticked, box], "on"), _save="Save")

    assert set(reader.served.tools(token)) - set(before) == {"store_product_bake"}, reader.logged
    assert len(before) == 5


@pytest.mark.parametrize("path", _CONSOLE)
def test_a_page_of_the_console_is_served_with_its_style(reader: Reader, person: Person, path: str) -> None:
    static = packages_of(reader.folder / ".venv") / "mcp_django"

    page = person.client.get(path, headers={"Accept": "text/html"})
    linked = re.findall(r'(?:href|src)="(/static/mcp_django/[^"]+)"', page.text)
    got = {name: person.client.get(name) for name in linked}

    assert page.status_code == httpx.codes.OK, reader.logged
    assert any(name.endswith(".css") for name in linked), page.text
    for name, answer in got.items():
        assert answer.status_code == httpx.codes.OK, f"{name}\n{reader.logged}"
        assert answer.content == (static / name.removeprefix("/")).read_bytes()


def test_the_agent_ends_by_ctrl_c_without_a_traceback(reader: Reader) -> None:
    agent = reader.start("python agent.py")
    agent.wait_for(re.compile(r"(?:.*\n)*Listening.*\n"))

    code = agent.press_ctrl_c()

    assert (code, agent.printed.splitlines()[-1]) == (0, "Stopped."), reader.logged
