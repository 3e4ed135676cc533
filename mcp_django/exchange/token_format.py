"""The plain text of an access token, which secret scanners can recognise and verify without asking this server.

A token is ``mcpdj_``, 43 random characters of base62, and six more: their CRC-32 in base62, the most significant digit
first. So a text that only looks like a token is refused before any query, and a scanner reports no false finds.
"""

from __future__ import annotations

import re
import secrets
from zlib import crc32

PREFIX = "mcpdj_"
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: 62 ** 43 is more than 2 ** 256.
_RANDOM_LENGTH = 43
#: 62 ** 6 is more than 2 ** 32.
_CHECKSUM_LENGTH = 6
_TOKEN = re.compile(rb"mcpdj_([0-9A-Za-z]{43})([0-9A-Za-z]{6})")
#: Tokens that were made before there was a checksum.
_OLD_TOKEN = re.compile(rb"mcp_[0-9A-Za-z_-]{43}")


def new_token() -> str:
    """The plain text of a new token, with 256 random bits."""
    random = "".join(secrets.choice(_DIGITS) for _ in range(_RANDOM_LENGTH))
    return f"{PREFIX}{random}{checksum(random.encode()).decode()}"


def is_well_formed(token: str | bytes) -> bool:
    """Whether the text has a token's form, and the right checksum where its form has one."""
    text = token if isinstance(token, bytes) else token.encode("ascii", "replace")
    found = _TOKEN.fullmatch(text)
    if found is None:
        return _OLD_TOKEN.fullmatch(text) is not None
    return found[2] == checksum(found[1])


def checksum(random: bytes) -> bytes:
    """The CRC-32 of the random part, as six digits of base62."""
    rest, digits = crc32(random), ""
    for _ in range(_CHECKSUM_LENGTH):
        rest, digit = divmod(rest, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits.encode()
