"""How each client is connected: what people paste holds what its client understands."""

from __future__ import annotations

import base64
import json
import re
import shlex
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from mcp_django.console.pages.connecting import CLIENTS, ClientSetup, client_setups
from mcp_django.core.secret import Secret

URL, TOKEN = "https://flights.example.com/mcp", "mcp_secret"
BEARER = {"headers": {"Authorization": f"Bearer {TOKEN}"}}
ENTRY = {"url": URL, **BEARER}


def setups(token: str | None = None, *, logs_in: bool = False, endpoint: str = URL) -> dict[str, ClientSetup]:
    made = None if token is None else Secret(token)
    return {one.key: one for one in client_setups(endpoint, "flights", token=made, logs_in=logs_in)}


def of_yaml(text: str) -> Any:
    """The little of YAML that is used: a key in each line, and behind it a value as in JSON."""
    root: dict[str, Any] = {}
    place = {-2: root}
    for line in text.splitlines():
        name, _, value = line.strip().partition(":")
        depth = len(line) - len(line.lstrip())
        found = json.loads(value) if value else {}
        place[depth - 2][json.loads(name) if name.startswith('"') else name] = place[depth] = found
    return root


def lines(text: str) -> list[str]:
    return text.splitlines()


#: Client → how its text is read, and what it says with a token, by a login, and with neither.
Texts = tuple[Callable[[str], Any], Any, Any, Any]
MCP_REMOTE = ["-y", "mcp-remote", URL]
ADD = ["claude", "mcp", "add", "--transport", "http", "flights", URL]
GEMINI = ["gemini", "mcp", "add", "-s", "user", "--transport", "http", "flights", URL]
CODEX = ["codex", "mcp", "add", "flights", "--url", URL]
BY_ENV = "--bearer-token-env-var"
GOOSE = {"enabled": True, "type": "streamable_http", "name": "flights", "uri": URL, "timeout": 300}
N8N = [f"Endpoint: {URL}", "Server Transport: HTTP Streamable"]
INPUT = {"inputs": [{"type": "promptString", "id": "token", "description": "Access token", "password": True}]}
CODE = {"type": "http", "url": URL}
ASKING = {**INPUT, "servers": {"flights": {**CODE, "headers": {"Authorization": "Bearer ${input:token}"}}}}


def header(token: str) -> list[str]:
    return ["--header", f"Authorization: Bearer {token}"]


def headers(token: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {token}"}}


def desktop(token: str) -> dict[str, Any]:
    env = {"AUTH_HEADER": f"Bearer {token}"}
    args = [*MCP_REMOTE, "--header", "Authorization:${AUTH_HEADER}"]
    return {"mcpServers": {"flights": {"command": "npx", "args": args, "env": env}}}


def in_servers(**entry: Any) -> dict[str, Any]:
    return {"mcpServers": {"flights": entry}}


TEXTS: Mapping[str, Texts] = {
    "claude-code": (shlex.split, ADD + header(TOKEN), ADD, ADD + header("$MCP_TOKEN")),
    "claude": (str, None, URL, None),
    "claude-desktop": (json.loads, desktop(TOKEN), in_servers(command="npx", args=MCP_REMOTE), desktop("YOUR_TOKEN")),
    "chatgpt": (str, None, URL, None),
    "cursor": (json.loads, in_servers(**ENTRY), in_servers(url=URL), in_servers(url=URL, **headers("YOUR_TOKEN"))),
    "vscode": (json.loads, ASKING, {"servers": {"flights": CODE}}, ASKING),
    "windsurf": (json.loads, in_servers(serverUrl=URL, **BEARER), in_servers(serverUrl=URL),
                 in_servers(serverUrl=URL, **headers("YOUR_TOKEN"))),
    "zed": (json.loads, {"context_servers": {"flights": ENTRY}}, {"context_servers": {"flights": {"url": URL}}},
            {"context_servers": {"flights": {"url": URL, **headers("YOUR_TOKEN")}}}),
    "codex": (shlex.split, ["export", f"MCP_TOKEN={TOKEN}", *CODEX, BY_ENV, "MCP_TOKEN"], CODEX,
              [*CODEX, BY_ENV, "MCP_TOKEN"]),
    "gemini": (shlex.split, GEMINI + header(TOKEN), GEMINI, GEMINI + header("$MCP_TOKEN")),
    "goose": (of_yaml, {"extensions": {"flights": {**GOOSE, **BEARER}}}, {"extensions": {"flights": GOOSE}},
              {"extensions": {"flights": {**GOOSE, **headers("YOUR_TOKEN")}}}),
    # Nobody knows that it logs in.
    "lm-studio": (json.loads, in_servers(**ENTRY), *[in_servers(url=URL, **headers("YOUR_TOKEN"))] * 2),
    "n8n": (lines, [*N8N, "Authentication: Bearer Auth", f"Bearer Token: {TOKEN}"],
            [*N8N, "Authentication: MCP OAuth2"], [*N8N, "Authentication: Bearer Auth", "Bearer Token: YOUR_TOKEN"]),
    "curl": (lambda text: shlex.split(text.replace("\\\n", ""))[2:5], *[
        [URL, "-H", f"Authorization: Bearer {token}"] for token in (TOKEN, "$MCP_TOKEN", "$MCP_TOKEN")
    ]),
}  # fmt: skip


@pytest.mark.parametrize("key", TEXTS)
def test_what_is_pasted(key: str) -> None:
    read, *expected = TEXTS[key]

    found = [one.get(key) for one in (setups(TOKEN), setups(logs_in=True), setups())]

    assert [None if one is None else read(one.plain_text()) for one in found] == expected


def test_each_client_is_in_the_table() -> None:
    assert [one.key for one in CLIENTS] == list(TEXTS)
    assert all(re.fullmatch(r"[a-z0-9-]+", key) for key in TEXTS)


#: What runs elsewhere reaches neither this machine nor a network of one's own.
AWAY, NEEDS_NETWORK = {"claude", "chatgpt"}, {"n8n"}
ENDPOINTS = {
    "http://127.0.0.1:8000": AWAY | NEEDS_NETWORK, "http://localhost": AWAY | NEEDS_NETWORK,
    "http://shop.localhost:8000": AWAY | NEEDS_NETWORK, "http://[::1]:8000": AWAY | NEEDS_NETWORK,
    "http://0.0.0.0:8000": AWAY | NEEDS_NETWORK, "http://127.1.2.3": AWAY | NEEDS_NETWORK,
    "http://LOCALHOST.": AWAY | NEEDS_NETWORK,
    "http://10.0.0.4": AWAY, "https://192.168.1.9": AWAY, "https://[fd00::1]": AWAY, "http://web:8000": AWAY,
    "https://nas.local": AWAY, "https://shop.internal": AWAY, "https://shop.test": AWAY,
    "https://shop.example.com": set(), "https://8.8.8.8": set(), "https://localhost.example.com": set(),
}  # fmt: skip


def test_only_clients_that_reach_the_endpoint_are_offered() -> None:
    left_out = {url: set(TEXTS) - set(setups(logs_in=True, endpoint=f"{url}/mcp")) for url in ENDPOINTS}

    assert left_out == ENDPOINTS


def test_mcp_remote_is_told_to_speak_plain_http_where_it_would_not() -> None:
    told = {
        url: "--allow-http" in setups(endpoint=f"{url}/mcp")["claude-desktop"].plain_text()
        for url in ("http://127.0.0.1:8000", "http://localhost", "http://[::1]", "http://web:8000", URL)
    }

    assert [url for url, is_told in told.items() if is_told] == ["http://[::1]", "http://web:8000"]


def test_no_link_and_no_report_of_an_error_holds_a_token() -> None:
    for one in (one for logs_in in (True, False) for one in setups(TOKEN, logs_in=logs_in).values()):
        decoded = base64.b64decode(parse_qs(urlsplit(one.install_url).query).get("config", [""])[0])
        assert TOKEN not in unquote(one.install_url) and TOKEN.encode() not in decoded
        assert TOKEN not in repr(one)


def test_links_open_the_client_with_the_endpoint() -> None:
    found = setups(logs_in=True)
    links = {key: urlsplit(one.install_url) for key, one in found.items() if one.install_url}

    asked = {key: parse_qs(links[key].query) for key in ("cursor", "lm-studio")}
    configs = {key: json.loads(base64.b64decode(one["config"][0])) for key, one in asked.items()}
    assert set(links) == {"cursor", "vscode", "lm-studio"}
    assert {one["name"][0] for one in asked.values()} == {"flights"}
    assert (links["cursor"].scheme, links["cursor"].path, configs["cursor"]) == ("cursor", "/mcp/install", {"url": URL})
    assert (links["lm-studio"].scheme, links["lm-studio"].netloc) == ("lmstudio", "add_mcp")
    assert configs["lm-studio"] == {"url": URL, **headers("YOUR_TOKEN")}
    assert (links["vscode"].scheme, links["vscode"].path) == ("vscode", "mcp/install")
    assert json.loads(unquote(links["vscode"].query)) == {"name": "flights", **CODE}


def test_vs_code_asks_for_a_token_that_it_needs_and_cursor_has_no_link_then() -> None:
    described = json.loads(unquote(urlsplit(setups(TOKEN)["vscode"].install_url).query))

    assert described["headers"] == {"Authorization": "Bearer ${input:token}"}
    assert described["inputs"][0]["password"] is True
    assert setups(TOKEN)["cursor"].install_url == ""


def test_a_url_is_no_part_of_the_shell() -> None:
    found = setups(endpoint="https://x.example/a'$(id)/mcp")

    for key, place in (("claude-code", 6), ("codex", 5), ("gemini", 8), ("curl", 2)):
        assert shlex.split(found[key].plain_text())[place] == "https://x.example/a'$(id)/mcp", key
