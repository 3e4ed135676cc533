"""File fields of forms take uploads: checked as in the admin, for the preview and when the change is made."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django import forms
from django.contrib.admin import ModelAdmin
from django.core.exceptions import ValidationError
from django.core.validators import FileExtensionValidator
from django.utils import timezone
from PIL import Image

from mcp_django import ModelMCP
from mcp_django.bridge.changes.row_names import NOTHING
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import Change, Upload
from mcp_django.server import waiting_changes
from tests.bridge.uploads.conftest import Uploader, assert_nothing_is_left, stored, uploaded
from tests.bridge.writes.conftest import ALL_SCOPES, Writer, errors_of
from tests.shop.models import Document, Product
from tests.support.data import Users, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers

pytestmark = pytest.mark.django_db

LARGE = b"0123456789abcdef" * 10_000


class DocumentForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = Document
        fields = ["name", "upload"]

    upload = forms.FileField(required=False, max_length=20, validators=[FileExtensionValidator(["txt", "png"])])

    def clean_upload(self) -> Any:
        upload = self.cleaned_data["upload"]
        if upload and upload.read(3) == b"bad":
            raise ValidationError("This file is bad.")
        return upload


@pytest.fixture
def media(declared: Declared, folder: Path, settings: Any) -> Path:
    declared.admin(Document, type("Admin", (ModelAdmin,), {"form": DocumentForm}))
    return Path(settings.MEDIA_ROOT)


@pytest.fixture
def root(writer: Callable[..., Writer], users: Users, media: Path) -> Writer:
    return writer(users.admin)


@pytest.fixture
def writer(users: Users) -> Callable[..., Writer]:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return Writer


def of_document(upload: Any, name: str = "a") -> dict[str, Any]:
    return {"model": "shop.document", "values": {"name": name, "upload": upload}}


def test_a_new_record_takes_an_upload(root: Writer, media: Path) -> None:
    uri = uploaded(root.user, LARGE, "letter.txt").uri

    shown = root.ask("create_record", **of_document(uri))
    assert {"field": "upload", "before": None, "after": "letter.txt"} in shown["diff"]
    assert not media.exists(), "nothing is stored for a preview"
    root.ask("create_record", **of_document(uri), confirm=shown["confirm"])

    made = Document.objects.get()
    assert made.upload.name == "letter.txt" and made.upload.read() == LARGE


def test_an_upload_may_be_taken_twice(root: Writer) -> None:
    uri = uploaded(root.user, b"abc").uri

    root.confirmed("create_record", **of_document(uri, "a"))
    root.confirmed("create_record", **of_document(uri, "b"))

    assert [one.upload.read() for one in Document.objects.order_by("name")] == [b"abc", b"abc"]


def test_the_form_checks_the_file(root: Writer, media: Path) -> None:
    """By its validators, its own code, and its limits, as it does for a browser."""
    wrong = {
        uploaded(root.user, b"bad bytes").uri: "This file is bad.",
        uploaded(root.user, b"abc", "a.exe").uri: "File extension “exe” is not allowed",
        uploaded(root.user, b"abc", "a" * 30 + ".txt").uri: "at most 20 characters",
    }

    for uri, message in wrong.items():
        [(field, told)] = errors_of(root.refused("create_record", **of_document(uri)))
        assert field == "values.upload" and message in told
    assert not Document.objects.exists() and not media.exists()


def test_an_image_is_checked_by_pillow(root: Writer, declared: Declared) -> None:
    form = type("Form", (DocumentForm,), {"upload": forms.ImageField(required=False)})
    declared.admin(Document, type("Admin", (ModelAdmin,), {"form": form}))
    drawn = io.BytesIO()
    Image.new("RGB", (2, 2)).save(drawn, "PNG")

    told = root.refused("create_record", **of_document(uploaded(root.user, b"<svg>", "a.png", "image/png").uri))
    root.confirmed("create_record", **of_document(uploaded(root.user, drawn.getvalue(), "b.png", "image/png").uri))

    assert "Upload a valid image" in errors_of(told)[0][1]
    assert Document.objects.get().upload.read() == drawn.getvalue()


def test_what_is_no_upload_and_an_upload_of_another_user_are_refused(root: Writer, users: Users) -> None:
    uris = [
        uploaded(users.ops, b"secret").uri, "upload://" + "A" * 43, "upload://../../etc/passwd", "upload://",
        "/etc/passwd", "upload://a\x00b",
    ]  # fmt: skip

    told = {uri: errors_of(root.told("create_record", **of_document(uri))) for uri in uris}

    no_upload = "is no upload:// of yours that is complete and has not expired."
    assert told == {key: [("values.upload", no_upload)] for key in uris}


def test_a_confirmation_is_for_one_upload_as_long_as_it_is_there(root: Writer) -> None:
    first, second = uploaded(root.user, b"abc").uri, uploaded(root.user, b"xyz").uri
    token = root.ask("create_record", **of_document(first))["confirm"]

    root.refused("create_record", **of_document(second), confirm=token)
    Upload.objects.update(expires_at=timezone.now())
    root.refused("create_record", **of_document(first), confirm=token)

    assert not Document.objects.exists()


def test_copies_are_gone_after_each_call(root: Writer, settings: Any, tmp_path: Path) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path / "copies")
    Path(settings.FILE_UPLOAD_TEMP_DIR).mkdir()
    uri = uploaded(root.user, b"bad bytes").uri

    root.refused("create_record", **of_document(uri))
    root.confirmed("create_record", **of_document(uploaded(root.user, b"abc").uri))

    assert not list(Path(settings.FILE_UPLOAD_TEMP_DIR).iterdir())


@pytest.mark.django_db(transaction=True)
def test_a_change_that_waits_for_its_user_keeps_its_upload(root: Writer, declared: Declared) -> None:
    declared.model(Document, type("DocumentMCP", (ModelMCP,), {"consent": {"create": "ask"}}))
    upload = uploaded(root.user, b"abc")

    told = root.confirmed("create_record", **of_document(upload.uri))
    waiting = Change.objects.get()
    upload.refresh_from_db()

    assert told["status"] == "pending"
    assert upload.expires_at == waiting.expires_at > timezone.now() + timedelta(days=2)
    shown = waiting_changes.shown(waiting)
    assert ("upload", NOTHING, "a.txt") in [(one.column, one.before, one.after) for one in shown.lines]
    waiting_changes.apply(waiting, shown.digest)
    assert Document.objects.get().upload.read() == b"abc"


def test_describe_form_says_how_to_upload(root: Writer) -> None:
    described = root.ask("describe_form", model="shop.document")

    assert described["fields"]["upload"]["type"] == ["string", "object"]
    assert "'http://localhost/mcp/upload?name=FILE'" in described["upload"]
    assert "upload" not in root.ask("describe_form", model="flights.airline")


def test_who_may_write_a_model_with_a_file_may_upload(
    users: Users, peers: Peers, media: Path, folder: Path, writer: Any
) -> None:
    client = Uploader(peers(token_of(users.admin, *ALL_SCOPES)))
    uri = client.upload(b"abc")
    shown = client.call("create_record", **of_document(uri))["structuredContent"]
    client.call("create_record", **of_document(uri), confirm=shown["confirm"])

    assert Document.objects.get().upload.read() == b"abc"
    assert len(stored(folder)) == 1


def test_who_may_not_write_it_may_not_upload(
    users: Users, peers: Peers, media: Path, folder: Path, writer: Any, declared: Declared
) -> None:
    declared.admin(Product, None)

    for scopes in (["read"], ["read", "actions"], ["model:flights.airline:write"]):
        client = Uploader(peers(token_of(users.admin, *scopes)))
        assert client.send(b"abc").status == 404, scopes
    assert_nothing_is_left(folder)
