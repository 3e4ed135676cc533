"""``POST /mcp/upload`` and ``PUT /mcp/upload/ID``: files, for arguments of tools and fields of forms to name by a URI.

This is ours and no part of MCP. The body is the file itself. With Content-Range it comes in parts, each of which goes
on where the last one ended (RFC 9110 §14.4). A part that breaks off does not count.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from contextlib import suppress
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from mcp_django.access import pauses
from mcp_django.access.authentication import CHALLENGE, authenticate
from mcp_django.access.throttling import throttles
from mcp_django.bridge.uploads import names, upload_rows
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.errors import InternalError, Overloaded, Unauthenticated
from mcp_django.protocol.jsonrpc import encode
from mcp_django.server import trail
from mcp_django.server.uploads import check_takes_files
from mcp_django.transports.http.base import View
from mcp_django.transports.http.formats import JSON_FORMAT
from mcp_django.transports.http.incoming import BodyOfLoop, ClientLeft
from mcp_django.transports.http.messages import HTTPError, HTTPResponse
from mcp_django.transports.http.receiving import (
    SEND,
    ContentRange,
    Reception,
    range_of,
    read_body,
    too_long,
    wrong_range,
)

if TYPE_CHECKING:
    from mcp_django.models import Upload

logger = logging.getLogger("mcp_django")

_MAX_FIELDS = 20


def accepts_uploads() -> bool:
    return get_conf().MAX_UPLOAD_BYTES > 0


class _ReceivingView(View):
    """Takes the body of a request into the storage, after the checks of its head."""

    reads_as_it_comes = True
    cors_request_headers = f"{View.cors_request_headers}, Content-Range"
    cors_exposed_headers = f"{View.cors_exposed_headers}, Location, Range"

    def __post_init__(self) -> None:
        super().__post_init__()
        #: The answer is no message, and only messages have other formats.
        self.format = JSON_FORMAT
        self._reception: Reception | None = None

    @abstractmethod
    def begin(self, principal: Principal) -> Reception | HTTPResponse:
        """What the body goes into, or the response where there is none to read. Raises MCPError."""

    # The way of a request.

    async def respond_on_loop(self) -> HTTPResponse:
        """The response, once the loop has read the body. Raises ClientLeft."""
        response = await super().respond_on_loop()
        reception, body = self._reception, self.http.incoming
        if reception is None or not isinstance(body, BodyOfLoop):
            return response
        try:
            await read_body(reception, body, self.request.mcp.principal.key)
            run = get_workers().run
            return await run(self.respond_by, self._store, principal_key=self.principal_key or "")
        except Exception as error:
            with suppress(Overloaded):  # It expires by itself.
                await get_workers().run(self._give_up)
            if isinstance(error, ClientLeft):
                raise
            return self.refuse(_refusal_of(error))
        finally:
            reception.close()

    def handle(self, principal: Principal) -> HTTPResponse:
        self.request.for_principal(principal, self.site)
        with self.site.in_context(self.request):
            found = self._begin(principal)
        if isinstance(found, HTTPResponse):
            return found
        self._reception, body = found, self.http.incoming
        if body is None or isinstance(body, BodyOfLoop):
            return HTTPResponse(HTTPStatus.CONTINUE)  # Not written: see respond_on_loop.
        try:
            for chunk in body.chunks():
                found.write(chunk)
        except MCPError:
            self._give_up()
            raise
        except Exception as error:
            self._give_up()
            raise _refusal_of(error) from error
        return self._store()

    def _begin(self, principal: Principal) -> Reception | HTTPResponse:
        if principal.user.pk is None:
            raise Unauthenticated("An upload needs a token: send Authorization: Bearer <token>.", CHALLENGE)
        check_takes_files(self.site, self.request)
        throttles.admit(principal, self.request)
        return self.begin(principal)

    def _store(self) -> HTTPResponse:
        """Give the body to the storage. Whatever is raised, nothing of it is left."""
        reception = self._reception
        if reception is None:
            raise TypeError("There is no body.")
        is_stored = False
        try:
            # The body may have taken an hour to come.
            principal = authenticate(self.request, fresh=True)
            pauses.check(self.site, principal)
            self.request.for_principal(principal, self.site)
            with self.site.in_context(self.request):
                reception.finish()
                if not upload_rows.is_of(reception.upload, self.site, principal):
                    raise _unknown()
                is_stored = upload_rows.add(reception.upload, reception.start, reception.file, reception.size)
                if not is_stored:
                    there = upload_rows.find(self.site, principal, reception.upload.key)
                    raise _unknown() if there is None else wrong_range(there)
        finally:
            if is_stored:
                reception.close()
            else:
                self._give_up()
        trail.upload(self.site, self.request, principal, reception.size)
        return self.answer(reception.upload)

    def _give_up(self) -> None:
        """Delete what has come of the body."""
        reception = self._reception
        if reception is not None:
            reception.close()
            if reception.is_new:
                with self.site.in_context(self.request):
                    upload_rows.delete(reception.upload)

    # The head of a request, and the response.

    @property
    def length(self) -> int | None:
        """What Content-Length says, if there is one. Raises HTTPError."""
        given = str(self.request.META.get("CONTENT_LENGTH") or "")
        if given.isascii() and given.isdigit():
            length = int(given[:20])
            if length > get_conf().MAX_UPLOAD_BYTES:
                raise too_long()
            return length
        if self.http.incoming is None or not self.http.incoming.needs_length:
            return None
        self.check_length()
        return 0

    @property
    def content_range(self) -> ContentRange | None:
        """Raises HTTPError."""
        header = self.http.headers.get("content-range")
        if header is None:
            return None
        found = ContentRange.read(header)
        if found.total > get_conf().MAX_UPLOAD_BYTES:
            raise too_long()
        if self.length not in (None, found.length):
            raise HTTPError(HTTPStatus.BAD_REQUEST, "Content-Length and Content-Range differ.")
        return found

    def check_encoding(self) -> None:
        """Raises HTTPError for a body that is not the file itself."""
        media_type = self.request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if media_type.startswith("multipart/"):
            raise HTTPError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send no form. {SEND}")
        if (self.http.headers.get("content-encoding") or "identity").lower() != "identity":
            raise HTTPError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Send the file without Content-Encoding.")

    def answer(self, upload: Upload) -> HTTPResponse:
        """What is known of an upload: 201 where it is complete, 202 where more of it must come."""
        described = {"uri": upload.uri, "name": upload.name, "mimeType": upload.content_type, "size": upload.size}
        if not upload.is_complete:
            described["total"] = upload.total
        described["expiresAt"] = upload.expires_at.isoformat()
        status = HTTPStatus.CREATED if upload.is_complete else HTTPStatus.ACCEPTED
        path = self.request.path.rstrip("/").removesuffix(f"/{upload.key}")
        headers = {"Location": f"{path}/{upload.key}", **({} if upload.is_complete else range_of(upload))}
        return HTTPResponse.json(encode(described), status, headers)


class NewUploadView(_ReceivingView):
    """``POST /mcp/upload?name=FILE``: a file, or the first part of one."""

    hint = f"Use POST. {SEND}"

    def begin(self, principal: Principal) -> Reception | HTTPResponse:
        self.check_encoding()
        name, media_type = self._named()
        if not names.is_accepted(get_conf().UPLOAD_TYPES, media_type, name):
            types = ", ".join(get_conf().UPLOAD_TYPES)
            raise HTTPError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Files of these types can be uploaded: {types}.")
        part = self.content_range
        start, length, total = (0, self.length, None) if part is None else (part.start, part.length, part.total)
        if start or total == 0 or (part is None and length == 0):
            raise HTTPError(HTTPStatus.BAD_REQUEST, f"A new upload begins with the first byte of a file. {SEND}")
        upload = upload_rows.begin(self.site, principal, name, media_type, total)
        if length == 0:
            return self.answer(upload)
        return Reception(upload, 0, length, is_new=True)

    def _named(self) -> tuple[str, str]:
        """The name of the file, from the URL, and its media type."""
        query = str(self.request.META.get("QUERY_STRING", "")).encode("latin-1", "replace").decode("utf-8", "replace")
        try:
            given = parse_qs(query, max_num_fields=_MAX_FIELDS).get("name", [""])[0]
        except ValueError:
            given = ""
        content_type = self.request.META.get("CONTENT_TYPE", "")
        name = names.file_name(given, names.media_type(content_type, given))
        return name, names.media_type(content_type, name)


class UploadView(_ReceivingView):
    """``PUT /mcp/upload/ID``: the next part, or with ``bytes */TOTAL`` how much is there. DELETE takes it away."""

    methods = ("PUT", "DELETE")
    hint = "Use PUT with Content-Range, or DELETE."

    def begin(self, principal: Principal) -> Reception | HTTPResponse:
        upload = upload_rows.find(self.site, principal, self.request.path.rstrip("/").rpartition("/")[2])
        if upload is None:
            raise _unknown()
        if self.http.method == "DELETE":
            upload_rows.delete(upload)
            return HTTPResponse(HTTPStatus.NO_CONTENT)
        self.check_encoding()
        part = self.content_range
        if part is None:
            raise HTTPError(HTTPStatus.BAD_REQUEST, "Send Content-Range: bytes FIRST-LAST/TOTAL.")
        if part.total != upload.total or (part.length and part.start != upload.size):
            raise wrong_range(upload)
        return Reception(upload, part.start, part.length, is_new=False) if part.length else self.answer(upload)


def _unknown() -> HTTPError:
    return HTTPError(HTTPStatus.NOT_FOUND, "There is no such upload of yours. It may have expired.")


def _refusal_of(error: Exception) -> MCPError:
    """The error for a body that could not be read or kept."""
    if isinstance(error, MCPError):
        return error
    if isinstance(error, ClientLeft):
        return HTTPError(HTTPStatus.BAD_REQUEST, "The body has not come to its end.")
    if isinstance(error, TimeoutError):
        return HTTPError(HTTPStatus.REQUEST_TIMEOUT, "The body took too long to come.", {"Connection": "close"})
    logger.error("An upload could not be kept", exc_info=error)
    return upload_rows.StorageFailed() if isinstance(error, OSError) else InternalError()
