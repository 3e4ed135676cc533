"""Names that every client takes."""

from __future__ import annotations

import re

#: What every client takes for the name of a tool, and of a prompt.
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
