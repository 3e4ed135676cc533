"""Compares the endpoint with the rendered admin in projects that others wrote: ``python -m tests.projects [NAME ...]``.

Each project has an environment of its own, ``.venv-projects-NAME``, but for Django's own tests, which need no package
beside those of the main environment.
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
    "django_tests": "Django's own tests of its admin",
    "oscar": "django-oscar",
    "popular": "wagtail, allauth and a dozen packages beside them",
    "writing": "changes by the ModelAdmins of packages, made by a person and by an agent",
}
#: What runs the projects that are not compared page by page.
RUNNERS = {"writing": "tests.projects.writing.run"}


def compare(name: str) -> bool:
    """Run the comparison of one project and say how it went."""
    begun = time.monotonic()
    print(f"{name}: {PROJECTS[name]}", flush=True)
    try:
        python = environment(name)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"{name}: FAILED, it could not be made: {error}", flush=True)
        return False
    module = [RUNNERS[name]] if name in RUNNERS else ["tests.projects.run", name]
    code = subprocess.run([python, "-m", *module], cwd=matrix.ROOT, check=False).returncode
    print(f"{name}: {'passed' if code == 0 else 'FAILED'} after {time.monotonic() - begun:.0f} s", flush=True)
    return code == 0


def environment(name: str) -> str:
    """The Python of the project's environment. Raises CalledProcessError and OSError."""
    if name == "django_tests":
        sources.fetch()
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
