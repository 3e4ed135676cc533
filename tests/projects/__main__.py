"""Compares the endpoint with the rendered admin in projects that others wrote: ``python -m tests.projects [NAME ...]``.

Each project has an environment of its own, ``.venv-projects-NAME``, but for Django's own tests and the tenants.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from tests import matrix
from tests.projects import sources

#: Each project, with the packages that it is about.
PROJECTS = {
    "asking": "actions of packages that ask with a page before they act, driven by an agent",
    "django_tests": "Django's own tests of its admin",
    "oscar": "django-oscar",
    "packages": "three dozen packages in one project, on PostgreSQL",
    "popular": "wagtail, allauth and a dozen packages beside them",
    "shapes": "the shapes of four sites' admins, each as a small app",
    "tenants": "a project whose middleware chooses the tenant in each of four ways, on each server",
    "writing": "changes by the ModelAdmins of packages, made by a person and by an agent",
}
#: What runs the projects that are not compared page by page: a module and its arguments.
RUNNERS = {
    "asking": ["tests.projects.asking.run"],
    "tenants": ["pytest", "--quiet", "tests/end_to_end/test_tenants.py"],
    "writing": ["tests.projects.writing.run"],
}
#: Projects that need no package beside those of the main environment.
_IN_MAIN = ("django_tests", "shapes", "tenants")


def compare(name: str) -> bool:
    """Run the comparison of one project and say how it went."""
    begun = time.monotonic()
    print(f"{name}: {PROJECTS[name]}", flush=True)
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
    text = "\n".join([*matrix.pins("requirements.txt", f"tests/projects/{name}/requirements.txt"), ""])
    return matrix.environment(name, matrix.ROOT / f".venv-projects-{name}", sys.executable, text)


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
