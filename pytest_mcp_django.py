"""The fixtures of mcp_django for pytest, which finds this module by its entry point, in every project.

So it imports neither Django nor mcp_django before a test uses a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mcp_django.test import MCPClient


@pytest.fixture
def mcp_client(request: pytest.FixtureRequest) -> Iterator[Callable[..., MCPClient]]:
    """Makes a client of your server, ``mcp_client(user, switched_on=[…])``, and closes it after the test.

    It takes what ``mcp_django.test.MCPClient`` takes. With pytest-django, the test may use the database.
    """
    if request.config.pluginmanager.has_plugin("django"):
        request.getfixturevalue("db")
    from mcp_django.test import MCPClient

    with ExitStack() as clients:

        def make(*args: Any, **options: Any) -> MCPClient:
            return clients.enter_context(MCPClient(*args, **options))

        yield make
