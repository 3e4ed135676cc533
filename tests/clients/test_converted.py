"""The files of what clients make of our schemas: that they are about the schemas that we have."""

from __future__ import annotations

import json

import pytest

from tests.clients.converting import CONVERTERS, FOLDER, Converter, schemas
from tests.clients.listed import listed_tools


def test_each_converter_has_its_file() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {converter.name for converter in CONVERTERS}


@pytest.mark.parametrize("converter", CONVERTERS, ids=lambda converter: converter.name)
def test_what_was_converted_is_what_we_list(db: None, converter: Converter) -> None:
    written = json.loads(converter.file.read_text())

    assert written["tools"] == schemas(listed_tools()), "make clients"
    assert written["version"] == converter.versions
    assert all(made.keys() == written["tools"].keys() for made in written["converted"].values())
