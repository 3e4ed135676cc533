"""``manage.py mcp_oauth check``: walks the way of a client that knows only the URL, and says where it stops."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from django.conf import settings
from django.core.management.base import CommandError
from django.test import Client

from mcp_django.conf import URL_LINE, get_conf
from mcp_django.core.db.commands import DatabaseCommand
from mcp_django.models import Call
from mcp_django.oauth import paths
from mcp_django.oauth.checks import deployment_problems, setting_problems

_SECONDS = 10.0
_PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to a request of a client."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any] | None:
        try:
            value = json.loads(self.body)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


#: Requests a URL, by POST if there is a body.
Ask = Callable[[str, bytes | None], Found]


@dataclass
class Walk:
    """The way of a client from the URL of the endpoint to the login page."""

    endpoint: str
    ask: Ask
    problems: list[str] = field(default_factory=list)

    def steps(self) -> Iterator[str]:
        """What the client does and finds, a line each."""
        answer = self.ask(self.endpoint, _PING)
        challenge = answer.headers.get("www-authenticate", "")
        yield f"POST {self.endpoint}: {answer.status}"
        if answer.status != 401 or "resource_metadata=" not in challenge:
            self._wrong(f"The endpoint answers {answer.status} and not 401 with resource_metadata", answer)
            return
        named = challenge.partition('resource_metadata="')[2].partition('"')[0]
        parts = urlsplit(self.endpoint)
        root = f"{parts.scheme}://{parts.netloc}"
        metadata = yield from self._document(named)
        if metadata is None:
            return
        yield from self._same(metadata, "resource", self.endpoint)
        at_root = f"{root}/{paths.RESOURCE_METADATA}{parts.path}"
        if at_root != named:
            yield from self._document(at_root)
        issuer = str((metadata.get("authorization_servers") or [""])[0])
        prefix = urlsplit(issuer).path
        server = yield from self._document(f"{root}/{paths.SERVER_METADATA}{prefix}")
        if server is None:
            server = yield from self._document(f"{issuer}/{paths.OPENID_METADATA}")
        if server is not None:
            yield from self._same(server, "issuer", issuer)
            yield f"    people log in at {server['authorization_endpoint']}"

    def _document(self, url: str) -> Iterator[str] | Any:
        answer = self.ask(url, None)
        yield f"GET {url}: {answer.status}"
        if answer.status != 200 or answer.json is None:
            self._wrong(f"{url} is no document of ours", answer)
            return None
        return answer.json

    def _same(self, document: Mapping[str, Any], member: str, expected: str) -> Iterator[str]:
        yield f"    {member}: {document.get(member)}"
        if document.get(member) != expected:
            self.problems.append(
                f"{member} is {document.get(member)}, and clients compare it with {expected}. Set MCP['OAUTH_ORIGIN'], "
                "or let the proxy pass Host and the scheme (SECURE_PROXY_SSL_HEADER, USE_X_FORWARDED_HOST)."
            )

    def _wrong(self, said: str, answer: Found) -> None:
        location = answer.headers.get("location")
        more = f": it redirects to {location}. Something guards the URL with a login page" if location else ""
        html = " The answer is an HTML page." if answer.body[:200].lstrip().lower().startswith(b"<") else ""
        self.problems.append(f"{said}{more}.{html}")


class Command(DatabaseCommand):
    help = "Say what a client that wants to log in finds, and what is wrong with it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("what", choices=["check"], help="Send the requests of a client, and say what is wrong.")
        parser.add_argument(
            "--url",
            metavar="URL",
            help="The endpoint as clients know it, as https://example.com/mcp: it is asked over the network, through "
            "every proxy. Without it, this process answers, and no proxy is seen.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        url = options["url"]
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise CommandError("--url: name the endpoint as https://example.com/mcp.")
        if not url:
            # This process writes to the audit trail, and would log that there is none.
            Call.objects.exists()
        walks = [Walk(url, _over_network)] if url else [Walk(one, _in_process) for one in _own_endpoints()]
        for walk in walks:
            for line in walk.steps():
                self.stdout.write(line)
        met = [problem for walk in walks for problem in walk.problems]
        found = [*setting_problems(), *deployment_problems()]
        problems = [*met, *(f"{problem} {hint}" for problem, hint in found)]
        for problem in problems:
            self.stderr.write(f"! {problem}")
        if met:
            raise CommandError("Clients cannot log in.")
        self.stdout.write("Clients can log in." if not problems else "Clients can log in, but see above.")


def _own_endpoints() -> list[str]:
    found = paths.endpoints()
    if not found:
        raise CommandError(f"The URLconf has no endpoint: add {URL_LINE} to it.")
    hosts = [host.removeprefix(".") for host in settings.ALLOWED_HOSTS if host != "*"] or ["localhost"]
    return [(get_conf().OAUTH_ORIGIN or f"https://{hosts[0]}") + path for path in found]


def _in_process(url: str, body: bytes | None) -> Found:
    parts = urlsplit(url)
    client = Client(headers={"Host": parts.netloc})
    secure = parts.scheme == "https"
    if body is None:
        answer = client.get(parts.path, secure=secure)
    else:
        accepted = {"Accept": "application/json, text/event-stream"}
        answer = client.post(parts.path, body, content_type="application/json", secure=secure, headers=accepted)
    headers = {name.lower(): str(value) for name, value in answer.headers.items()}
    return Found(answer.status_code, headers, b"" if answer.streaming else answer.content)


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect, as clients do not: it would lose the body."""

    def redirect_request(self, *args: Any) -> None:
        return None


def _over_network(url: str, body: bytes | None) -> Found:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    request = Request(url, data=body, headers=headers)  # noqa: S310 - the administrator names it, and the scheme is checked
    try:
        with build_opener(_NoRedirects).open(request, timeout=_SECONDS) as answer:
            return Found(answer.status, {name.lower(): value for name, value in answer.headers.items()}, answer.read())
    except HTTPError as error:
        return Found(error.code, {name.lower(): value for name, value in error.headers.items()}, error.read())
    except (OSError, HTTPException) as error:
        raise CommandError(f"{url} could not be reached: {error}") from None
