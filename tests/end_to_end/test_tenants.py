"""Tenants by middleware on each server: many clients of two hosts at the same time get the rows of their own tenant."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.end_to_end.shop import served_shop
from tests.shop.models import Tag
from tests.support.data import make_users, token_of
from tests.support.peers import MODERN, meta
from tests.transports.tenancy import CURRENT

pytestmark = [pytest.mark.more("each server, with each kind of tenants"), pytest.mark.slow]

_SETTINGS = """
MIDDLEWARE = [*MIDDLEWARE, "tests.transports.tenancy.{kind}"]
ALLOWED_HOSTS = ["*"]
"""
_ASKED: dict[str, Any] = {"name": "find_records", "arguments": {"model": "shop.tag", "fields": ["name"]}}


@pytest.mark.parametrize("kind", list(CURRENT))
@pytest.mark.parametrize("server", ["uvicorn", "daphne", "hypercorn", "granian"])
def test_each_of_many_clients_gets_the_rows_of_its_tenant(
    server: str, kind: str, transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Tag.objects.bulk_create(Tag(name=f"{tenant}:{number}") for tenant in "ab" for number in (1, 2))
    token = token_of(make_users().admin)
    monkeypatch.setitem(os.environ, "TENANT_KIND", kind)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**_ASKED, "_meta": meta()}}
    headers = {
        "Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": "find_records",
    }  # fmt: skip

    with served_shop(server, tmp_path, _SETTINGS.format(kind=kind), "tests.transports.tenant_shop") as served:

        def ask(number: int) -> set[str]:
            tenant = "ab"[number % 2]
            own = {**headers, "Host": f"{tenant}.example.com"}
            answer = httpx.post(served.url, json=message, headers=own, timeout=60).json()
            return {str(row[-1]).partition(":")[0] for row in answer["result"]["structuredContent"]["rows"]} ^ {tenant}

        with ThreadPoolExecutor(6) as pool:
            foreign = list(pool.map(ask, range(36)))

    assert foreign == [set()] * 36
