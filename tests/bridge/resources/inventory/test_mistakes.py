"""Mistakes in the arguments of the command."""

from __future__ import annotations

import logging
import threading

import pytest
from django.contrib.auth.models import User
from django.db import connection

from mcp_django import site
from mcp_django.console.review import inventory
from mcp_django.exchange.scopes import GRAMMAR
from tests.bridge.resources.inventory.conftest import refused

pytestmark = pytest.mark.every_database


MISTAKES: list[tuple[list[str], str]] = [
    (["--check"], "--check: name the file to compare with: --lock FILE."),
    (["--user", "nobody"], "There is no user 'nobody'. Make one with: manage.py createsuperuser"),
    (["--scopes", "writing"],
     f"--scopes: unknown scope 'writing'; the scopes are {GRAMMAR}."),
    (["--site", "mpc"], "--site: there is no site 'mpc'. Did you mean mcp?"),
    (["--json", "--lock", "x"], "Error: argument --lock: not allowed with argument --json"),
    (["--lock", "/nowhere/x", "--check"], "There is no /nowhere/x. Write it with:\nmanage.py mcp_inventory --site mcp "
     "--scopes read,actions,write --lock /nowhere/x"),
    (["--lock", "/nowhere/x"], "/nowhere/x cannot be written: No such file or directory."),
    (["--lock", "/", "--check"], "/ cannot be read: Is a directory."),
]  # fmt: skip


def test_a_mistake_is_told(db: None) -> None:
    for arguments, text in MISTAKES:
        assert refused(*arguments) == text


def test_the_database_is_given_back(db: None) -> None:
    inventory.build(site)

    assert not {"connect", "cursor", "chunked_cursor"} & vars(connection).keys()
    assert User.objects.count() == 0


def test_what_other_threads_log_meanwhile_goes_on_to_the_log(db: None, caplog: pytest.LogCaptureFixture) -> None:
    """A page of the admin builds inventories while requests are answered."""
    logger = logging.getLogger("mcp_django")
    with inventory.failures() as found:
        other = threading.Thread(target=logger.error, args=["of another thread"])
        other.start()
        other.join()
        logger.error("of this one")

    assert found == {"of this one"}
    assert [record.getMessage() for record in caplog.records] == ["of another thread"]
    assert logger.filters == []
