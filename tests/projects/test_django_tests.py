"""Django's own tests of its admin, as a project that never heard of us."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import need
from tests.matrix import ROOT
from tests.projects import sources


@pytest.mark.slow
@pytest.mark.more("computes for a minute and a half")
@pytest.mark.timeout(1_800)  # More often longer than alone, as other tests run beside it.
def test_the_endpoint_shows_and_sends_what_the_admin_of_djangos_own_tests_does() -> None:
    try:
        sources.fetch()
    except OSError as error:
        need(False, str(error))
    command = [sys.executable, "-m", "tests.projects.run", "django_tests"]

    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
