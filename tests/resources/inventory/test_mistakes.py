"""Mistakes in the arguments of the command."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.db import connection

from mcp_django import inventory, site
from tests.resources.inventory.conftest import refused

pytestmark = pytest.mark.every_database


@pytest.mark.parametrize(("arguments", "text"), [
    (["--check"], "--check: name with --lock FILE the file to compare with."),
    (["--user", "nobody"], "There is no user 'nobody'. Make one with: manage.py createsuperuser"),
    (["--scopes", "write"],
     "--scopes: unknown scope 'write'; the scopes are read, actions, model:app.model:read, tool:NAME."),
    (["--site", "mpc"], "--site: there is no site 'mpc'. Did you mean mcp?"),
    (["--json", "--lock", "x"], "Error: argument --lock: not allowed with argument --json"),
    (["--lock", "/nowhere/x", "--check"], "There is no /nowhere/x. Write it with:\nmanage.py mcp_inventory --site mcp "
     "--scopes read,actions --lock /nowhere/x"),
    (["--lock", "/nowhere/x"], "/nowhere/x cannot be written: No such file or directory."),
    (["--lock", "/", "--check"], "/ cannot be read: Is a directory."),
])  # fmt: skip
def test_a_mistake_is_told(db: None, arguments: list[str], text: str) -> None:
    assert refused(*arguments) == text


def test_the_database_is_given_back(db: None) -> None:
    inventory.build(site)

    assert not {"connect", "cursor", "chunked_cursor"} & vars(connection).keys()
    assert User.objects.count() == 0
