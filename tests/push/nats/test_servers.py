"""The URLs of NATS servers."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from mcp_django.events.nats_servers import Address, Servers, read_urls


@pytest.mark.parametrize(
    ("urls", "servers"),
    [
        ("nats://one", Servers((Address("one", 4222, tls=False),))),
        (" nats://127.0.0.1:5222/ ", Servers((Address("127.0.0.1", 5222, tls=False),))),
        ("tls://one.example.com", Servers((Address("one.example.com", 4222, tls=True),))),
        ("nats://[::1]:4223", Servers((Address("::1", 4223, tls=False),))),
        ("nats://s3cret@one", Servers((Address("one", 4222, tls=False),), {"auth_token": "s3cret"})),
        ("nats://me:p%40ss%2C%2F@one", Servers((Address("one", 4222, tls=False),), {"user": "me", "pass": "p@ss,/"})),
        ("nats://me:@one", Servers((Address("one", 4222, tls=False),), {"user": "me", "pass": ""})),
        (
            "nats://me:pw@one:1,tls://two:2, nats://me:pw@three",
            Servers(
                (Address("one", 1, tls=False), Address("two", 2, tls=True), Address("three", 4222, tls=False)),
                {"user": "me", "pass": "pw"},
            ),
        ),
    ],
)
def test_a_url_names_a_server_and_its_user(urls: str, servers: Servers) -> None:
    assert read_urls(urls) == servers


@pytest.mark.parametrize("address", [Address("one", 4222, tls=False), Address("::1", 4223, tls=True)])
def test_an_address_is_what_its_url_says(address: Address) -> None:
    assert read_urls(address.url).addresses == (address,)


@pytest.mark.parametrize(
    ("urls", "problem"),
    [
        ("one:4222", "URL 1 in MCP['BUS'] begins with neither nats:// nor tls://."),
        ("redis://one", "URL 1 in MCP['BUS'] begins with neither nats:// nor tls://."),
        ("nats://one,ws://two", "URL 2 in MCP['BUS'] begins with neither nats:// nor tls://."),
        ("nats://one,", "URL 2 in MCP['BUS'] begins with neither nats:// nor tls://."),
        ("nats://", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        ("nats://one:port", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        ("nats://one:0", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        ("nats://one:66000", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        ("nats://[::1", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        (f"nats://{'a' * 64}.example.com", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        ("nats://one two", "URL 1 in MCP['BUS'] has no host and port that can be read."),
        ("nats://one/subject", "URL 1 in MCP['BUS'] has more than a host and a port."),
        ("nats://one?tls=1", "URL 1 in MCP['BUS'] has more than a host and a port."),
        ("nats://a:b@one,nats://c:d@two", "The URLs in MCP['BUS'] must have the same credentials"),
        (["nats://one"], "MCP['BUS'] must be a text: the URL of a NATS server, or several divided by commas."),
    ],
)
def test_what_names_no_server_is_refused(urls: str, problem: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read_urls(urls)

    assert str(refused.value).startswith(problem)


@pytest.mark.parametrize(
    "urls", ["nats://me:s3c/ret@one", "nats://me:s3c#ret@one:4222", "me:s3cret@one", "x://s3cret@one"]
)
def test_reading_a_password_in_the_error_of_a_check(urls: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refused:
        read_urls(urls)

    shown = f"{refused.value}{refused.value.__cause__}"
    assert "s3c" not in shown and "ret@" not in shown
    assert "s3cret" not in repr(read_urls("nats://s3cret@one"))
