"""Settings of the server under test: small, so that small input meets them."""

from __future__ import annotations

from typing import Any

LIMITS: dict[str, Any] = {
    "LIST_PAGE": 3, "MAX_SESSIONS": 12, "MAX_BODY_BYTES": 100_000, "MAX_SUBSCRIPTIONS": 5,
    "MAX_IN_FLIGHT": 8, "SWEEP_SECONDS": 1.0, "QUESTION_SECONDS": 0.3,
}  # fmt: skip
