"""``manage.py mcp_connect``: the lines of the page that says how clients are connected."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client, override_settings

from mcp_django.console.pages.connecting import TOKEN_VARIABLE


def run(*arguments: Any) -> tuple[str, str]:
    """What is printed to be pasted, and what is told beside it."""
    out, told = StringIO(), StringIO()
    call_command("mcp_connect", *arguments, stdout=out, stderr=told)
    return out.getvalue(), told.getvalue()


def refused(*arguments: Any) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


def shown(url: str) -> list[Any]:
    """The clients of the page at an endpoint."""
    response: Any = Client().get(url, headers={"accept": "text/html"})
    return list(response.context["clients"])


@pytest.mark.usefixtures("db")
def test_the_lines_are_those_of_the_page_at_the_endpoint(settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["testserver"]
    printed, _told = run("--url", "http://testserver/mcp")

    clients = shown("/mcp")
    assert clients
    for client in clients:
        where = str(client.where).rstrip(".")
        assert f"{client.title}. {where}:\n\n{client.plain_text()}\n\n" in printed
        alone, where = run(client.key, "--url", "http://testserver/mcp")
        assert (alone, where.splitlines()[0]) == (f"{client.plain_text()}\n", str(client.where))
        assert run(client.title.upper(), "--url", "http://testserver/mcp")[0] == alone
    assert printed.count("http://testserver/mcp") >= len(clients)


def test_the_endpoint_is_that_of_the_settings_or_of_runserver(settings: Any) -> None:
    settings.MCP = {key: value for key, value in settings.MCP.items() if key != "BASE_URL"}
    assert "http://127.0.0.1:8000/mcp" in run("curl")[0]

    settings.MCP = {**settings.MCP, "BASE_URL": "https://shop.example.com"}
    assert "https://shop.example.com/mcp" in run("curl")[0]
    assert "https://other.example.com/x/mcp" in run("curl", "--url", "https://other.example.com/x/mcp")[0]


def test_it_says_where_a_token_comes_from_and_prints_none() -> None:
    printed, told = run()

    assert TOKEN_VARIABLE in printed
    assert "manage.py mcp_token USERNAME" in told
    assert "manage.py mcp_token" not in printed


def test_an_unknown_client_a_wrong_url_and_an_endpoint_that_is_not_served_say_so(settings: Any) -> None:
    assert "There is no client 'cursr' for this endpoint. Did you mean " in refused("cursr")
    assert "There are: claude-code" in refused("notepad")
    for url in ("shop.example.com/mcp", "ftp://x/mcp", "https:///mcp", "https://x/\x1b[2J", "https://[x/mcp"):
        assert "is no URL of an endpoint" in refused("--url", url), url
    with override_settings(ROOT_URLCONF="django.contrib.auth.urls"):
        assert "The URLconf has no endpoint" in refused()
