"""The names and types of files as clients give them, made harmless."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Iterable
from pathlib import PurePosixPath

from django.core.exceptions import SuspiciousFileOperation
from django.utils.text import get_valid_filename

from mcp_django.models.uploads import MAX_NAME, MAX_TYPE

ANY_TYPE = "application/octet-stream"
#: The type that curl gives each body, unless it is told another one.
_OF_CURL = "application/x-www-form-urlencoded"
_MAX_SUFFIX = 20
_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*")


def file_name(given: str, media_type: str) -> str:
    """The name of a file without a path, dots at its ends, or characters that are not shown; never empty."""
    name = unicodedata.normalize("NFC", given.replace("\\", "/").rpartition("/")[2])
    name = "".join(char for char in name if char.isprintable()).strip(" .")
    # Disks count bytes, which are no fewer than characters, and something is added before and after.
    if len(name.encode()) > MAX_NAME:
        suffix = PurePosixPath(name).suffix
        suffix = suffix if suffix.isascii() and len(suffix) <= _MAX_SUFFIX else ""
        name = name.encode()[: MAX_NAME - len(suffix)].decode(errors="ignore") + suffix
    return name if _can_be_stored(name) else f"upload{mimetypes.guess_extension(media_type) or ''}"


def _can_be_stored(name: str) -> bool:
    """Whether anything is left of the name once a FileField stores it."""
    try:
        return bool(get_valid_filename(name))
    except SuspiciousFileOperation:
        return False


def media_type(content_type: str, name: str) -> str:
    """The media type that a Content-Type gives; where it gives no usable one, the type that the name suggests."""
    given = content_type.partition(";")[0].strip().lower()
    if given in ("", _OF_CURL) or len(given) > MAX_TYPE or not _TYPE.fullmatch(given):
        return _said_by(name) or ANY_TYPE
    return given


def is_media_range(value: object) -> bool:
    """Whether it is a media type, or stands for several, as "image/*"."""
    return isinstance(value, str) and _TYPE.fullmatch(value.lower().replace("*", "x")) is not None


def is_accepted(types: Iterable[str], given: str, name: str) -> bool:
    """Whether a file of the media type and of the name is of one of the types, as "image/png" or "image/*".

    The name counts too: what is stored under it later may be served as what it says.
    """
    wanted = [one.lower() for one in types]
    return not wanted or all(_is_among(wanted, one) for one in {given, _said_by(name) or given})


def _said_by(name: str) -> str | None:
    """The media type that the suffix says of a file, once a FileField stores it."""
    try:
        stored = get_valid_filename(name)
    except SuspiciousFileOperation:
        return None
    # Alone, since a whole name may be read as a URL.
    return mimetypes.guess_type(f"x{PurePosixPath(stored).suffix}")[0]


def _is_among(wanted: Iterable[str], given: str) -> bool:
    return not {given, f"{given.partition('/')[0]}/*", "*/*"}.isdisjoint(wanted)
