"""The rows of uploads, and the stored files that they name.

Storages cannot append, so the bytes of each request are one stored file: a part. A part counts once a conditional
UPDATE has moved the size of its upload, so that of two requests with the same bytes only one takes effect. The row of a
part is written before its file: whatever ends the process, the files of an upload are deleted with it.
"""

from __future__ import annotations

import logging
import re
import secrets
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import IO, TYPE_CHECKING

from django.core.files import File
from django.core.files.storage import InvalidStorageError, Storage, default_storage, storages
from django.db import DatabaseError, IntegrityError, router, transaction
from django.db.models import QuerySet
from django.utils import timezone

from mcp_django.access.held import held_files
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.models import Upload, UploadPart
from mcp_django.protocol.errors import LimitExceeded, Throttled

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")

#: How long an upload is kept after the last bytes of it have come.
SECONDS = 3_600
#: Requests by which one upload may come.
MAX_PARTS = 1_000
#: The alias in STORAGES of the storage for uploads, where the project has one.
ALIAS = "mcp_uploads"
_FOLDER = "mcp_uploads"
_KEY = re.compile(r"[A-Za-z0-9_-]{43}")
#: Expired uploads that are deleted at a time.
_AT_ONCE = 20


class StorageFailed(MCPError):
    """The storage of uploads did not take a file."""

    reason = "STORAGE_FAILED"
    http_status = HTTPStatus.SERVICE_UNAVAILABLE

    def __init__(self) -> None:
        super().__init__("The file could not be stored. The server's log has the details. Try again later.")


def alias() -> str:
    """The database of uploads. A replica may not know yet of one that has just come."""
    return router.db_for_write(Upload)


def storage() -> Storage:
    """The storage that uploads are in: ``STORAGES["mcp_uploads"]``, or else the default one."""
    try:
        return storages[ALIAS]
    except InvalidStorageError:
        return default_storage


# Uploads.


def begin(site: Site, principal: Principal, name: str, media_type: str, total: int | None) -> Upload:
    """A new upload without bytes. Raises Throttled where its user has too many."""
    sweep()
    now = timezone.now()
    upload = Upload.objects.create(
        key=secrets.token_urlsafe(32), site=site.name, principal_key=principal.key, line=principal.lineage, name=name,
        content_type=media_type, total=total, created_at=now, expires_at=_end(now),
    )  # fmt: skip
    # Counted with the new one: uploads that begin at the same time see each other, so none gets past the limit.
    mine = Upload.objects.using(alias()).filter(principal_key=principal.key, expires_at__gt=now)
    limit = get_conf().MAX_UPLOADS
    if mine.count() > limit:
        upload.delete()
        first = mine.order_by("expires_at").values_list("expires_at", flat=True).first()
        told = f"You have {limit} uploads (MAX_UPLOADS). Delete one, or wait until one expires."
        raise Throttled(told, _seconds_until(first or now), "MAX_UPLOADS", "uploads")
    return upload


def find(site: Site, principal: Principal, key: str) -> Upload | None:
    """The upload with this key, if it belongs to the credential line of the principal and has not expired."""
    if principal.user.pk is None or not _KEY.fullmatch(key):
        return None
    found = Upload.objects.using(alias()).filter(pk=key, expires_at__gt=timezone.now()).first()
    # The key is compared once more, since some databases ignore the case of letters.
    return found if found is not None and found.key == key and is_of(found, site, principal) else None


def is_of(upload: Upload, site: Site, principal: Principal) -> bool:
    return (upload.site, upload.principal_key, upload.line) == (site.name, principal.key, principal.lineage)


def parts_of(upload: Upload) -> QuerySet[UploadPart]:
    """The parts in their order, with those that do not count."""
    return UploadPart.objects.using(alias()).filter(upload=upload)


def keep(upload: Upload, until: datetime) -> None:
    """Extend the upload's life, because a change or a task that runs later refers to it."""
    Upload.objects.using(alias()).filter(pk=upload.pk, expires_at__lt=until).update(expires_at=until)


def add(upload: Upload, start: int, file: IO[bytes], size: int) -> bool:
    """Store bytes of an upload that begin at ``start``. False if other bytes came there first, or it has expired.

    Raises LimitExceeded for too many parts, and StorageFailed.
    """
    if parts_of(upload).count() >= MAX_PARTS:
        raise LimitExceeded(f"An upload comes in at most {MAX_PARTS} parts. Begin again with larger ones.")
    try:
        with transaction.atomic(using=alias()):
            part = upload.parts.create(start=start, size=size, stored=f"{_FOLDER}/{secrets.token_hex(32)}")
    except IntegrityError:
        return False  # It was deleted while the bytes came.
    is_added = False
    try:
        part.stored = _save(part.stored, file)
        is_added = _append(upload, part)
    finally:
        if not is_added:
            _delete_part(part)
    return is_added


def _save(name: str, file: IO[bytes]) -> str:
    """Store a file, and give the name that the storage gives it. Raises StorageFailed."""
    try:
        return storage().save(name, File(file))
    except Exception as error:
        logger.exception("The storage of uploads failed")
        raise StorageFailed from error


def _append(upload: Upload, part: UploadPart) -> bool:
    now, size = timezone.now(), part.start + part.size
    total = size if upload.total is None else upload.total
    with transaction.atomic(using=alias()):
        known = Upload.objects.using(alias()).filter(pk=upload.pk, size=part.start, expires_at__gt=now)
        if not known.update(size=size, total=total, expires_at=_end(now)):
            return False
        part.is_there = True
        part.save(update_fields=["stored", "is_there"])
    upload.size, upload.total, upload.expires_at = size, total, _end(now)
    return True


# Deleting.


def delete(upload: Upload) -> None:
    """Delete an upload with its files. Raises nothing: what is left is deleted once the upload has expired."""
    try:
        # From now on nobody finds it, whatever the storage does.
        Upload.objects.using(alias()).filter(pk=upload.pk).update(expires_at=timezone.now())
        parts = [_delete_part(part) for part in parts_of(upload)]
        if all(parts):
            upload.delete()
    except DatabaseError:
        logger.exception("An upload could not be deleted; trying again once it has expired")


def sweep() -> None:
    """Delete the uploads that have expired and that no pause holds, a batch of them."""
    expired = Upload.objects.using(alias()).filter(~held_files(), expires_at__lte=timezone.now()).order_by("expires_at")
    for upload in list(expired[:_AT_ONCE]):
        delete(upload)


def _delete_part(part: UploadPart) -> bool:
    """Delete the file of a part, and the part. False if the storage fails."""
    try:
        storage().delete(part.stored)
    except Exception:
        logger.exception("A file of an upload could not be deleted; trying again once the upload has expired")
        return False
    UploadPart.objects.using(alias()).filter(pk=part.pk).delete()
    return True


def _end(now: datetime) -> datetime:
    return now + timedelta(seconds=SECONDS)


def _seconds_until(moment: datetime) -> int:
    return max(1, int((moment - timezone.now()).total_seconds()) + 1)
