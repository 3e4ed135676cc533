"""Tokens with which an agent confirms an action on exactly the rows that it was told of.

A token is a nonce and a digest of the rows' keys, signed for the principal, the site, the tool and the filter. It is
valid for ten minutes, once. Nothing is stored until it is used.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core import signing

from mcp_django.access.nonces import claim
from mcp_django.exceptions import ToolError, field_error
from mcp_django.exchange.questions import digest
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

SECONDS = 600
#: Room for longer nonces and signatures than today's, of which a token has 89.
MAX_CHARS = 120

_SALT = "mcp_django.tools.confirmations"
_NONCE_BYTES, _NONCE_CHARS = 12, 16
_AGAIN = "Call again with the filter alone, and then with the token of that answer."


@dataclass(frozen=True, slots=True)
class Confirmation:
    """A valid token, which may have been used."""

    nonce: str
    _keys: str

    def claim(self) -> None:
        """Use it up. Raises ToolError if it was used, in whatever process."""
        if not claim(f"confirm:{self.nonce}", SECONDS):
            raise _refused("This token has been used already. See whether the action has run before you repeat it.")

    def check(self, keys: Iterable[Any]) -> None:
        """Raises ToolError if the rows are others than those that were shown."""
        now = list(keys)
        if not secrets.compare_digest(self._keys, _digest(self.nonce, now)):
            raise _refused(f"The rows have changed since: {len(now)} match now. {_AGAIN}")


def issue(exchange: Exchange, tool_name: str, conditions: JSON, keys: Iterable[Any]) -> str:
    """The token for an action on the rows of these keys, which the filter finds."""
    nonce = secrets.token_urlsafe(_NONCE_BYTES)
    return _signer(exchange, tool_name, conditions).sign(nonce + _digest(nonce, keys))


def read(exchange: Exchange, tool_name: str, conditions: JSON, token: str) -> Confirmation:
    """What a token confirms. Raises ToolError if it is not a valid one of this principal for this very call."""
    try:
        value = _signer(exchange, tool_name, conditions).unsign(token, max_age=SECONDS)
    except signing.SignatureExpired:
        raise _refused(f"This token has expired. {_AGAIN}") from None
    except (signing.BadSignature, ValueError):
        raise _refused(f"This is no token for this filter. {_AGAIN}") from None
    return Confirmation(value[:_NONCE_CHARS], value[_NONCE_CHARS:])


def _signer(exchange: Exchange, tool_name: str, conditions: JSON) -> signing.TimestampSigner:
    bound = digest([exchange.site.name, exchange.principal.line, tool_name, conditions])
    return signing.TimestampSigner(salt=f"{_SALT}:{bound}")


def _digest(nonce: str, keys: Iterable[Any]) -> str:
    named = "\n".join([nonce, *sorted(map(repr, map(str, keys)))])
    return base64.urlsafe_b64encode(hashlib.sha256(named.encode()).digest()[:16]).decode().rstrip("=")


def _refused(message: str) -> ToolError:
    return ToolError("Nothing was changed.", [field_error("confirm", message)])
