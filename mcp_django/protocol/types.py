"""The type that every package uses. Imports nothing of ours."""

from __future__ import annotations

from typing import Any

#: A JSON object.
JSON = dict[str, Any]
