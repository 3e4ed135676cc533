"""The pages say the project's words, in short sentences: ``words.yml`` and ``textlint.json``, read by textlint."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.conformance import node
from tests.conftest import need
from tests.support.pages import ROOT

pytestmark = pytest.mark.more("reads every page for seconds")

HERE = ROOT / "tests/documentation"


def test_a_linter_of_prose_finds_nothing_on_any_page() -> None:
    need(shutil.which("npm") is not None, "npm")
    suite = node.install()
    modules = suite.folder / "node_modules"
    command = [suite.node, modules / "textlint/bin/textlint.js", "--rules-base-directory", modules]

    found = subprocess.run(
        [*command, "--config", HERE / "textlint.json", "--format", "unix", "README.md", "docs/**/*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert found.stdout + found.stderr == ""
