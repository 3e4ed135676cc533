"""Challenges, without what they say of logging in: that has tests of its own, in ``tests/oauth``."""

from __future__ import annotations

#: What a caller without credentials reads.
NEEDED = "Credentials are needed: send Authorization: Bearer <token>. Log in as WWW-Authenticate says."


def own_part(challenge: str) -> str:
    """The part of WWW-Authenticate that does not depend on which apps are installed."""
    return challenge.partition(", resource_metadata=")[0]
