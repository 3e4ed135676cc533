"""Types that are the same everywhere: what JSON is, and the three arguments of an ASGI application. Imports nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

#: A JSON object.
JSON = dict[str, Any]

# The ASGI specification's names.
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
#: Any ASGI application: Django's types and Channels' differ in how they write the same three arguments.
Application = Callable[..., Awaitable[None]]
