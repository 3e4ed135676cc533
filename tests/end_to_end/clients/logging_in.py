"""The real clients that log in, each in a process of its own, and a site at one address that they log in to."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Protocol

import httpx

from tests.conformance import node
from tests.end_to_end.clients.clients import install_scripts, prepared
from tests.end_to_end.logging_in import Browser
from tests.end_to_end.servers import Project, Served, free_port

HERE = Path(__file__).parent
SECONDS = 60
#: A document that the server has a copy of, so that nothing is fetched. It lists loopback redirects.
DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
TOOL = "find_records"
ARGUMENTS = {"model": "flights.airport", "filter": {"faa": "JFK"}, "fields": ["name"]}
#: A tool that needs the scope actions.
ACTION = "flights_flight_mark_cancelled"
ACTION_ARGUMENTS = {"ids": [1]}
ANSWER = '{"columns":["faa","name"],"rows":[["JFK","John F Kennedy Intl"]]}'

#: A line of uvicorn's about a request.
_REQUEST = re.compile(r'- "(\w+) (\S+) HTTP/1\.1" (\d{3})')


class Site:
    """A project that is served at one address, also after a restart, and its people."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._port = free_port()
        self._servers = ExitStack()
        self._read = 0
        #: The boxes that its people tick.
        self.ticked: tuple[str, ...] = ("read",)
        self.served: Served

    @property
    def url(self) -> str:
        return self.served.url

    def start(self) -> None:
        self.served = self._servers.enter_context(self.project.served("uvicorn", port=self._port))
        self._read = len(self.served.logged)

    def stop(self) -> None:
        self._servers.close()

    def restart(self) -> None:
        self.stop()
        self.start()

    def requests(self) -> list[str]:
        """What was asked since the last time, as ``POST /mcp 200``."""
        logged = self.served.logged
        begin, self._read = self._read, len(logged)
        return [
            f"{method} {path.partition('?')[0]} {status}" for method, path, status in _REQUEST.findall(logged[begin:])
        ]

    def expire_tokens(self) -> None:
        """What an hour does to access tokens."""
        self.project.run(_EXPIRE)

    def switch(self, *, on: bool) -> None:
        """What an administrator does to the action."""
        self.project.run(_SWITCH.format(ACTION, on))

    def end_grants(self) -> None:
        """As if all had been disconnected by their people."""
        self.project.run(_END)

    def grants(self) -> Any:
        """What is stored of grants, the latest first."""
        return json.loads(self.project.run(_GRANTS))


@contextmanager
def serve_site(project: Project) -> Iterator[Site]:
    site = Site(project)
    site.start()
    try:
        yield site
    finally:
        site.stop()


class Talk:
    """A process of a client: what it is told and what it writes. Where it sends its person, the person goes."""

    def __init__(self, command: Sequence[str], site: Site, env: Mapping[str, str], *, typed: str = "") -> None:
        self._site = site
        self._asks = re.compile(re.escape(site.url) + r'/authorize\?[^\s"]+')
        self._lines: SimpleQueue[tuple[bool, str]] = SimpleQueue()
        self._said: list[str] = []
        self.visited: list[str] = []
        #: Where its person has typed something.
        self._terminal = pty.openpty() if typed else None
        self._process = subprocess.Popen(
            command,
            stdin=self._terminal[1] if self._terminal else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=dict(env),
        )
        if self._terminal:
            os.write(self._terminal[0], typed.encode())
        self._readers = [
            Thread(target=self._read, args=(self._process.stdout, True), daemon=True),
            Thread(target=self._read, args=(self._process.stderr, False), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")

    def hear(self) -> str:
        """The next line that it writes, with its person's help. Raises AssertionError with all it wrote if none comes.

        The person goes where it sends them while somebody listens here.
        """
        while True:
            try:
                is_answer, line = self._lines.get(timeout=SECONDS)
            except Empty:
                raise AssertionError(f"nothing was said in {SECONDS} s after:\n{''.join(self._said)}") from None
            self._said.append(line)
            if found := self._asks.search(line):
                self._visit(found[0])
            elif is_answer:
                assert line, f"it has ended:\n{''.join(self._said)}"
                return line

    def close(self) -> None:
        """Let it end, as it does where nobody talks to it any more."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"it did not end:\n{''.join(self._said)}") from None
        finally:
            for reader in self._readers:
                reader.join()
            for stream in (self._process.stdout, self._process.stderr):
                if stream is not None:
                    stream.close()
            for descriptor in self._terminal or ():
                os.close(descriptor)

    def _visit(self, url: str) -> None:
        self.visited.append(url)
        try:
            with Browser("ops", "ops") as browser:
                browser.connect(url, *self._site.ticked)
        except (AssertionError, httpx.HTTPError) as error:
            self._process.kill()
            for reader in self._readers:
                reader.join()
            while not self._lines.empty():
                self._said.append(self._lines.get()[1])
            raise AssertionError(f"nobody could log in ({error}), after:\n{''.join(self._said)}") from error

    def _read(self, stream: Any, is_answer: bool) -> None:
        for line in stream:
            self._lines.put((is_answer, line))
        if is_answer:
            self._lines.put((True, ""))


class Client(Protocol):
    """A client that knows the URL."""

    def call(self) -> str:
        """The text that its call of the tool gives."""

    def act(self) -> str:
        """As ``call``, of a tool that changes data."""

    def visits(self) -> int:
        """How often it has sent its person to the site."""

    def close(self) -> None: ...


class Script:
    """A program of ours around an SDK."""

    def __init__(self, command: Sequence[str], site: Site, home: Path, **job: str) -> None:
        told = {
            "url": site.url,
            "tool": TOOL,
            "arguments": ARGUMENTS,
            "action": ACTION,
            "action_arguments": ACTION_ARGUMENTS,
            **job,
        }
        self._talk = Talk([*command, json.dumps(told)], site, {**os.environ, "HOME": str(home)})

    def call(self) -> str:
        [text] = self.order("call")
        return text

    def act(self) -> str:
        [text] = self.order("act")
        return text

    def order(self, order: str) -> list[str]:
        self._talk.tell(order)
        said = json.loads(self._talk.hear())
        texts: list[str] = said["texts"]
        return texts

    def visits(self) -> int:
        return len(self._talk.visited)

    def close(self) -> None:
        self._talk.close()


class Remote:
    """mcp-remote, for a client on stdio. It keeps its tokens in files."""

    def __init__(self, site: Site, home: Path) -> None:
        suite: node.Suite = prepared(node.install)
        script = suite.folder / "node_modules/mcp-remote/dist/proxy.js"
        self._site, self._visits = site, 0
        self._command = [str(suite.node), str(script), site.url, str(free_port()), "--transport", "http-only"]
        # It opens a browser, which is ``true`` here, and writes the URL as well.
        self._env = {"PATH": os.environ["PATH"], "HOME": str(home), "BROWSER": "true"}
        self._start()

    def _start(self) -> None:
        self._talk = Talk(self._command, self._site, self._env)
        self._id = 0

    def restart(self) -> None:
        self.close()
        self._visits += len(self._talk.visited)
        self._start()

    def call(self) -> str:
        if not self._id:
            client = {"name": "tests", "version": "1.0"}
            self._ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
            self._talk.tell(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        return self._call(TOOL, ARGUMENTS)

    def act(self) -> str:
        return self._call(ACTION, ACTION_ARGUMENTS)

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        answer = self._ask("tools/call", {"name": tool, "arguments": arguments})
        return str(answer["result"]["content"][0]["text"] if "result" in answer else answer["error"])

    def _ask(self, method: str, params: Mapping[str, Any]) -> Any:
        self._id += 1
        self._talk.tell(json.dumps({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}))
        while (message := json.loads(self._talk.hear())).get("id") != self._id:
            pass  # A notification.
        return message

    def visits(self) -> int:
        return self._visits + len(self._talk.visited)

    def close(self) -> None:
        self._talk.close()


class Inspector:
    """The command line of the MCP Inspector: a process for each call, which keeps its tokens in a file."""

    def __init__(self, site: Site, home: Path, era: str, document: str) -> None:
        suite: node.Suite = prepared(node.install)
        script = suite.folder / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
        self._site, self._visits = site, 0
        self._command = [
            str(suite.node), str(script), "--cli", site.url, "--transport", "http", "--protocol-era", era,
            "--callback-url", f"http://127.0.0.1:{free_port()}/callback", "--format", "json",
            "--method", "tools/call", *(["--client-metadata-url", document] if document else []),
        ]  # fmt: skip
        self._env = {"PATH": os.environ["PATH"], "HOME": str(home), "MCP_INSPECTOR_SECRET_STORE": "file"}

    def call(self) -> str:
        return self._call(TOOL, ARGUMENTS)

    def act(self) -> str:
        return self._call(ACTION, ACTION_ARGUMENTS)

    def _call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        called = ["--tool-name", tool, "--tool-args-json", json.dumps(arguments)]
        # It lets nobody log in who is not at a terminal, and asks there whether it shall ask for more scopes.
        talk = Talk([*self._command, *called], self._site, self._env, typed="y\n")
        try:
            return str(json.loads(talk.hear())["result"]["content"][0]["text"])
        finally:
            talk.close()
            self._visits += len(talk.visited)

    def visits(self) -> int:
        return self._visits

    def close(self) -> None:
        """It has ended after each call."""


@dataclass(frozen=True)
class Kind:
    """A client, how it gets its id, and the era that it speaks."""

    name: str
    mode: str = ""
    document: str = ""

    def __str__(self) -> str:
        return "-".join(part for part in (self.name, self.mode, "document" if self.document else "") if part)

    def start(self, site: Site, home: Path) -> Any:
        """The client, which is running. Raises NPMMissing."""
        match self.name:
            case "python":
                command = [sys.executable, str(HERE / "oauth_python.py")]
                return Script(command, site, home, mode=self.mode, document=self.document)
            case "typescript1" | "typescript2":
                suite: node.Suite = prepared(install_scripts)
                command = [str(suite.node), str(suite.folder / "oauth.mjs")]
                return Script(command, site, home, mode=self.mode, document=self.document, version=self.name[-1])
            case "mcp-remote":
                return Remote(site, home)
            case _:
                return Inspector(site, home, self.mode, self.document)


SDKS = (
    Kind("python", "auto"),
    Kind("python", "legacy"),
    Kind("python", "auto", DOCUMENT),
    Kind("typescript1"),
    Kind("typescript2", "auto"),
    Kind("typescript2", "legacy"),
    Kind("typescript2", "auto", DOCUMENT),
)
KINDS = (*SDKS, Kind("mcp-remote"), Kind("inspector", "legacy"), Kind("inspector", "modern"))
#: Those that ask their person for more. The Inspector does so where it was told how it is known.
STEPPING_UP = (
    *(kind for kind in KINDS if not kind.document and kind.name != "inspector"),
    Kind("inspector", "legacy", DOCUMENT),
    Kind("inspector", "modern", DOCUMENT),
)

_EXPIRE = """
from django.utils import timezone
from mcp_django.models import AccessToken
AccessToken.objects.filter(grant__isnull=False, expires_at__gt=timezone.now()).update(expires_at=timezone.now())
"""
_SWITCH = """
from mcp_django.models import Tool
for tool in Tool.objects.filter(name="{0}"):
    tool.enabled = {1}
    tool.save()
"""
_END = """
from mcp_django.models import Grant
for grant in Grant.objects.current():
    grant.end(Grant.Ended.REVOKED)
"""
_GRANTS = """
import json
from mcp_django.models import Grant
print(json.dumps([
    [one.user.username, one.client_name, one.client_host,
     one.scopes, one.declined, sorted(one.lent), one.resource, one.ended_by]
    for one in Grant.objects.select_related("user").order_by("-pk")
]))
"""
