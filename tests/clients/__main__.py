"""Has packages of clients convert the schemas of our tools: ``python -m tests.clients [NAME ...]``.

Each has an environment of its own, ``.venv-clients-NAME`` or the folder ``.node/clients``. What they made is written to
``tests/clients/converted/NAME.json``, and nothing is sent anywhere.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import django

from tests.clients.converting import CONVERTERS, Converter
from tests.conformance.node import NPMMissing

if TYPE_CHECKING:
    from tests.clients.listed import Tools


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.clients", description=__doc__, allow_abbrev=False)
    names = [converter.name for converter in CONVERTERS]
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(names)}; all if none is named")
    options = parser.parse_args()
    if unknown := set(options.names) - set(names):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    tools = _tools()
    converted = [_convert(converter, tools) for converter in CONVERTERS if converter.name in (options.names or names)]
    return 0 if all(converted) else 1


def _tools() -> Tools:
    """The tools in a database of their own, which is removed again."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    from django.test.utils import setup_databases, teardown_databases

    from tests.clients.listed import listed_tools

    made = setup_databases(verbosity=0, interactive=False, aliases={"default"})
    try:
        return listed_tools()
    finally:
        teardown_databases(made, verbosity=0)


def _convert(converter: Converter, tools: Tools) -> bool:
    """Convert the tools and say how it went."""
    begun = time.monotonic()
    try:
        converter.convert(tools)
    except subprocess.CalledProcessError as error:
        print(f"{converter.name}: FAILED, {error}\n{error.stderr or ''}", flush=True)
        return False
    except (RuntimeError, NPMMissing, subprocess.TimeoutExpired) as error:
        print(f"{converter.name}: FAILED, {error}", flush=True)
        return False
    versions = ", ".join(f"{package} {version}" for package, version in converter.versions.items())
    print(f"{converter.name}: converted with {versions} in {time.monotonic() - begun:.0f} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
