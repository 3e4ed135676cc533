"""Translated fields, without the package that has them, and in a project of its own with it: ``tests.translated``."""

from __future__ import annotations

import json
import os
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User

from mcp_django.core.compat.translated_fields import Localized, as_named, in_language, language, localized
from tests.push.processes import ROOT
from tests.support import forkserver


def test_nothing_is_translated_without_the_package() -> None:
    rows = User._default_manager.all()

    assert language() == ""
    assert as_named(rows) is rows is in_language(rows)
    assert localized(User._meta.get_field("username"), lambda field: False) is None  # type: ignore[arg-type]


def test_localized_falls_back_to_another_language_or_to_a_value() -> None:
    field = User._meta.get_field("username")
    cases: list[Any] = [((field,), None), ((field,), ""), ((field, field), None)]

    found = [Localized(fields, "", last).falls_back for fields, last in cases]

    assert found == [False, True, True]


@pytest.mark.slow
@pytest.mark.every_database
@pytest.mark.parametrize(
    ("project", "call_context"), [("en", ""), ("de", ""), ("en", "de")], ids=["en", "de", "call_context"]
)
def test_agents_read_and_write_what_the_package_shows_in_the_language_of_a_call(
    project: str, call_context: str
) -> None:
    # The process of this test has a database of the name that the settings would choose.
    settings = {
        "DJANGO_SETTINGS_MODULE": "tests.translated.settings",
        "LANGUAGE": project,
        "SPOKEN": call_context,
        "TEST_DATABASE_NAME": f"mcp_django_translated_{uuid4().hex[:12]}",
    }
    code = "import django; django.setup(); from tests.translated.asking import main; main()"

    done = forkserver.run(["-c", code], cwd=ROOT, env={**os.environ, **settings})

    assert done.returncode == 0, done.stderr
    assert {name: wrong for name, wrong in json.loads(done.stdout.splitlines()[-1]).items() if wrong} == {}
