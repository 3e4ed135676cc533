"""Results of tools that are too long for a message of their connection: cut in parts, which are read as resources.

A client that gets an event or a frame of 1 MiB gives its connection up, so the answer holds the first part and names
the others. They are kept in the database, for whichever process is asked for them, and bound to the caller.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from django.utils import timezone
from pydantic_core import from_json

from mcp_django.conf import MAX_MESSAGE_BYTES, get_conf
from mcp_django.protocol.jsonrpc import encode
from mcp_django.resources.function import contents
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange


SCHEME = "result"
_URI = re.compile(rf"{SCHEME}://([0-9a-f]{{32}})/([1-9][0-9]{{0,4}})")
#: Of a part as JSON; what stands around it has the rest of a message.
_PART_BYTES = MAX_MESSAGE_BYTES - 100_000
#: Results of one principal that are kept.
_MAX_KEPT = 20


def cut(exchange: Exchange, result: JSON, seconds: int | None = None) -> JSON:
    """The result with its first part, and with where the others are for so many seconds; None: as the setting says.

    The parts of a text are the text. Those of any other result are its JSON, and an error: what the tool's output
    schema promises is not there.
    """
    text, mime_type = _text_of(result)
    first, *others = _split(text)
    seconds = get_conf().RESULT_SECONDS if seconds is None else seconds
    key = _keep(exchange, others, mime_type, seconds)
    uris = [f"{SCHEME}://{key}/{number}" for number in range(2, len(others) + 2)]
    where = f"{uris[0]} to {uris[-1]}" if len(uris) > 1 else uris[0]
    notice = (
        f"The result is too long for one message, and this is part 1 of {len(uris) + 1}. The tool has done its work: "
        f"do not call it again. Read the resources {where} within {seconds} seconds."
    )
    links = [
        {"type": "resource_link", "uri": uri, "name": f"part {number}", "mimeType": mime_type}
        for number, uri in enumerate(uris, 2)
    ]
    is_error = result["isError"] or "structuredContent" in result
    texts = [{"type": "text", "text": text} for text in (first, notice)]
    return {"content": [*texts, *links], "isError": is_error}


def read(exchange: Exchange, uri: str) -> JSON | None:
    """The contents of a part; None if there is none for this principal."""
    from mcp_django.models import ResultPart

    match = _URI.fullmatch(uri)
    if match is None:
        return None
    mine = ResultPart.objects.filter(site=exchange.site.name, principal_key=exchange.principal.key)
    part = mine.filter(key=match[1], number=int(match[2]), expires_at__gt=timezone.now()).first()
    return None if part is None else contents(uri, part.mime_type, from_json(part.text))


def _text_of(result: JSON) -> tuple[str, str]:
    """What is cut, and its media type."""
    content = result["content"]
    if len(content) == 1 and content[0]["type"] == "text":
        return content[0]["text"], "application/json" if "structuredContent" in result else "text/plain"
    whole = {key: result[key] for key in ("content", "structuredContent") if key in result}
    return encode(whole).decode(), "application/json"


def _split(text: str) -> Iterator[str]:
    start = 0
    while start < len(text):
        size = _PART_BYTES
        # An escape makes up to six bytes of a character.
        while (written := len(encode(text[start : start + size]))) > _PART_BYTES + 2:
            size = min(size, len(text) - start) * _PART_BYTES // written
        yield text[start : start + size]
        start += size


def _keep(exchange: Exchange, texts: list[str], mime_type: str, seconds: int) -> str:
    """Store the parts from the second on, and return their key; those whose time is over are cleared away."""
    from mcp_django.models import ResultPart

    now = timezone.now()
    ResultPart.objects.filter(expires_at__lte=now).delete()
    key, principal_key = secrets.token_hex(16), exchange.principal.key
    expires_at = now + timedelta(seconds=seconds)
    ResultPart.objects.bulk_create(
        (
            ResultPart(
                key=key,
                number=number,
                site=exchange.site.name,
                principal_key=principal_key,
                mime_type=mime_type,
                # As JSON, since not every database holds every character.
                text=encode(text).decode(),
                expires_at=expires_at,
            )
            for number, text in enumerate(texts, 2)
        ),
        # A statement is not to grow with the result.
        batch_size=1,
    )
    kept = ResultPart.objects.filter(site=exchange.site.name, principal_key=principal_key, number=2)
    surplus = list(kept.order_by("-expires_at").values_list("key", flat=True)[_MAX_KEPT:])
    if surplus:
        ResultPart.objects.filter(key__in=surplus).delete()
    return key
