"""A process that is gone in the middle of a change by the API: nobody knows its end, and nobody runs it again."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.test.utils import setup_test_environment
from django.urls import path
from rest_framework.permissions import IsAuthenticated
from rest_framework.response import Response
from rest_framework.views import APIView

from mcp_django.models import Change
from tests.api.agents import Agent, exposed
from tests.api.project import settings_extra
from tests.api.project.models import Event
from tests.bridge.writes.kinds import end_lease
from tests.push.processes import ROOT, environment
from tests.support import forkserver


class DyingView(APIView):
    """Writes a row, and is gone, as by ``kill -9``."""

    permission_classes: ClassVar[list[Any]] = [IsAuthenticated]

    def post(self, request: Any) -> Response:
        Event.objects.create(owner=request.user, text=request.data["text"])
        os.kill(os.getpid(), signal.SIGKILL)
        return Response()


urlpatterns = [path("api/dying/", DyingView.as_view(), name="dying")]
_BODY = {"body": {"text": "written before the end"}}


def confirm(user: int, token: str) -> None:
    """Make the change in this process, which ends in its middle."""
    setup_test_environment()
    django_settings.ROOT_URLCONF, django_settings.MIDDLEWARE = __name__, settings_extra.MIDDLEWARE
    Agent(exposed(), User.objects.get(pk=user)).confirm({"operation": "dying.post", "confirm": token}, **_BODY)


@pytest.mark.every_database
@pytest.mark.usefixtures("transactional_db")
def test_after_a_kill_the_end_is_not_known_and_nothing_runs_it_again(
    shop: SimpleNamespace, settings: Any, tmp_path: Path
) -> None:
    settings.ROOT_URLCONF = __name__
    agent = Agent(exposed(), shop.anna)
    token = agent.plan("dying.post", **_BODY)["confirm"]
    code = (
        f"import django; django.setup()\nfrom tests.api.test_killed import confirm\nconfirm({shop.anna.pk}, {token!r})"
    )
    with (tmp_path / "log").open("wb") as log:
        process = forkserver.start(["-c", code], cwd=ROOT, env=environment(""), stdout=log, stderr=log)
    assert process.wait(forkserver.RUN_SECONDS) == -signal.SIGKILL, (tmp_path / "log").read_text()
    end_lease(Change.objects.get().pk)

    again = [agent.confirm({"operation": "dying.post", "confirm": token}, **_BODY).structured for _ in range(2)]

    assert [one["status"] for one in again] == ["unknown", "unknown"]
    assert Event.objects.filter(text=_BODY["body"]["text"]).count() == 1
