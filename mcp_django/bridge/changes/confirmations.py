"""Tokens with which an agent confirms a change of exactly the rows that it was shown.

A token is a date, a nonce and two codes: one for who calls what, and one for the rows as they were shown. It is valid
for ten minutes, once. It is short, because models copy long texts wrongly. Nothing is stored until it is used.
"""

from __future__ import annotations

import base64
import binascii
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.crypto import constant_time_compare

from mcp_django.core.macs import macs
from mcp_django.exceptions import ToolError, field_error
from mcp_django.exchange.questions import digest

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

SECONDS = 600
#: Room for longer codes: a token has 50 characters today.
MAX_CHARS = 60

_SALT = "mcp_django.tools.confirmations"
_DATE, _NONCE, _CODE = 4, 9, 12


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A valid token, which may have been used."""

    nonce: str
    _state_code: bytes
    #: How to get another token, as a sentence.
    _again: str

    def check(self, state: Any, changed: str) -> None:
        """Raises ToolError with the sentence ``changed`` if the rows are not as they were shown."""
        if not self.holds(state):
            raise refused(f"{changed} {self._again}", "ROWS_CHANGED")

    def holds(self, state: Any) -> bool:
        """Whether the rows are as they were shown."""
        return any(constant_time_compare(self._state_code, code) for code in _codes("state", self.nonce, digest(state)))


def issue(exchange: Exchange, what: Any, state: Any) -> str:
    """The token for a change. ``what`` names it, and ``state`` the rows that it is for: JSON values."""
    date = int(time.time()) + SECONDS
    head = date.to_bytes(_DATE, "big") + secrets.token_bytes(_NONCE)
    nonce = _text(head)
    rows = next(_codes("state", nonce, digest(state)))
    call = next(_codes("call", nonce, _binding(exchange, what, rows)))
    exchange.usage.confirm = _text(head + call + rows)
    return exchange.usage.confirm


def read(exchange: Exchange, what: Any, token: str, *, again: str) -> Confirmation:
    """What a token confirms. Raises ToolError if it is not a valid one of this principal for this very call.

    ``again`` says how to get another one.
    """
    try:
        held = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (binascii.Error, ValueError):
        held = b""
    head, call, rows = held[: _DATE + _NONCE], held[_DATE + _NONCE : -_CODE], held[-_CODE:]
    nonce = _text(head)
    # Other texts decode to the same bytes, but only one text is the token.
    is_whole = len(held) == _DATE + _NONCE + 2 * _CODE and _text(held) == token
    known = _codes("call", nonce, _binding(exchange, what, rows))
    if not is_whole or not any(constant_time_compare(call, code) for code in known):
        raise refused(f"This is no token for this call. {again}")
    if int.from_bytes(head[:_DATE], "big") < time.time():
        raise refused(f"This token has expired. {again}", "CONFIRM_EXPIRED")
    return Confirmation(nonce, rows, again)


def refused(message: str, reason: str = "CONFIRM_INVALID") -> ToolError:
    return ToolError("Nothing was changed.", [field_error("confirm", message)], reason=reason)


def _binding(exchange: Exchange, what: Any, rows: bytes) -> str:
    """What the first code covers: the caller, the call and the second code."""
    return digest([exchange.site.name, exchange.principal.key, exchange.principal.lineage, what, rows.hex()])


def _codes(kind: str, nonce: str, text: str) -> Iterator[bytes]:
    """The code of a text by the present secret key, and by each that may still be valid."""
    return (mac[:_CODE] for mac in macs(f"{_SALT}:{kind}", nonce + text))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
