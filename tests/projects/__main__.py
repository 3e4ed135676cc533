"""Compares the endpoint with projects that others wrote: ``python -m tests.projects [NAME ...]``.

With their rendered admin, or with their API over HTTP.

Each project has an environment of its own, ``.venv-projects-NAME``, but for Django's own tests and the tenants.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time

from tests import matrix
from tests.projects import servers, sources

#: Each project, with the packages that it is about.
PROJECTS = {
    "asking": "actions of packages that ask with a page before they act, driven by an agent",
    "django_tests": "Django's own tests of its admin",
    "nautobot": "the API of Nautobot, on PostgreSQL and with Redis",
    "oscar": "django-oscar",
    "oscar_api": "the API of django-oscar-api",
    "packages": "three dozen packages in one project, on PostgreSQL",
    "popular": "wagtail, allauth and a dozen packages beside them",
    "pretix": "the API of pretix",
    "shapes": "the shapes of four sites' admins, each as a small app",
    "tenants": "a project whose middleware chooses the tenant in each of four ways, on each server",
    "writing": "changes by the ModelAdmins of packages, made by a person and by an agent",
}
#: What runs the projects that are not compared page by page: a module and its arguments.
RUNNERS = {
    "asking": ["tests.projects.asking.run"],
    **{name: ["tests.projects.apis.run", name] for name in ("nautobot", "oscar_api", "pretix")},
    "tenants": ["pytest", "--quiet", "tests/end_to_end/test_tenants.py"],
    "writing": ["tests.projects.writing.run"],
}
#: What projects need on this machine, beside packages.
NEEDS = {"nautobot": (servers.postgresql, servers.redis)}
#: Projects that need no package beside those of the main environment.
_IN_MAIN = ("django_tests", "shapes", "tenants")


def compare(name: str) -> bool:
    """Run the comparison of one project and say how it went."""
    begun = time.monotonic()
    print(f"{name}: {PROJECTS[name]}", flush=True)
    if missing := [why for asked in NEEDS.get(name, ()) if (why := asked())]:
        is_failure = os.environ.get("CI") == "true"
        print(f"{name}: {'FAILED' if is_failure else 'skipped'}, {', '.join(missing)}", flush=True)
        return not is_failure
    try:
        python = environment(name)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: FAILED, it could not be made: {error}", flush=True)
        return False
    module = RUNNERS.get(name, ["tests.projects.run", name])
    code = subprocess.run([python, "-m", *module], cwd=matrix.ROOT, check=False).returncode
    print(f"{name}: {'passed' if code == 0 else 'FAILED'} after {time.monotonic() - begun:.0f} s", flush=True)
    return code == 0


def environment(name: str) -> str:
    """The Python of the project's environment. Raises CalledProcessError and OSError."""
    if name == "django_tests":
        sources.fetch()
    if name in _IN_MAIN:
        return sys.executable
    text = "\n".join([*_pins(f"tests/projects/{name}/requirements.txt"), ""])
    return matrix.environment(name, matrix.ROOT / f".venv-projects-{name}", sys.executable, text)


def _pins(file: str) -> list[str]:
    """The pins of the main environment and of a project, whose own count where both have one of a package."""
    of_project = matrix.pins(file)
    replaced = {_package(line) for line in of_project}
    return [*(line for line in matrix.pins("requirements.txt") if _package(line) not in replaced), *of_project]


def _package(line: str) -> str:
    """The package of a pin; the line itself where it is none."""
    name, is_pin, _ = line.partition("==")
    return re.sub(r"[-_.]+", "-", name).lower() if is_pin else line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(PROJECTS)}; all if none is named")
    options = parser.parse_args()
    if unknown := set(options.names) - PROJECTS.keys():
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    passed = [compare(name) for name in options.names or PROJECTS]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
