"""Fetches a small JSON document that a stranger has named, without letting the stranger reach anything inside.

The name is resolved once, every address is checked, and the connection goes to a checked address, so a name that means
another address a moment later changes nothing. There is no redirect, no proxy, no cookie, and one deadline.
"""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from queue import Empty, SimpleQueue
from urllib.parse import urlsplit

from django.utils.http import parse_http_date_safe

SECONDS = 5.0
MAX_BYTES = 16_384
_PORT = 443
#: Names that are being resolved at the same time: a resolver that hangs holds a thread.
_resolving = threading.BoundedSemaphore(8)
#: IPv4 networks that some versions of Python take for global: addresses that are reserved for protocols, with the
#: metadata of one cloud; the relays of 6to4; and an address that only the machines of another cloud reach.
_INNER = tuple(map(IPv4Network, ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")))
#: IPv6 networks that stand for other addresses, or are not reachable from everywhere: only 2000::/3 is global unicast.
_GLOBAL = IPv6Network("2000::/3")
_TRANSLATED = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")))
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=\"?([0-9]{1,9})", re.IGNORECASE)


class FetchError(Exception):
    """The document could not be fetched. The text says why, for the person who waits for it."""


class Unreachable(FetchError):
    """No connection came about: the host has no address, or none of its addresses answered."""


class Busy(FetchError):
    """The document was not requested, because too many are being fetched."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """The bytes of a document, and for how many seconds it may be kept (RFC 9111 §4.2.1)."""

    body: bytes
    fresh_seconds: float


def fetch(url: str) -> Fetched:
    """The document at an https URL. Raises FetchError."""
    deadline = time.monotonic() + SECONDS
    host, target = _parts(url)
    connection = _Connection(host, checked(resolve(host, deadline), host), deadline)
    try:
        return _read(connection, target)
    except (OSError, http.client.HTTPException, ValueError) as error:
        kind = FetchError if connection.is_connected else Unreachable
        if time.monotonic() >= deadline:
            raise kind(_too_slow(host)) from error
        raise kind(_unreachable(host)) from error
    finally:
        connection.close()


def _parts(url: str) -> tuple[str, str]:
    """The host of a URL, and the path and query that it is asked for."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme != "https" or not parts.hostname or port not in (None, _PORT):
        raise FetchError("Its address is not an https URL on the usual port.")
    return parts.hostname, parts.path + (f"?{parts.query}" if parts.query else "")


def resolve(host: str, deadline: float) -> list[str]:
    """The addresses of a host. Raises FetchError for a host that has none, or not in time."""
    # In a local name: the thread gives back to the semaphore that it took from, even if a test has replaced that since.
    places = _resolving
    if not places.acquire(blocking=False):
        raise Busy("Too many such documents are being fetched. Try again in a moment.")
    found: SimpleQueue[list[str]] = SimpleQueue()

    def ask() -> None:
        try:
            rows = socket.getaddrinfo(host, _PORT, type=socket.SOCK_STREAM)
            found.put([str(row[4][0]) for row in rows])
        except (OSError, UnicodeError):
            found.put([])
        finally:
            places.release()

    threading.Thread(target=ask, name="mcp_django-resolve", daemon=True).start()
    try:
        addresses = found.get(timeout=max(0.0, deadline - time.monotonic()))
    except Empty:
        raise Unreachable(_too_slow(host)) from None
    if not addresses:
        raise Unreachable(_unreachable(host))
    return addresses


def checked(addresses: list[str], host: str) -> list[str]:
    """The addresses, if everybody can reach each of them. Raises FetchError: one inside is a sign of an attack."""
    if not all(is_public(address) for address in addresses):
        raise FetchError(_unreachable(host))
    return addresses


def _too_slow(host: str) -> str:
    return f"{host} took longer than {SECONDS:g} seconds."


def _unreachable(host: str) -> str:
    """The same text for a host that is away, internal or unknown, so that nobody learns which internal names exist."""
    return f"{host} could not be reached."


def is_public(address: str) -> bool:
    """Whether an address is reachable from everywhere, and stands for no other one."""
    try:
        found: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return False
    if found.is_multicast or found.is_reserved or not found.is_global:
        return False
    if isinstance(found, IPv4Address):
        return not any(found in network for network in _INNER)
    return found in _GLOBAL and not any(found in network for network in _TRANSLATED)


class _Connection(http.client.HTTPSConnection):
    """An HTTPS connection to one of some addresses, verified against the name, that ends at a deadline."""

    def __init__(self, host: str, addresses: list[str], deadline: float) -> None:
        super().__init__(host, _PORT, context=ssl.create_default_context())
        self._addresses = addresses
        self._deadline = deadline
        self._timer: threading.Timer | None = None
        #: Whether one of the addresses answered, whatever came of it.
        self.is_connected = False

    def connect(self) -> None:
        self.sock = plain = self._connect()
        self.is_connected = True
        self.stop_at_deadline()
        plain.settimeout(self.left())
        self.sock = self._context.wrap_socket(plain, server_hostname=self.host)  # type: ignore[attr-defined]
        # During the handshake the timer could not stop the connection.
        self.sock.settimeout(self.left())

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().close()

    def _connect(self) -> socket.socket:
        error: OSError | None = None
        for tried, address in enumerate(self._addresses):
            # One that is silent leaves time for the others.
            seconds = self.left() / (len(self._addresses) - tried)
            try:
                return socket.create_connection((address, _PORT), timeout=seconds)
            except OSError as failure:
                error = failure
        raise error or OSError("no address")

    def left(self) -> float:
        """The seconds until the deadline. Raises TimeoutError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def stop_at_deadline(self) -> None:
        """End the connection at the deadline, whatever drips in until then."""
        self._timer = threading.Timer(self.left(), self._stop)
        self._timer.daemon = True
        self._timer.start()

    def _stop(self) -> None:
        with contextlib.suppress(OSError):
            if self.sock is not None:
                self.sock.shutdown(socket.SHUT_RDWR)


def _read(connection: _Connection, target: str) -> Fetched:
    headers = {"Accept": "application/json", "User-Agent": "mcp_django", "Connection": "close"}
    connection.request("GET", target, headers=headers)
    answer = connection.getresponse()
    # A connection that was stopped looks like a complete answer.
    connection.left()
    kind = answer.headers.get_content_type().lower()
    if answer.status != http.HTTPStatus.OK:
        raise FetchError(f"{connection.host} answered with the status {answer.status}.")
    if kind != "application/json" and not kind.endswith("+json"):
        raise FetchError(f"{connection.host} answered with something other than JSON.")
    body = answer.read(MAX_BYTES + 1)
    connection.left()
    if len(body) > MAX_BYTES:
        raise FetchError(f"{connection.host} answered with more than {MAX_BYTES} bytes.")
    said = {name: ", ".join(answer.headers.get_all(name, [])) for name in answer.headers}
    return Fetched(body, fresh_seconds(said))


def fresh_seconds(headers: Mapping[str, str]) -> float:
    """For how long an answer with these headers may be kept; 0 where they do not say, or forbid it (RFC 9111 §4.2)."""
    said = {name.lower(): value.strip() for name, value in headers.items()}
    control = said.get("cache-control", "").lower()
    if "no-store" in control or "no-cache" in control:
        return 0.0
    found = _MAX_AGE.search(control)
    seconds = _until(said) if found is None else int(found[1])
    return float(max(0, seconds - _age(said)))


def _until(headers: Mapping[str, str]) -> int:
    """The seconds from Date to Expires, both of which are the server's clock."""
    date, expires = (parse_http_date_safe(headers.get(name, "")) for name in ("date", "expires"))
    return 0 if date is None or expires is None else expires - date


def _age(headers: Mapping[str, str]) -> int:
    """For how many seconds caches on the way have kept the answer."""
    age = headers.get("age", "")
    return int(age) if age.isascii() and age.isdigit() and len(age) < 10 else 0
