"""Files: uploaded, kept, and taken away."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from django.core.files.base import ContentFile
from django.core.files.uploadedfile import SimpleUploadedFile

from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Attachment


def upload(name: str, content: bytes) -> dict[str, str]:
    return {"name": name, "base64": base64.b64encode(content).decode()}


@pytest.fixture
def attachment(lab: Lab) -> Attachment:
    lab.admin(Attachment)
    made = Attachment(name="a letter")
    made.paper.save("letter.txt", ContentFile(b"Dear"), save=False)
    made.scan.save("scan.png", ContentFile(b"pixels"), save=False)
    made.save()
    return made


def test_a_file_is_uploaded_with_a_new_row(lab: Lab) -> None:
    lab.admin(Attachment)

    made = lab.same(
        Attachment,
        values={"name": "a letter", "paper": upload("letter.txt", b"Dear")},
        typed={"name": "a letter", "paper": SimpleUploadedFile("letter.txt", b"Dear")},
    )

    assert made.files == {"papers/letter.txt": b"Dear"}


def test_a_file_of_a_name_that_is_taken_gets_another_name(lab: Lab, attachment: Attachment, monkeypatch: Any) -> None:
    monkeypatch.setattr("django.core.files.storage.base.get_random_string", lambda length: "x" * length)

    made = lab.same(
        Attachment,
        attachment,
        values={"paper": upload("letter.txt", b"Sirs")},
        typed={"paper": SimpleUploadedFile("letter.txt", b"Sirs")},
    )

    assert made.files["papers/letter_xxxxxxx.txt"] == b"Sirs"


def test_an_optional_file_is_taken_away_and_others_stay(lab: Lab, attachment: Attachment) -> None:
    before = Attachment.objects.values().get()

    taken = lab.same(Attachment, attachment, values={"scan": None}, typed={"scan-clear": True})
    named = lab.same(Attachment, attachment, values={"name": "two letters"})

    assert taken.of(Attachment) == [{**before, "scan": ""}]
    assert named.of(Attachment) == [{**before, "name": "two letters"}]
    lab.refused(Attachment, attachment, values={"paper": None})
