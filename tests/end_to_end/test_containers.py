"""The files of docs/containers.md, run as far as one machine can: each command of an image and a compose file in a
folder, with PostgreSQL and Redis, and the manifests against the schemas of Kubernetes."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
import yaml
from packaging.requirements import Requirement

from tests.conftest import is_listening, need
from tests.end_to_end.projects import install, install_push, start_project
from tests.end_to_end.servers import STOP_SECONDS, Project, free_port, wait_for
from tests.support.pages import ROOT, blocks

PAGE = "docs/containers.md"
SECONDS = 120

pytestmark = pytest.mark.more("files of a deployment")


def manifests() -> list[dict[str, Any]]:
    return [one for block in blocks(PAGE, "yaml") if "apiVersion" in block for one in yaml.safe_load_all(block)]


def compose() -> dict[str, Any]:
    [block] = [block for block in blocks(PAGE, "yaml") if "services:" in block]
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def steps(instruction: str) -> list[str]:
    """What follows an instruction of the Dockerfile, each time."""
    [block] = blocks(PAGE, "dockerfile")
    joined = block.replace("\\\n", " ")
    return [line.removeprefix(f"{instruction} ") for line in joined.splitlines() if line.startswith(f"{instruction} ")]


class Machine:
    """A folder that stands for the image, and the services that stand beside it."""

    def __init__(self, project: Project, database: str) -> None:
        self.project, self.port = project, free_port()
        secrets = {"SECRET_KEY": "x" * 50, "ALLOWED_HOSTS": "example.com", "POSTGRES_PASSWORD": "none"}
        here = {
            "POSTGRES_HOST": "127.0.0.1",
            "POSTGRES_DB": database,
            "POSTGRES_USER": os.environ.get("PGUSER", "postgres"),
            "REDIS_URL": "redis://127.0.0.1:6379",
        }
        services = compose()["services"]
        given = {
            name: secrets[value[2:].partition(":")[0]] if value.startswith("${") else here[name]
            for name, value in services["web"]["environment"].items()
        }
        self.services = services
        self.environment = {**project.environment, **given}

    def adapted(self, command: list[str]) -> list[str]:
        """The command on this machine: its Python, and a free port of loopback."""
        programs = {"python": [sys.executable], "uvicorn": [sys.executable, "-m", "uvicorn"]}
        arguments = [one.replace("0.0.0.0", "127.0.0.1").replace("8000", str(self.port)) for one in command[1:]]
        return [*programs[command[0]], *arguments]

    def run(self, command: list[str]) -> str:
        done = subprocess.run(
            self.adapted(command), cwd=self.project.folder, env=self.environment, capture_output=True, text=True,
            check=False, timeout=SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
        """The command as process 1 of a container: its end is a SIGTERM, which it obeys."""
        with log.open("wb") as output:
            process = subprocess.Popen(
                self.adapted(command), cwd=self.project.folder, env=self.environment, stdout=output, stderr=output
            )
        try:
            yield process
            assert process.poll() is None, log.read_text()
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(STOP_SECONDS)
        assert code == 0, log.read_text()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    need(is_listening(5432), "PostgreSQL on port 5432")
    need(is_listening(6379), "Redis on port 6379")
    project = start_project(tmp_path_factory.mktemp("image"))
    install(project)
    install_push(project)
    [settings] = [block for block in blocks(PAGE, "python") if block.startswith("# project/settings.py")]
    file = project.folder / "project/settings.py"
    file.write_text(f"{file.read_text()}\n{settings}")
    name, user = f"mcp_django_containers_{os.getpid()}", os.environ.get("PGUSER", "postgres")
    with psycopg.connect(host="127.0.0.1", user=user, dbname="postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield Machine(project, name)
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_what_the_image_installs_exists_with_its_extras() -> None:
    [block] = [block for block in blocks(PAGE, "text") if block.startswith("# requirements.txt")]
    asked = [Requirement(line) for line in block.splitlines()[1:]]
    extras = {"django-admin-mcp-server": {"postgres", "redis", "tasks"}, "uvicorn": {"standard"}, "whitenoise": set()}

    assert {one.name: one.extras for one in asked} == extras
    assert set(metadata("uvicorn").get_all("Provides-Extra") or ()) >= {"standard"}
    assert find_spec("whitenoise") is not None
    assert [step for step in steps("RUN") if "pip install" in step] == [
        "python -m pip install --no-cache-dir --requirement requirements.txt"
    ]


def test_the_files_of_the_admin_are_collected_while_the_image_is_built(machine: Machine) -> None:
    [step] = [step for step in steps("RUN") if "collectstatic" in step]
    words = shlex.split(step)
    given = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    nothing = {name: value for name, value in machine.environment.items() if name not in given}

    done = subprocess.run(
        machine.adapted([word for word in words if word not in {f"{name}={value}" for name, value in given.items()}]),
        cwd=machine.project.folder, env={**nothing, **given}, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert (machine.project.folder / "static/mcp_django/console.css").exists()


def test_the_services_run_in_their_order_and_end_by_a_signal(machine: Machine, tmp_path: Path) -> None:
    services = machine.services
    [command] = [re.findall(r'"([^"]*)"', step) for step in steps("CMD")]
    healthy = services["web"]["healthcheck"]["test"][1:]

    assert "Applying mcp_django.0001_initial" in machine.run(services["migrate"]["command"])
    for command_of in commands("clear"):
        machine.run(shlex.split(command_of))
    for name in ("web", "due", "worker"):
        assert services[name]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    with (
        machine.running(command, tmp_path / "web.log"),
        machine.running(services["due"]["command"], tmp_path / "due.log"),
        machine.running(services["worker"]["command"], tmp_path / "worker.log"),
    ):
        url = f"http://127.0.0.1:{machine.port}"
        wait_for(lambda: is_listening(machine.port), "uvicorn", SECONDS)
        machine.run(healthy)
        style = httpx.get(f"{url}/static/mcp_django/console.css", headers={"Host": "example.com"})
        live = httpx.get(f"{url}{probe('livenessProbe')}")
        ready = httpx.get(f"{url}{probe('readinessProbe')}")

    assert (style.status_code, live.json()) == (200, {"process": "ok"})
    assert (ready.status_code, ready.json()) == (200, {"database": "ok", "bus": "ok"})


def test_a_service_whose_database_is_away_is_not_healthy(machine: Machine, tmp_path: Path) -> None:
    [command] = [re.findall(r'"([^"]*)"', step) for step in steps("CMD")]
    machine.environment = {**machine.environment, "POSTGRES_PORT": str(free_port())}

    with machine.running(command, tmp_path / "web.log"):
        wait_for(lambda: is_listening(machine.port), "uvicorn", SECONDS)
        with pytest.raises(AssertionError, match="503"):
            machine.run(machine.services["web"]["healthcheck"]["test"][1:])


def test_no_secret_and_nothing_of_git_gets_into_the_image() -> None:
    [block] = [block for block in blocks(PAGE, "text") if block.startswith("# .dockerignore")]

    assert {".env", ".git", ".venv"} <= set(block.splitlines())


def pod(manifest: dict[str, Any]) -> dict[str, Any]:
    """What its pods are; empty where it has none."""
    spec = manifest.get("spec", {})
    found: dict[str, Any] = spec.get("jobTemplate", {"spec": spec})["spec"].get("template", {}).get("spec", {})
    return found


def commands(name: str) -> list[str]:
    """The commands that a shell runs in the container of that name."""
    [container] = [
        one for manifest in manifests() for one in pod(manifest).get("containers", ()) if one["name"] == name
    ]
    shell, option, line = container["command"]
    assert (shell, option) == ("sh", "-c")
    return str(line).split(" && ")


def probe(name: str) -> str:
    [web] = [one for one in manifests() if one["kind"] == "Deployment" and one["metadata"]["name"] == "web"]
    path: str = web["spec"]["template"]["spec"]["containers"][0][name]["httpGet"]["path"]
    return path


def test_the_manifests_are_what_kubernetes_takes_and_run_what_the_compose_file_runs() -> None:
    need(find_spec("kubernetes_validate") is not None, "kubernetes-validate")
    import kubernetes_validate

    services = compose()["services"]

    assert [(one["kind"], one["metadata"]["name"]) for one in manifests()] == [
        ("ConfigMap", "project"), ("Job", "migrate"), ("Deployment", "web"), ("Service", "web"), ("Deployment", "due"),
        ("Deployment", "worker"), ("CronJob", "clear"),
    ]  # fmt: skip
    for one in manifests():
        kubernetes_validate.validate(one, "1.33", strict=True)
        if one["kind"] in ("Job", "Deployment"):
            [container] = pod(one)["containers"]
            assert container.get("command") == services[one["metadata"]["name"]].get("command")
        # A Service that is named postgres would set POSTGRES_PORT.
        assert not pod(one) or pod(one)["enableServiceLinks"] is False


def test_the_commands_of_kubernetes_give_the_pods_what_the_compose_file_gives() -> None:
    _, new_version = blocks(PAGE, "sh")
    secrets = set(re.findall(r"`(\w+)=\.\.\.`", (ROOT / PAGE).read_text()))
    deployments = {one["metadata"]["name"] for one in manifests() if one["kind"] == "Deployment"}

    assert secrets | manifests()[0]["data"].keys() == compose()["services"]["web"]["environment"].keys()
    assert set(re.findall(r"deployment/(\w+)", new_version)) == deployments
    assert new_version.index("delete job/migrate") < new_version.index("migrate.yaml")
