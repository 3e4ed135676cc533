"""Writes the parts of the documentation that are made from the code: ``python -m tests.documentation``."""

from __future__ import annotations

import os

import django

from tests.support.pages import ROOT


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    # Only now, since models are read with it.
    from tests.documentation.generated import generate

    for path in sorted(ROOT.glob("docs/*.md")):
        text = path.read_text()
        if (current := generate(text)) != text:
            path.write_text(current)
            print(f"{path.name} is written anew")


if __name__ == "__main__":
    main()
