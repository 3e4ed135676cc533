"""How each client is connected to an endpoint: the command, the file or the steps, as pages and commands show it.

Formats: the documentation of each client, and for links that install the server cursor.com/docs/mcp/install-links,
code.visualstudio.com/docs/copilot/guides/mcp-developer-guide and lmstudio.ai/docs/app/mcp/deeplink.
"""

from __future__ import annotations

import base64
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from django.utils.translation import gettext_lazy as _

from mcp_django.core.secret import Secret
from mcp_django.protocol.types import JSON

#: In the place of a token that is not to be shown: a shell's variable, and a text in a file.
TOKEN_VARIABLE, TOKEN_IN_FILES = "MCP_TOKEN", "YOUR_TOKEN"

#: Where a token is to stand, while the texts are made.
_TOKEN = "{token}"  # noqa: S105 - no token yet

_LIST_TOOLS: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@dataclass(frozen=True)
class ClientSetup:
    """How one client is connected."""

    #: Names it in ids of HTML: letters, digits and hyphens.
    key: str
    title: str
    #: What is pasted: a command, or the content of a file. A Secret, which templates show, since it may hold a token.
    text: Secret
    #: Where it is pasted; lazily translated.
    where: Any
    #: Opens the client and asks there. It never holds a token, since links are kept by browsers and logs.
    install_url: str = ""

    def plain_text(self) -> str:
        """The text itself, to be printed."""
        return self.text.reveal()


def client_setups(
    endpoint: str, name: str, *, token: str | None = None, logs_in: bool = False
) -> Sequence[ClientSetup]:
    """The setup of each client that can reach the endpoint, under a name that ``server_name`` gives.

    With a ``token``, which stands in what is pasted, only of clients that take one; VS Code asks for it instead.
    Without one its place is taken by the variable MCP_TOKEN or by YOUR_TOKEN, and by nothing where clients log in
    (``logs_in``: OAuth is installed). Clients that only log in are left out where they cannot.
    """
    place, found = _place_of(endpoint), []
    # The token comes last, into texts that reports of errors cannot show.
    made = Secret("" if token is None else token)
    for client in CLIENTS:
        can_log_in = logs_in and client.logs_in
        if client.runs <= place and (client.takes_token or (token is None and can_log_in)):
            server = _Server(endpoint, name, token is not None, token is not None or not can_log_in)
            text = Secret(client.text(server).replace(_TOKEN, made))
            link = "" if client.link is None else client.link(server)
            found.append(ClientSetup(client.key, client.title, text, client.where, link))
    return found


def curl(endpoint: str, message: JSON, token: str = f"${TOKEN_VARIABLE}") -> str:
    """The command that sends a message to an endpoint. A token that is a variable is one of the shell."""
    return " \\\n  ".join([
        f"curl -s {shlex.quote(endpoint)}",
        f'-H "Authorization: Bearer {token}"',
        '-H "Content-Type: application/json"',
        '-H "Accept: application/json, text/event-stream"',
        f"-d {shlex.quote(json.dumps(message))}",
    ])  # fmt: skip


# Who reaches an endpoint.


class _Place(IntEnum):
    """Where a client runs, and from how far an endpoint is reached."""

    MACHINE = 0
    NETWORK = 1
    INTERNET = 2


#: The ends of names that no public name server knows (RFC 6761, 6762, 8375, and .internal of ICANN).
_PRIVATE_NAMES = (".local", ".internal", ".test", ".invalid", ".home.arpa", ".lan")


def _place_of(endpoint: str) -> _Place:
    host = (urlsplit(endpoint).hostname or "").removesuffix(".")
    if host == "localhost" or host.endswith(".localhost"):
        return _Place.MACHINE
    try:
        address = ip_address(host)
    except ValueError:
        return _Place.NETWORK if "." not in host or host.endswith(_PRIVATE_NAMES) else _Place.INTERNET
    if address.is_loopback or address.is_unspecified:
        return _Place.MACHINE
    return _Place.INTERNET if address.is_global else _Place.NETWORK


# The texts.


@dataclass(frozen=True, slots=True)
class _Server:
    """The server, as the texts name it."""

    endpoint: str
    name: str
    has_token: bool
    #: Whether the client is to send a token. One that logs in does without.
    needs_token: bool

    @property
    def url(self) -> str:
        """The endpoint as a word of a shell."""
        return shlex.quote(self.endpoint)

    @property
    def shell_token(self) -> str:
        return _TOKEN if self.has_token else f"${TOKEN_VARIABLE}"

    @property
    def header(self) -> str:
        """The option of commands that take a header."""
        return f' --header "Authorization: Bearer {self.shell_token}"' if self.needs_token else ""

    @property
    def bearer(self) -> str:
        """What stands in a file."""
        return f"Bearer {_TOKEN if self.has_token else TOKEN_IN_FILES}"

    @property
    def headers(self) -> JSON:
        """The part of a file with the header."""
        return {"headers": {"Authorization": self.bearer}} if self.needs_token else {}

    def without_token(self) -> _Server:
        return _Server(self.endpoint, self.name, False, self.needs_token)


def _in_servers(server: _Server) -> str:
    """The notation of Cursor, which others have taken over."""
    return _json({"mcpServers": {server.name: {"url": server.endpoint, **server.headers}}})


def _claude_desktop(server: _Server) -> str:
    """By mcp-remote, since this file names programs alone. Windows breaks an argument at its spaces."""
    is_refused = server.endpoint.startswith("http:") and urlsplit(server.endpoint).hostname not in _PLAIN_HOSTS
    args = ["-y", "mcp-remote", server.endpoint, *(["--allow-http"] if is_refused else [])]
    if not server.needs_token:
        return _json({"mcpServers": {server.name: {"command": "npx", "args": args}}})
    args += ["--header", "Authorization:${AUTH_HEADER}"]
    return _json({"mcpServers": {server.name: {"command": "npx", "args": args, "env": {"AUTH_HEADER": server.bearer}}}})


#: Where mcp-remote speaks HTTP without being told to.
_PLAIN_HOSTS = ("localhost", "127.0.0.1")


def _windsurf(server: _Server) -> str:
    return _json({"mcpServers": {server.name: {"serverUrl": server.endpoint, **server.headers}}})


def _zed(server: _Server) -> str:
    return _json({"context_servers": {server.name: {"url": server.endpoint, **server.headers}}})


def _goose(server: _Server) -> str:
    """YAML, whose texts are written as those of JSON."""
    fields = {
        "enabled": True, "type": "streamable_http", "name": server.name, "uri": server.endpoint, **server.headers,
        "timeout": 300,
    }  # fmt: skip
    lines = [f"    {name}: {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join(["extensions:", f"  {json.dumps(server.name)}:", *lines])


def _n8n(server: _Server) -> str:
    how = f"Bearer Auth\nBearer Token: {server.bearer.removeprefix('Bearer ')}" if server.needs_token else "MCP OAuth2"
    return f"Endpoint: {server.endpoint}\nServer Transport: HTTP Streamable\nAuthentication: {how}"


def _codex(server: _Server) -> str:
    export = f"export {TOKEN_VARIABLE}={_TOKEN}\n" if server.has_token else ""
    option = f" --bearer-token-env-var {TOKEN_VARIABLE}" if server.needs_token else ""
    return f"{export}codex mcp add {server.name} --url {server.url}{option}"


def _vscode_server(server: _Server) -> tuple[JSON, list[JSON]]:
    """The server, and what VS Code asks for and keeps in its own store: the token."""
    entry: JSON = {"type": "http", "url": server.endpoint}
    if not server.needs_token:
        return entry, []
    asked = {"type": "promptString", "id": "token", "description": "Access token", "password": True}
    return {**entry, "headers": {"Authorization": "Bearer ${input:token}"}}, [asked]


def _vscode(server: _Server) -> str:
    entry, inputs = _vscode_server(server)
    return _json({**({"inputs": inputs} if inputs else {}), "servers": {server.name: entry}})


def _vscode_link(server: _Server) -> str:
    entry, inputs = _vscode_server(server)
    described = {"name": server.name, **entry, **({"inputs": inputs} if inputs else {})}
    return f"vscode:mcp/install?{quote(json.dumps(described))}"


def _cursor_link(server: _Server) -> str:
    """Only where the client logs in: a link holds no token, and Cursor asks for none."""
    return "" if server.needs_token else _link("cursor://anysphere.cursor-deeplink/mcp/install", server)


def _lmstudio_link(server: _Server) -> str:
    """LM Studio opens the file with the entry, where the person puts the token in."""
    return _link("lmstudio://add_mcp", server.without_token())


def _link(where: str, server: _Server) -> str:
    config = json.dumps({"url": server.endpoint, **server.headers})
    return f"{where}?{urlencode({'name': server.name, 'config': base64.b64encode(config.encode()).decode()})}"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)


@dataclass(frozen=True, slots=True)
class _Client:
    """A client, and what is known of it."""

    key: str
    title: str
    where: Any
    text: Callable[[_Server], str]
    link: Callable[[_Server], str] | None = None
    #: Where it runs: it must reach the endpoint from there.
    runs: _Place = _Place.MACHINE
    #: Whether a person can give it a token, and whether it can log in by OAuth.
    takes_token: bool = True
    logs_in: bool = True


_TERMINAL = _("In a terminal")

#: In the order in which pages show them.
CLIENTS: Sequence[_Client] = (
    _Client("claude-code", "Claude Code", _TERMINAL,
            lambda server: f"claude mcp add --transport http {server.name} {server.url}{server.header}"),
    _Client("claude", "Claude", _("In Customize or Settings, Connectors, Add custom connector"),
            lambda server: server.endpoint, runs=_Place.INTERNET, takes_token=False),
    _Client("claude-desktop", "Claude Desktop",
            _("In claude_desktop_config.json: Settings, Developer, Edit Config. It needs Node.js."), _claude_desktop),
    _Client("chatgpt", "ChatGPT", _("At chatgpt.com/plugins: +, Add custom MCP server"),
            lambda server: server.endpoint, runs=_Place.INTERNET, takes_token=False),
    _Client("cursor", "Cursor", "~/.cursor/mcp.json", _in_servers, _cursor_link),
    _Client("vscode", "VS Code", ".vscode/mcp.json", _vscode, _vscode_link),
    _Client("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json", _windsurf),
    _Client("zed", "Zed", _("In settings.json: the command “zed: open settings file”"), _zed),
    _Client("codex", "Codex", _TERMINAL, _codex),
    _Client("gemini", "Gemini", _TERMINAL,
            lambda server: f"gemini mcp add -s user --transport http {server.name} {server.url}{server.header}"),
    _Client("goose", "Goose", "~/.config/goose/config.yaml", _goose),
    _Client("lm-studio", "LM Studio", _("In mcp.json: Program, Install, Edit mcp.json"), _in_servers, _lmstudio_link,
            logs_in=False),
    _Client("n8n", "n8n", _("In a node “MCP Client Tool”"), _n8n, runs=_Place.NETWORK),
    _Client("curl", "curl", _TERMINAL, lambda server: curl(server.endpoint, _LIST_TOOLS, server.shell_token),
            logs_in=False),
)  # fmt: skip
