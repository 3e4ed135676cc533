"""A program that asks the endpoint for 404s behind middleware that replaces them, and prints what came as JSON."""

from __future__ import annotations

import json
from typing import Any

import django
from asgiref.sync import async_to_sync


def main() -> None:
    django.setup()
    from django.contrib.auth.models import User
    from django.contrib.flatpages.models import FlatPage
    from django.contrib.redirects.models import Redirect
    from django.contrib.sites.models import Site
    from django.core.management import call_command
    from django.test import AsyncClient, Client

    from mcp_django.models import AccessToken

    call_command("migrate", run_syncdb=True, verbosity=0)
    site = Site.objects.get()
    FlatPage.objects.create(url="/page/", title="Page", content="A flat page").sites.add(site)
    Redirect.objects.create(site=site, old_path="/old/", new_path="/elsewhere/")
    user = User.objects.create_superuser("admin", password="admin")
    headers = {"Authorization": f"Bearer {AccessToken.objects.create_token(user=user)[1]}"}

    page = Client().get("/page/")
    redirect = Client().get("/old/")
    seen: dict[str, Any] = {
        "page": [page.status_code, page.content.decode()],
        "redirect": [redirect.status_code, redirect.headers["Location"]],
        "wsgi": {},
        "asgi": {},
    }
    for name, (message, more) in _requests().items():
        asked = {"data": json.dumps(message), "content_type": "application/json", "headers": {**headers, **more}}
        seen["wsgi"][name] = _seen(Client().post("/mcp", **asked))
        seen["asgi"][name] = _seen(async_to_sync(AsyncClient().post)("/mcp", **asked))
    print(json.dumps(seen))


def _requests() -> dict[str, tuple[dict[str, Any], dict[str, str]]]:
    """By name: a message that is answered with 404, and its headers."""
    from tests.support.peers import MODERN, meta

    unknown = {"jsonrpc": "2.0", "id": 1, "method": "unheard/of", "params": {"_meta": meta()}}
    return {
        "method": (unknown, {"MCP-Protocol-Version": MODERN, "Mcp-Method": "unheard/of"}),
        "session": ({"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Mcp-Session-Id": "gone"}),
    }


def _seen(response: Any) -> list[Any]:
    return [response.status_code, response.headers["Content-Type"], json.loads(response.content)]


if __name__ == "__main__":
    main()
