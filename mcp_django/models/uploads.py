"""Files that clients have sent, until a tool or a form takes them or their time is over."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _

#: Characters of the name of a file, and of its type.
MAX_NAME = 100
MAX_TYPE = 100


class Upload(models.Model):
    """A file of one credential line. Its bytes are in the storage, as parts in their order."""

    key = models.CharField(max_length=43, primary_key=True)
    site = models.CharField(max_length=50)
    #: The user, whose uploads are counted together, and the credential line that alone may name this one.
    principal_key = models.CharField(max_length=100)
    line = models.CharField(max_length=100)
    name = models.CharField(max_length=MAX_NAME)
    content_type = models.CharField(max_length=MAX_TYPE)
    #: The bytes that are there, and those of the whole file: null as long as the client has not said how many.
    size = models.BigIntegerField(default=0)
    total = models.BigIntegerField(null=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("upload")
        verbose_name_plural = _("uploads")
        indexes = [models.Index(fields=["principal_key", "expires_at"], name="mcp_django_upload_owner")]

    def __str__(self) -> str:
        return f"{self.name} of {self.principal_key}"

    @property
    def uri(self) -> str:
        return f"upload://{self.key}"

    @property
    def is_complete(self) -> bool:
        return self.size == self.total


class UploadPart(models.Model):
    """A stored file that holds bytes of an upload, or that a request was about to store when its process ended."""

    upload = models.ForeignKey(Upload, models.CASCADE, related_name="parts")
    #: The offset of its first byte in the upload, and the number of its bytes.
    start = models.BigIntegerField()
    size = models.BigIntegerField()
    #: Its name in the storage.
    stored = models.CharField(max_length=255)
    is_there = models.BooleanField(default=False)

    class Meta:
        verbose_name = _("part of an upload")
        verbose_name_plural = _("parts of uploads")
        ordering = ["start"]

    def __str__(self) -> str:
        return f"{self.upload_id} from {self.start}"
