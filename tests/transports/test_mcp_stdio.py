"""``manage.py mcp_stdio``: when it refuses to start, and which site it serves."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.urls import include, path

from mcp_django import MCPSite, site
from mcp_django.bridge import sites
from mcp_django.exchange.scopes import GRAMMAR
from mcp_django.management.arguments import find_site
from mcp_django.management.commands import mcp_stdio
from tests.transports import tenants

pytestmark = pytest.mark.django_db

UNKNOWN = "tests.transports.tenants.UnknownMiddleware"
URLCONF = "tests.transports.stdio_urls"


@pytest.fixture(autouse=True)
def ada() -> User:
    User.objects.create_user("eve", is_active=False)
    return User.objects.create_user("ada")


@pytest.fixture
def serve(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``serve(*sites)``: a URLconf that serves these sites, and no others."""
    made: list[MCPSite] = []

    def serve(*sites: MCPSite) -> None:
        made.extend(sites)
        monkeypatch.setattr(site, "_has_urls", site in sites)
        module = ModuleType(URLCONF)
        patterns = [path(f"{one.name}/", include(one.urls[:2], namespace=one.name)) for one in sites]
        module.urlpatterns = patterns  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, URLCONF, module)
        settings.ROOT_URLCONF = URLCONF

    yield serve
    for one in made:
        if one is not site:
            sites._sites.discard(one)


MISTAKES: list[tuple[list[str], str]] = [
    (["--user", "eve"], "The user 'eve' is inactive, so an agent would be refused."),
    (["--user", "nobody"], "There is no user 'nobody'. Make one with: manage.py createsuperuser"),
    (["--user", "ada", "--scopes", "writing"],
     f"--scopes: unknown scope 'writing'; the scopes are {GRAMMAR}."),
    (["--user", "ada", "--scopes", ""],
     f"--scopes: name at least one of {GRAMMAR}."),
    (["--user", "ada", "--site", "mpc"], "--site: there is no site 'mpc'. Did you mean mcp?"),
    (["--user", "ada", "--site", "other"], "--site: there is no site 'other'."),
    ([], "Error: the following arguments are required: --user"),
]  # fmt: skip


def test_a_mistake_is_told_before_anything_is_served() -> None:
    for arguments, text in MISTAKES:
        with pytest.raises(CommandError) as raised:
            call_command("mcp_stdio", *arguments)

        assert str(raised.value) == text


def test_stdio_cannot_slip_past_middleware_that_may_matter(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, UNKNOWN]

    with pytest.raises(CommandError) as raised:
        call_command("mcp_stdio", "--user", "ada")

    assert str(raised.value) == (
        f"Stdio does not pass {UNKNOWN}, which may choose a tenant or guard the site. Do its work in "
        "MCPSite.call_context, or set MCP['BYPASS_MIDDLEWARE'] = True if agents can do without it."
    )


def test_the_site_that_the_project_serves_is_served(serve: Any) -> None:
    other = tenants.make_site()
    serve(other)

    assert find_site(None) is other
    assert find_site("mcp") is site


def test_of_several_sites_one_must_be_named(serve: Any) -> None:
    other = tenants.make_site()
    serve(site, other)

    with pytest.raises(CommandError) as raised:
        find_site(None)

    assert str(raised.value) == "--site: name one of mcp, tenants."
    assert find_site("tenants") is other


def test_a_project_that_serves_nothing_by_http_serves_its_site(serve: Any) -> None:
    serve()

    assert find_site(None) is site


def test_a_signal_that_is_handled_after_the_loop_has_ended_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What else the signal closes may end the loop first."""

    class Ending:
        refused = False

        def __init__(self, *_: Any) -> None: ...

        async def serve(self) -> None: ...

    monkeypatch.setattr(mcp_stdio, "StdioServer", Ending)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    handlers: list[Any] = []
    try:
        nothing: Any = ()
        asyncio.run(mcp_stdio._serve(site, nothing, nothing))
        handlers = [signal.getsignal(number) for number in before]
        for handle in handlers:
            handle(signal.SIGTERM, None)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

    assert not set(handlers) & set(before.values())
