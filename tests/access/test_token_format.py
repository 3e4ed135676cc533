"""The plain text of a token: its form, and the checksum that secret scanners verify."""

from __future__ import annotations

import re
import zlib

import pytest

from mcp_django.exchange.token_format import is_well_formed, new_token

#: As the documentation gives it to secret scanners.
DOCUMENTED = r"\bmcpdj_([0-9A-Za-z]{43})([0-9A-Za-z]{6})\b"
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_a_scanner_can_verify_a_token_by_what_is_documented() -> None:
    found = re.search(DOCUMENTED, f"Authorization: Bearer {new_token()}\n")

    assert found is not None
    value = 0
    for digit in found[2]:
        value = value * 62 + DIGITS.index(digit)
    assert value == zlib.crc32(found[1].encode())


def test_a_known_token_keeps_its_checksum() -> None:
    assert is_well_formed("mcpdj_" + "0" * 43 + "2CZclj")


@pytest.mark.parametrize("kind", [str, bytes])
def test_a_token_is_well_formed_as_text_and_as_bytes(kind: type) -> None:
    token = new_token()

    assert is_well_formed(token if kind is str else token.encode())
    assert not is_well_formed(token[1:] if kind is str else token[1:].encode())


def test_a_token_of_before_the_checksum_is_well_formed() -> None:
    assert is_well_formed("mcp_" + "aZ0_-" * 8 + "abc")


def test_tokens_are_different() -> None:
    assert len({new_token() for _ in range(100)}) == 100


@pytest.mark.parametrize("at", [6, 20, 48, 49, 54])
def test_a_token_with_one_wrong_character_is_refused(at: int) -> None:
    token = new_token()
    wrong = "b" if token[at] == "a" else "a"

    assert not is_well_formed(token[:at] + wrong + token[at + 1 :])


@pytest.mark.parametrize(
    "text",
    ["", "mcp_", "mcpdj_", "mcp_" + "a" * 42, "mcp_" + "a" * 44, "mcp_" + "ä" * 43, "MCP_" + "a" * 43,
     "mcp_" + "a" * 43 + "\n", " mcp_" + "a" * 43, "ghp_" + "a" * 43, "mcp_" + "a" * 42 + "\ud800",
     "mcp_" + "a" * 42 + "\0"],
)  # fmt: skip
def test_a_text_of_another_form_is_refused(text: str) -> None:
    assert not is_well_formed(text)
