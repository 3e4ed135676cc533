"""The URLs of NATS servers."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcp_django.core.events.nats_sender import Address, Servers, read_urls

ONE = Address("one", 4222, tls=False)
SERVERS = {
    "nats://one": Servers((ONE,)),
    " nats://127.0.0.1:5222/ ": Servers((Address("127.0.0.1", 5222, tls=False),)),
    "tls://one.example.com": Servers((Address("one.example.com", 4222, tls=True),)),
    "nats://[::1]:4223": Servers((Address("::1", 4223, tls=False),)),
    "nats://s3cret@one": Servers((ONE,), {"auth_token": "s3cret"}),
    "nats://me:p%40ss%2C%2F@one": Servers((ONE,), {"user": "me", "pass": "p@ss,/"}),
    "nats://me:@one": Servers((ONE,), {"user": "me", "pass": ""}),
    "nats://me:pw@one:1,tls://two:2, nats://me:pw@three": Servers(
        (Address("one", 1, tls=False), Address("two", 2, tls=True), Address("three", 4222, tls=False)),
        {"user": "me", "pass": "pw"},
    ),
}


def test_a_url_names_a_server_and_its_user() -> None:
    assert {url: read_urls(url) for url in SERVERS} == SERVERS


def test_an_address_is_what_its_url_says() -> None:
    addresses = [ONE, Address("::1", 4223, tls=True)]

    assert [read_urls(address.url).addresses for address in addresses] == [(address,) for address in addresses]


def refusal(urls: Any) -> str:
    with pytest.raises(ImproperlyConfigured) as refused:
        read_urls(urls)
    return f"{refused.value}{refused.value.__cause__ or ''}"


SCHEME = "begins with neither nats:// nor tls://."
UNREADABLE = "has no host and port that can be read."
MORE = "has more than a host and a port."


def test_what_names_no_server_is_refused() -> None:
    of_first = {
        SCHEME: ["one:4222", "redis://one"],
        UNREADABLE: [
            "nats://", "nats://one:port", "nats://one:0", "nats://one:66000", "nats://[::1", "nats://one two",
            f"nats://{'a' * 64}.example.com",
        ],
        MORE: ["nats://one/subject", "nats://one?tls=1"],
    }  # fmt: skip
    problems: list[tuple[Any, str]] = [
        *((url, f"URL 1 in MCP['BUS'] {problem}") for problem, urls in of_first.items() for url in urls),
        ("nats://one,ws://two", f"URL 2 in MCP['BUS'] {SCHEME}"),
        ("nats://one,", f"URL 2 in MCP['BUS'] {SCHEME}"),
        ("nats://a:b@one,nats://c:d@two", "The URLs in MCP['BUS'] must have the same credentials"),
        (
            ["nats://one"],
            "MCP['BUS'] must name its servers as a text: the URL of a NATS server, or several divided by commas.",
        ),
    ]

    said = [refusal(urls) for urls, _ in problems]

    assert [text[: len(problem)] for text, (_, problem) in zip(said, problems, strict=True)] == [
        problem for _, problem in problems
    ]


def test_reading_a_password_in_the_error_of_a_check() -> None:
    urls = ["nats://me:s3c/ret@one", "nats://me:s3c#ret@one:4222", "me:s3cret@one", "x://s3cret@one"]

    shown = [refusal(url) for url in urls]

    assert [text for text in shown if "s3c" in text or "ret@" in text] == []
    assert "s3cret" not in repr(read_urls("nats://s3cret@one"))
