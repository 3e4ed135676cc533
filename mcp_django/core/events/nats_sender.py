"""Publishes to NATS with a synchronous client: nats-py needs an event loop, which the publisher's thread must not have.

It reads the URLs of one server, or of several of one cluster, and speaks the protocol of
https://docs.nats.io/reference/reference-protocols/nats-protocol
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

_PORT = 4222
_SCHEMES = ("nats", "tls")


@dataclass(frozen=True)
class Address:
    """Where a server is, and whether it must speak TLS."""

    host: str
    port: int
    tls: bool

    @property
    def url(self) -> str:
        """The address as nats-py takes it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'tls' if self.tls else 'nats'}://{host}:{self.port}"


@dataclass(frozen=True)
class Servers:
    """The addresses of a cluster, and the user of all of them."""

    addresses: tuple[Address, ...]
    #: As CONNECT carries them: ``user`` and ``pass``, or ``auth_token``, or nothing.
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_urls(urls: Any) -> Servers:
    """The servers of a text with URLs. Raises ImproperlyConfigured."""
    if not isinstance(urls, str):
        raise ImproperlyConfigured(
            "MCP['BUS'] must name its servers as a text: the URL of a NATS server, or several divided by commas."
        )
    addresses, found = [], []
    for number, url in enumerate(urls.split(","), 1):
        try:
            address, credentials = _read_url(url.strip())
        except ValueError as error:
            # Without its cause, which may quote a password.
            raise ImproperlyConfigured(
                f"URL {number} in MCP['BUS'] {error}. Write nats://host:4222, tls://user:password@host:4222 or "
                "nats://token@host:4222, and other characters in a user, password or token as %40."
            ) from None
        addresses.append(address)
        if credentials and credentials not in found:
            found.append(credentials)
    if len(found) > 1:
        raise ImproperlyConfigured(
            "The URLs in MCP['BUS'] must have the same credentials: their servers are a cluster."
        )
    return Servers(tuple(addresses), *found)


def _read_url(url: str) -> tuple[Address, dict[str, str]]:
    """The address and the credentials of a URL. Raises ValueError with a text that quotes none of it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError("has no host and port that can be read") from None
    if parts.scheme not in _SCHEMES:
        raise ValueError("begins with neither nats:// nor tls://")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise ValueError("has more than a host and a port")
    try:
        # The codec is loaded here. If the publisher's thread loaded it first, a process forked in that moment would
        # keep it half loaded.
        (host or "").encode("idna")
    except UnicodeError:
        host = None
    if not host or port == 0 or re.search(r"\s", host):
        raise ValueError("has no host and port that can be read")
    return Address(host, port or _PORT, parts.scheme == "tls"), _credentials(parts.username, parts.password)


def _credentials(username: str | None, password: str | None) -> dict[str, str]:
    if not username:
        return {}
    if password is None:
        return {"auth_token": unquote(username)}
    return {"user": unquote(username), "pass": unquote(password)}


#: How long the servers may take an event, and one of them a connection.
_SEND_SECONDS, _CONNECT_SECONDS = 5.0, 2.0
#: The longest line that a server may send: INFO names every server of a cluster.
_MAX_LINE_BYTES = 1_000_000
_READ_BYTES = 65_536
#: What a server takes in one message unless it says otherwise.
_MAX_PAYLOAD = 1_048_576


class NATSError(OSError):
    """A NATS server has refused something, or has broken the protocol."""


class NATSSender:
    """Keeps a connection to one of the servers, and changes to the next one when that fails."""

    def __init__(self, servers: Servers, subject: str) -> None:
        self._addresses = deque(servers.addresses)
        self._credentials = servers.credentials
        self._subject = subject.encode()
        self._connection: _Connection | None = None

    def send(self, forms: Iterable[bytes]) -> None:
        """Publish the first of these forms of a message that the server takes; the last one always fits.

        Returns once a server has it. Raises OSError.
        """
        forms = list(forms)
        deadline = time.monotonic() + _SEND_SECONDS
        kept = self._connection is not None
        try:
            self._publish(forms, deadline)
        except OSError:
            self.close()
            self._addresses.rotate(-1)
            if not kept:
                raise
            # The server may have ended the kept connection, as it does when it restarts.
            self._publish(forms, deadline)

    def close(self) -> None:
        """End the connection, if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _publish(self, forms: list[bytes], deadline: float) -> None:
        if self._connection is None:
            self._connection = self._connect(deadline)
        limit = self._connection.max_payload
        payload = next((form for form in forms if len(form) <= limit), forms[-1])
        try:
            self._connection.deadline = deadline
            self._connection.ask(b"PUB %s %d\r\n%s\r\n" % (self._subject, len(payload), payload))
        except OSError:
            self.close()
            raise

    def _connect(self, deadline: float) -> _Connection:
        for _ in range(len(self._addresses) - 1):
            with contextlib.suppress(OSError):
                return self._connect_to(self._addresses[0], deadline)
            self._addresses.rotate(-1)
        return self._connect_to(self._addresses[0], deadline)

    def _connect_to(self, address: Address, deadline: float) -> _Connection:
        return _Connection(address, self._credentials, min(deadline, time.monotonic() + _CONNECT_SECONDS))


class _Connection:
    """A connection, made by its constructor. Each method raises OSError, at the ``deadline`` too."""

    def __init__(self, address: Address, credentials: Mapping[str, str], deadline: float) -> None:
        self.deadline = deadline
        self._received = bytearray()
        self._socket: socket.socket = socket.create_connection((address.host, address.port), self._seconds_left())
        try:
            info = self._read_info()
            if info.get("tls_required"):
                self._start_tls(address.host)
            elif address.tls:
                raise NATSError("The NATS server offers no TLS, which its URL in MCP['BUS'] asks for")
            self.max_payload = int(info.get("max_payload", _MAX_PAYLOAD))
            named = {"verbose": False, "pedantic": False, "protocol": 1, "lang": "python", "version": "1"}
            connect = json.dumps({**named, "name": "mcp_django publisher", **credentials})
            self.ask(b"CONNECT %s\r\n" % connect.encode())
        except BaseException:
            self.close()
            raise

    def ask(self, command: bytes) -> None:
        """Send a command, and return once the server has obeyed it."""
        self._write(command + b"PING\r\n")
        while (line := self._read_line()) != b"PONG":
            if line == b"PING":
                self._write(b"PONG\r\n")
            elif line.startswith(b"-ERR"):
                raise NATSError(f"The NATS server refuses: {line[5:].decode(errors='replace')}")

    def close(self) -> None:
        self._socket.close()

    def _read_info(self) -> dict[str, Any]:
        name, _, given = self._read_line().partition(b" ")
        try:
            info = json.loads(given) if name == b"INFO" else None
        except (ValueError, RecursionError):
            info = None
        if not isinstance(info, dict):
            raise NATSError("What listens there is no NATS server")
        return info

    def _start_tls(self, host: str) -> None:
        # Plain text that an attacker has put in must not count as a part of the encrypted answer.
        self._received.clear()
        self._socket.settimeout(self._seconds_left())
        self._socket = ssl.create_default_context().wrap_socket(self._socket, server_hostname=host)

    def _read_line(self) -> bytes:
        while (end := self._received.find(b"\r\n")) < 0:
            if len(self._received) > _MAX_LINE_BYTES:
                raise NATSError("The NATS server sends a line without an end")
            self._socket.settimeout(self._seconds_left())
            if not (data := self._socket.recv(_READ_BYTES)):
                raise NATSError("The NATS server has closed the connection")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 2]
        return line

    def _write(self, data: bytes) -> None:
        self._socket.settimeout(self._seconds_left())
        self._socket.sendall(data)

    def _seconds_left(self) -> float:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("The NATS servers do not answer in time")
        return left
