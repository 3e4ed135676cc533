"""How each client is connected: what people paste holds what its client understands."""

from __future__ import annotations

import base64
import json
import shlex
from urllib.parse import parse_qs, unquote, urlsplit

from mcp_django.console.pages.connecting import ClientSetup, client_setups, server_name
from mcp_django.core.secret import Secret

URL = "https://flights.example.com/mcp"
TOKEN = "mcp_secret"


def setups(token: str | None = None, *, logs_in: bool = False) -> dict[str, ClientSetup]:
    return {
        one.key: one
        for one in client_setups(URL, "flights", token=None if token is None else Secret(token), logs_in=logs_in)
    }


def test_commands_have_a_token_that_is_given() -> None:
    found = setups(TOKEN)

    assert shlex.split(found["claude-code"].text) == [
        "claude", "mcp", "add", "--transport", "http", "flights", URL, "--header", f"Authorization: Bearer {TOKEN}",
    ]  # fmt: skip
    assert f"export MCP_TOKEN={TOKEN}\n" in found["codex"].text
    assert f"Authorization: Bearer {TOKEN}" in shlex.split(found["gemini"].text)
    assert json.loads(found["cursor"].text)["mcpServers"]["flights"] == {
        "url": URL, "headers": {"Authorization": f"Bearer {TOKEN}"}
    }  # fmt: skip


def test_without_a_token_its_place_is_taken_by_a_variable() -> None:
    found = setups()

    assert '"Authorization: Bearer $MCP_TOKEN"' in found["claude-code"].text
    assert "--bearer-token-env-var MCP_TOKEN" in found["codex"].text
    assert "claude" not in found and "chatgpt" not in found


def test_clients_that_log_in_need_none() -> None:
    found = setups(logs_in=True)

    assert found["claude"].text == found["chatgpt"].text == URL
    assert all("TOKEN" not in one.text for key, one in found.items() if key != "curl")


def test_no_link_holds_a_token() -> None:
    for one in (one for logs_in in (True, False) for one in setups(TOKEN, logs_in=logs_in).values()):
        decoded = base64.b64decode(parse_qs(urlsplit(one.install_url).query).get("config", [""])[0])
        assert TOKEN not in unquote(one.install_url) and TOKEN.encode() not in decoded


def test_links_open_the_client_with_the_endpoint() -> None:
    found = setups(logs_in=True)
    cursor, vscode = (urlsplit(found[key].install_url) for key in ("cursor", "vscode"))

    asked = parse_qs(cursor.query)
    assert (cursor.scheme, cursor.path, asked["name"]) == ("cursor", "/mcp/install", ["flights"])
    assert json.loads(base64.b64decode(asked["config"][0])) == {"url": URL}
    assert (vscode.scheme, vscode.path) == ("vscode", "mcp/install")
    assert json.loads(unquote(vscode.query)) == {"name": "flights", "type": "http", "url": URL}


def test_vs_code_asks_for_a_token_that_it_needs() -> None:
    described = json.loads(unquote(urlsplit(setups(TOKEN)["vscode"].install_url).query))

    assert described["headers"] == {"Authorization": "Bearer ${input:token}"}
    assert described["inputs"][0]["password"] is True
    assert setups(TOKEN)["cursor"].install_url == ""


def test_a_name_is_one_that_every_client_accepts() -> None:
    names = {
        "Flights out of New York": "flights-out-of-new-york", "127.0.0.1:8000": "127-0-0-1-8000", "航班": "django",
        "django": "shop-example-com-8000",
    }  # fmt: skip

    assert {title: server_name(title, "https://shop.example.com:8000/mcp") for title in names} == names


def test_a_url_is_no_part_of_the_shell() -> None:
    found = {one.key: one for one in client_setups("https://x.example/a'$(id)/mcp", "x")}

    assert shlex.split(found["claude-code"].text)[6] == "https://x.example/a'$(id)/mcp"
