"""The numbers and names of the protocol are those of the official package of types."""

from __future__ import annotations

import mcp_types
from mcp_types import jsonrpc, version

from mcp_django import exceptions
from mcp_django.protocol import envelope, revisions


def test_each_error_code_is_the_official_one() -> None:
    ours = {name: code for name, code in vars(exceptions).items() if type(code) is int and code < 0}

    assert ours == {name: getattr(jsonrpc, name) for name in ours}
    assert len(ours) == 8


def test_each_key_of_meta_is_the_official_one() -> None:
    ours = {name: key for name, key in vars(envelope).items() if name.endswith("_META_KEY")}

    assert ours == {name: getattr(mcp_types, name) for name in ours}
    assert len(ours) == 5


def test_the_revisions_and_their_eras_are_the_official_ones() -> None:
    assert revisions.REVISIONS == version.KNOWN_PROTOCOL_VERSIONS
    assert revisions.LEGACY_REVISIONS == version.HANDSHAKE_PROTOCOL_VERSIONS
    assert revisions.MODERN_REVISIONS == version.MODERN_PROTOCOL_VERSIONS
