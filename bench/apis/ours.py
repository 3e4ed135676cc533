"""Our server on the project: prints what was measured as JSON."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from functools import partial
from types import SimpleNamespace
from typing import Any

from bench.apis.project import cookie, get, set_up, size
from bench.apis.sweep import Found, swept

SCOPES = ["read", "write"]
#: What is timed.
LISTED, LIGHT = "/api/orders/", "/api/cash-registers/"


def main() -> None:
    rows = set_up()
    logging.disable()
    from mcp_django import expose
    from mcp_django.bridge.sites import MCPSite, site
    from mcp_django.test import MCPClient

    expose("api/")
    with MCPClient(rows.anna, SCOPES, switched_on=["change_api"]) as client:
        tools = [one for one in client.list_tools() if one["name"].endswith("_api")]
    whole = MCPSite("whole")
    expose("api/", include=["*", *(one.name for one in site.api.all)], consent={"*": "preview"}, site=whole)
    found = {
        "version": "this repository", "tools": len(tools), "bytes": size(tools), "offered": len(site.api.operations),
        "all": len(site.api.all), **_works(rows, whole),
    }  # fmt: skip
    timed = {path: asdict(_timed(rows, site, path)) for path in (LISTED, LIGHT)}
    json.dump({**found, "list": timed[LISTED], "light": timed[LIGHT], "light_name": LIGHT}, sys.stdout)


def _works(rows: SimpleNamespace, site: Any) -> dict[str, Any]:
    """The operations that work, by the same cases as those of the others; ``tests.api.comparing`` compares them."""
    from bench.apis.cases import USERS, asked, is_forbidden
    from mcp_django.test import MCPClient
    from tests.api.comparing import by_tool, difference, operation_of, over_http

    counted, failing, forbidden = set(), {}, []
    for name in USERS:
        user = getattr(rows, name)
        with MCPClient(user, SCOPES, site=site, switched_on=["change_api"]) as client:
            client._request.META["REMOTE_ADDR"] = "127.0.0.1"
            for one in asked(rows):
                status, expected = over_http(user, one.send)
                if 200 <= status < 300:
                    counted.add(one.operation)
                target = operation_of(site, one.path, one.case.method)
                if target is None:
                    failing[one.operation] = "no operation"
                    continue
                arguments: dict[str, Any] = {"params": {**one.kwargs, **one.query}}
                if (body := one.body()) is not None:
                    arguments["body"] = _uploaded(client, body)
                outcome, got = by_tool(client, target[0], arguments)
                if outcome == "done" and is_forbidden(status, one):
                    forbidden.append(f"{name}, {one.case.method} {one.path}")
                if why := difference(status, expected, outcome, got):
                    failing.setdefault(one.operation, f"{name}, {one.path}: {why:.300}")
    wrong = {" ".join(key): why for key, why in failing.items() if key in counted}
    return {"work": len(counted) - len(wrong), "of": len(counted), "forbidden": forbidden, "failing": wrong}


def _uploaded(client: Any, body: Any) -> Any:
    """The body as an agent gives it: a file is uploaded first."""
    if not isinstance(body, dict):
        return body
    return {
        name: client.upload(one.read(), one.name, one.content_type) if hasattr(one, "read") else one
        for name, one in body.items()
    }


def _timed(rows: SimpleNamespace, site: Any, path: str) -> Found:
    from django.core.wsgi import get_wsgi_application

    from bench.in_process import ask_wsgi
    from bench.serving.calls import MODERN, call
    from mcp_django.models import AccessToken
    from tests.api.comparing import operation_of

    application = get_wsgi_application()
    target = operation_of(site, path, "GET")
    assert target is not None
    _, token = AccessToken.objects.create_token(user=rows.anna, name=f"bench {path}", scopes=["read"])
    headers = {"Authorization": f"Bearer {token}", "Host": "localhost"}
    sent = call(("call_api", {"operation": target[0].name}), MODERN, headers)
    if json.loads(ask_wsgi(application, sent))["result"].get("isError"):
        raise ValueError(f"{target[0].name} is refused")
    return swept(partial(get, application, path, cookie(rows.anna)), partial(ask_wsgi, application, sent))


if __name__ == "__main__":
    main()
