"""Projects fresh from ``startproject``, with the lines added that the README names."""

from __future__ import annotations

from pathlib import Path

from tests.end_to_end.servers import Project
from tests.support import forkserver

PASSWORD = "a-long-phrase-for-tests"


def start_project(folder: Path) -> Project:
    project = Project(folder, "project", folder)
    command = ["-m", "django", "startproject", "project", folder]
    forkserver.run(command, cwd=folder, env=project.environment).check_returncode()
    return project


def replace(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, (old, text)
    file.write_text(text.replace(old, new))


def install(project: Project, *, first: bool = False) -> None:
    """The lines for any project: the app, and its endpoint."""
    settings = project.folder / "project/settings.py"
    if first:
        replace(settings, "INSTALLED_APPS = [\n", "INSTALLED_APPS = [\n    'mcp_django',\n")
    else:
        replace(settings, "'django.contrib.staticfiles',\n", "'django.contrib.staticfiles',\n    'mcp_django',\n")
    serve_endpoint(project)


def serve_endpoint(project: Project) -> None:
    urls = project.folder / "project/urls.py"
    replace(urls, "from django.urls import path\n", "from django.urls import include, path\n")
    replace(urls, "urlpatterns = [\n", 'urlpatterns = [\n    path("", include("mcp_django.urls")),\n')


def expose(project: Project, *models: str) -> None:
    """Register models of django.contrib.auth, the only ones that such a project has."""
    urls = project.folder / "project/urls.py"
    names = ", ".join(models)
    lines = f"from django.contrib.auth.models import {names}\nfrom mcp_django import site\n\nsite.register([{names}])\n"
    replace(urls, "\nurlpatterns = [", f"\n{lines}\nurlpatterns = [")


def install_push(project: Project) -> None:
    """The lines for a project that is served by an ASGI server."""
    settings = project.folder / "project/settings.py"
    replace(settings, "INSTALLED_APPS = [\n", "INSTALLED_APPS = [\n    'daphne',\n")
    settings.write_text(settings.read_text() + '\nASGI_APPLICATION = "project.asgi.application"\n')
    asgi = project.folder / "project/asgi.py"
    replace(asgi, "from django.core.asgi import get_asgi_application\n", "import mcp_django\n")
    replace(asgi, "= get_asgi_application()", "= mcp_django.routing.get_asgi_application()")


def set_up(project: Project) -> None:
    """Tables, a superuser, a group, and the superuser's token in a file."""
    done = project.run(f"""
from django.contrib.auth.models import Group, User
from django.core.management import call_command
call_command("migrate", verbosity=0)
User.objects.create_superuser("admin", password="{PASSWORD}")
Group.objects.create(name="pilots")
call_command("mcp_token", "admin")
""")
    (project.folder / "token").write_text(done.strip())


def token_of(project: Project) -> str:
    return (project.folder / "token").read_text()
