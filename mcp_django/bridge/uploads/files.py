"""Files as the functions and the forms of a project receive them: an upload, read from the storage when it is used."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile
from django.urls import NoReverseMatch, reverse

from mcp_django.bridge.uploads import upload_rows
from mcp_django.conf import get_conf
from mcp_django.exceptions import ToolError
from mcp_django.exchange.audience import origin
from mcp_django.models import Upload

if TYPE_CHECKING:
    from datetime import datetime

    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest

SCHEME = "upload://"
#: The error for an upload that is not there, for the caller.
NO_UPLOAD = "is no upload:// of yours that is complete and has not expired"
#: Bytes that are copied at a time.
_CHUNK = 262_144


class StoredUpload(UploadedFile):  # type: ignore[type-arg]
    """An upload that acts like Django's TemporaryUploadedFile: a copy on this machine's disk, made when first used.

    The copy has a path, supports ``seek``, and is deleted when it is closed. Making it raises ToolError where the
    stored files are gone.
    """

    def __init__(self, upload: Upload) -> None:
        self.upload = upload
        self._copy: Any = None
        super().__init__(None, upload.name, upload.content_type, upload.size)

    @property
    def uri(self) -> str:
        return self.upload.uri

    @property
    def file(self) -> IO[bytes]:
        """The copy. Raises ToolError where the stored files are gone."""
        if self._copy is None:
            self._copy = self._copied()
        return self._copy  # type: ignore[no-any-return]

    @file.setter
    def file(self, value: Any) -> None:
        """As Django's File sets it."""
        self._copy = value

    def fetch(self) -> None:
        """Make the copy now. Raises ToolError."""
        _ = self.file

    def temporary_file_path(self) -> str:
        """The path of the copy. A storage on the same disk moves the copy instead of writing it again."""
        return self.file.name

    def open(self, mode: str | None = None, *args: Any, **kwargs: Any) -> Self:
        """Go back to the first byte. Raises ValueError once closed: Django would open any file of that name."""
        if self.closed:
            raise ValueError("The file cannot be reopened.")
        self.seek(0)
        return self

    def close(self) -> None:
        copy = self._copy
        if copy is not None:
            with contextlib.suppress(FileNotFoundError):  # It was moved.
                copy.close()

    @property
    def closed(self) -> bool:
        return self._copy is not None and self._copy.closed

    def _copied(self) -> IO[bytes]:
        suffix = Path(self.upload.name).suffix
        copy: Any = tempfile.NamedTemporaryFile(  # noqa: SIM115 - closed with this file
            suffix=f".upload{suffix}", dir=settings.FILE_UPLOAD_TEMP_DIR
        )
        try:
            for part in upload_rows.parts_of(self.upload).filter(is_there=True):
                with upload_rows.storage().open(part.stored, "rb") as stored:
                    while chunk := stored.read(_CHUNK):
                        copy.write(chunk)
            copy.flush()
            if copy.tell() != self.upload.size:
                raise FileNotFoundError(self.upload.name)
        except FileNotFoundError:
            copy.close()
            raise ToolError(f"The file of {self.uri} is gone. Upload it again.", reason="NO_UPLOAD") from None
        except BaseException:
            copy.close()
            raise
        copy.seek(0)
        return copy  # type: ignore[no-any-return]


def open_upload(exchange: Exchange, uri: str) -> StoredUpload:
    """The file of an upload of the caller, which is closed when the call ends. Raises LookupError.

    An upload of somebody else, an incomplete one and an expired one count as not existing.
    """
    key = uri.removeprefix(SCHEME) if uri.startswith(SCHEME) else ""
    found = upload_rows.find(exchange.site, exchange.principal, key)
    if found is None or not found.is_complete:
        raise LookupError(uri)
    file = StoredUpload(found)
    exchange.files.append(file)
    return file


def how_to_upload(request: MCPRequest) -> str:
    """How an agent with a shell uploads a file, with the URL of the request's site as its client knows it."""
    if not get_conf().MAX_UPLOAD_BYTES:
        return "upload://…, but uploads are switched off."
    site, url = getattr(request.mcp, "site", None), "/mcp/upload"
    # On stdio, the URLs may be served by nobody.
    with contextlib.suppress(NoReverseMatch):
        url = reverse("mcp_django:uploads", current_app=None if site is None else site.name)
        prefix = request.META.get("SCRIPT_NAME", "")
        # Ahead of Django's handler, nobody has told reverse() of the prefix.
        url = url if url.startswith(f"{prefix}/") else f"{prefix}{url}"
        url = f"{origin(request)}{url}"
    return (
        f"upload://…, which is the answer to: curl -H 'Authorization: Bearer TOKEN' -H 'Content-Type: TYPE' "
        f"--data-binary @FILE '{url}?name=FILE'"
    )


def keep_files(exchange: Exchange, until: datetime) -> None:
    """Keep the uploads that the call has opened until then, since its change may be made later."""
    for file in exchange.files:
        if isinstance(file, StoredUpload):
            upload_rows.keep(file.upload, until)
