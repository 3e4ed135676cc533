"""How each client is connected to an endpoint: the command, the file or the steps, as pages and ``make demo`` show it.

Formats: Claude Code's and Gemini's ``mcp add``, Codex' ``config.toml``, Cursor's and VS Code's ``mcp.json`` and their
install links (cursor.com/docs/mcp/install-links, code.visualstudio.com/docs/copilot/guides/mcp-developer-guide).
"""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from django.utils.translation import gettext_lazy as _

from mcp_django.conf import Conf
from mcp_django.core.secret import Secret
from mcp_django.types import JSON

#: In the place of a token that is not to be shown: a shell's variable.
TOKEN_VARIABLE = "MCP_TOKEN"  # noqa: S105 - a name


#: Where a token is to stand, while the texts are made.
_TOKEN = "{token}"  # noqa: S105 - no token yet

_LIST_TOOLS: JSON = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@dataclass(frozen=True)
class ClientSetup:
    """How one client is connected."""

    #: Names it in ids of HTML: letters and hyphens.
    key: str
    title: str
    #: What is pasted: a command, or the content of a file. A Secret, which templates show, since it may hold a token.
    text: str
    #: Where it is pasted; lazily translated.
    where: Any
    #: Opens the client and asks there. It never holds a token, since links are kept by browsers and logs.
    install_url: str = ""

    def plain_text(self) -> str:
        """The text itself, to be printed."""
        return Secret(self.text).reveal()


def server_name(name: str, endpoint: str) -> str:
    """A name for a server that every client accepts: of letters, digits and hyphens.

    ``name`` is that of its site. Where that is the default, the host of its endpoint tells it from other servers.
    """
    chosen = urlsplit(endpoint).netloc if name == Conf.SERVER_NAME else name
    return re.sub(r"[^A-Za-z0-9]+", "-", chosen).strip("-").lower() or Conf.SERVER_NAME


def client_setups(
    endpoint: str, name: str, *, token: str | None = None, logs_in: bool = False
) -> Sequence[ClientSetup]:
    """The setup of each client for the URL of an endpoint, under a name that ``server_name`` gives.

    ``token`` stands in what is pasted, except for VS Code, which asks for it. Without one its place is taken by the
    variable MCP_TOKEN (for Cursor by YOUR_TOKEN), or by nothing where clients log in by themselves (``logs_in``: OAuth
    is installed). Clients that only log in are left out otherwise.
    """
    made = Secret("" if token is None else token)
    # The token comes last, into texts that reports of errors cannot show.
    setups = _client_setups(endpoint, name, None if token is None else _TOKEN, logs_in)
    return [replace(setup, text=Secret(setup.text.replace(_TOKEN, made))) for setup in setups]


def _client_setups(endpoint: str, name: str, token: str | None, logs_in: bool) -> Sequence[ClientSetup]:
    needs_token = token is not None or not logs_in
    shown = token if token is not None else f"${TOKEN_VARIABLE}"
    header = f' --header "Authorization: Bearer {shown}"' if needs_token else ""
    headers = {"headers": {"Authorization": f"Bearer {token or 'YOUR_TOKEN'}"}} if needs_token else {}
    terminal, url = _("In a terminal"), shlex.quote(endpoint)
    codex = f" --bearer-token-env-var {TOKEN_VARIABLE}" if needs_token else ""
    export = f"export {TOKEN_VARIABLE}={token}\n" if token is not None else ""
    return [
        ClientSetup("claude-code", "Claude Code", f"claude mcp add --transport http {name} {url}{header}", terminal),
        *([] if not logs_in else [
            ClientSetup("claude", "Claude", endpoint, _("In Settings, Connectors, Add custom connector")),
            ClientSetup("chatgpt", "ChatGPT", endpoint, _("In Settings, Apps, Advanced, developer mode, Create")),
        ]),
        ClientSetup(
            "cursor", "Cursor", _json({"mcpServers": {name: {"url": endpoint, **headers}}}), "~/.cursor/mcp.json",
            _cursor_link(name, endpoint) if logs_in else "",
        ),
        ClientSetup("vscode", "VS Code", _vscode(name, endpoint, needs_token), ".vscode/mcp.json",
                    _vscode_link(name, endpoint, needs_token)),
        ClientSetup("codex", "Codex", f"{export}codex mcp add {name} --url {url}{codex}", terminal),
        ClientSetup("gemini", "Gemini", f"gemini mcp add -s user --transport http {name} {url}{header}", terminal),
        ClientSetup("curl", "curl", curl(endpoint, _LIST_TOOLS, shown), terminal),
    ]  # fmt: skip


def _cursor_link(name: str, endpoint: str) -> str:
    config = base64.b64encode(json.dumps({"url": endpoint}).encode()).decode()
    return f"cursor://anysphere.cursor-deeplink/mcp/install?{urlencode({'name': name, 'config': config})}"


def _vscode_server(endpoint: str, needs_token: bool) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The server, and what VS Code asks for and keeps in its own store: the token."""
    server: dict[str, Any] = {"type": "http", "url": endpoint}
    if not needs_token:
        return server, []
    asked = {"type": "promptString", "id": "token", "description": "Access token", "password": True}
    return {**server, "headers": {"Authorization": "Bearer ${input:token}"}}, [asked]


def _vscode(name: str, endpoint: str, needs_token: bool) -> str:
    server, inputs = _vscode_server(endpoint, needs_token)
    return _json({**({"inputs": inputs} if inputs else {}), "servers": {name: server}})


def _vscode_link(name: str, endpoint: str, needs_token: bool) -> str:
    server, inputs = _vscode_server(endpoint, needs_token)
    described = {"name": name, **server, **({"inputs": inputs} if inputs else {})}
    return f"vscode:mcp/install?{quote(json.dumps(described))}"


def curl(endpoint: str, message: JSON, token: str = f"${TOKEN_VARIABLE}") -> str:
    """The command that sends a message to an endpoint. A token that is a variable is one of the shell."""
    return " \\\n  ".join([
        f"curl -s {shlex.quote(endpoint)}",
        f'-H "Authorization: Bearer {token}"',
        '-H "Content-Type: application/json"',
        '-H "Accept: application/json, text/event-stream"',
        f"-d {shlex.quote(json.dumps(message))}",
    ])  # fmt: skip


def _json(value: Any) -> str:
    return json.dumps(value, indent=2)
