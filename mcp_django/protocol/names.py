"""Names that every client accepts."""

from __future__ import annotations

import re

#: Every client accepts such a name for a tool and for a prompt.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
