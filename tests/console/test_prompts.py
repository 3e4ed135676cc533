"""The preview of a prompt is what an agent of the viewer would get."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from mcp_django.models import Prompt
from tests.console.visiting import client_of
from tests.support.data import Users, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("transactional_db")


def previewed(user: User, prompt: Prompt, **values: str) -> Any:
    return client_of(user).post(
        reverse("admin:mcp_django_prompt_preview", args=[prompt.pk]),
        {f"try-arg-{name}": text for name, text in values.items()},
    )


@pytest.fixture
def written(users: Users) -> Prompt:
    return Prompt.objects.create(
        name="delays", text="List the delays at {{ airport }}{% if day %} on {{ day }}{% endif %}."
    )


def test_a_prompt_is_shown_with_the_values_that_are_filled_in(users: Users, written: Prompt) -> None:
    page = previewed(users.admin, written, airport="<JFK>").content.decode()
    lacking = previewed(users.admin, written).content.decode()

    assert "<pre>List the delays at &lt;JFK&gt;.</pre>" in page and "From the user" in page
    assert "This field is required." in lacking and "<pre>" not in lacking


def test_a_declared_prompt_is_run_for_the_viewer(users: Users, declared: Declared) -> None:
    def whoami(request: Any) -> str:
        """Says who asks."""
        return f"I am {request.user.get_username()}."

    declared.prompt(whoami)
    row = Prompt.objects.create(name="whoami")
    clerk = make_staff("clerk", "mcp_django.view_prompt")

    assert "<pre>I am clerk.</pre>" in previewed(clerk, row).content.decode()


def test_a_prompt_that_is_off_or_for_others_has_no_preview(users: Users, written: Prompt) -> None:
    Prompt.objects.filter(pk=written.pk).update(enabled=False)

    page = previewed(users.admin, written, airport="JFK").content.decode()

    assert "is-bad" in page and "<pre>" not in page


def test_whoever_may_not_view_prompts_previews_none(users: Users, written: Prompt) -> None:
    assert previewed(make_staff("clerk", "mcp_django.view_call"), written, airport="JFK").status_code == 403
