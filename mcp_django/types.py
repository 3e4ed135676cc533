"""Types that many rooms name. Imports nothing of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import models

if TYPE_CHECKING:
    AnyField = models.Field[Any, Any]
else:
    AnyField = models.Field

#: A JSON object.
JSON = dict[str, Any]
