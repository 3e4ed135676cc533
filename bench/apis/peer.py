"""Another server on the project, in its own environment: prints what was measured as JSON."""

from __future__ import annotations

import json
import logging
import sys
from dataclasses import asdict
from functools import partial
from importlib import import_module
from importlib.metadata import version
from typing import Any

from bench.apis import PEER
from bench.apis.project import cookie, get, set_up, size
from bench.apis.sweep import swept
from bench.in_process import ask_wsgi
from bench.serving.calls import INITIALIZE, LEGACY, Call, call, message

#: What is timed: the first of them that the server can list.
LISTED = ("/api/orders/", "/api/customers/", "/api/settings/", "/api/staff/groups/")


def main() -> None:
    rows = set_up()
    logging.disable()
    if PEER == "fast":
        from bench.apis import fast

        json.dump({"version": version("fastmcp"), **fast.measured(rows)}, sys.stdout)
        return
    peer = import_module(f"bench.apis.{PEER}")
    json.dump({"version": version(peer.PACKAGE), **_measured(peer, rows), "notes": peer.NOTES}, sys.stdout)


def _measured(peer: Any, rows: Any) -> dict[str, Any]:
    from django.core.wsgi import get_wsgi_application

    from bench.apis.cases import Asked, asked, works

    application = get_wsgi_application()

    def headers(name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer token-of-{name}", "Host": "localhost"}

    def ask(name: str, one: Asked) -> tuple[bool, Any]:
        named = peer.tool(one)
        if named is None:
            return False, "no tool"
        try:
            sent = call((named, peer.arguments(one)), LEGACY, headers(name))
        except TypeError as error:
            # A file is no JSON.
            return False, str(error)
        return _result(ask_wsgi(application, sent, peer.PATH))

    def prepare() -> None:
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        peer.prepare()
        ask_wsgi(application, Call(message("initialize", INITIALIZE), {**sent, **headers("anna")}), peer.PATH)

    found = works(rows, ask, prepare)
    sent = call(("", {}), LEGACY, headers("stella"))
    tools = _json(ask_wsgi(application, Call(message("tools/list", {}), sent.headers), peer.PATH))
    found |= {"tools": len(tools["result"]["tools"]), "bytes": size(tools["result"]["tools"])}
    lists = {one.path: one for one in asked(rows) if one.path in LISTED and one.is_safe and not one.query}
    for path in LISTED:
        one = lists[path]
        done, got = ask("stella", one)
        if not done:
            why = got if isinstance(got, str) else got["result"]["content"][0]["text"]
            peer.NOTES.append(f"{path}: {why:.200}")
            continue
        sent = call((peer.tool(one), peer.arguments(one)), LEGACY, headers("stella"))
        by_http = partial(get, application, path, cookie(rows.stella))
        timed = swept(by_http, partial(ask_wsgi, application, sent, peer.PATH))
        return {**found, "listed": path, "list": asdict(timed)}
    return found


def _result(body: bytes) -> tuple[bool, Any]:
    """Whether a call is done, and its value."""
    from bench.apis.cases import parsed

    answer = _json(body)
    found = answer.get("result")
    if not isinstance(found, dict) or found.get("isError"):
        return False, answer
    return True, found.get("structuredContent") or [parsed(part.get("text", "")) for part in found["content"]]


def _json(body: bytes) -> Any:
    """The message of an answer, which may be the only event of a stream."""
    lines = body.decode().splitlines()
    return json.loads(next((line[5:] for line in lines if line.startswith("data:")), body))


if __name__ == "__main__":
    main()
