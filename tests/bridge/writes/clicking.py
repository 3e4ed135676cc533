"""Changes that wait for their user, who decides them in the admin as with a browser."""

from __future__ import annotations

import re
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from mcp_django.models import Change
from tests.support.peers import Message, Peer

_DIGEST = re.compile(r'name="digest" value="(\w+)"')


class Browser:
    """The browser of somebody who is logged in to the admin."""

    def __init__(self, user: Any, **headers: str) -> None:
        self.client = Client(headers=headers)
        self.client.force_login(user)

    def page(self, key: str) -> Any:
        """The page of a change."""
        # The middleware of the project leaves the language of a request behind.
        with translation.override(settings.LANGUAGE_CODE):
            return self.client.get(reverse("admin:mcp_django_change_change", args=[key]))

    def digest(self, key: str) -> str:
        """What the page of a change shows, as the click brings it back."""
        response = self.page(key)
        found = _DIGEST.search(response.content.decode())
        assert found is not None, f"the page of {key} offers no click"
        return found[1]

    def decide(self, key: str, decision: str, **posted: str) -> Any:
        """The response to a click, whatever the page shows."""
        url = reverse("admin:mcp_django_change_decide", args=[key])
        with translation.override(settings.LANGUAGE_CODE):
            return self.client.post(url, {f"_{decision}": "1", **posted})

    def apply(self, key: str) -> list[str]:
        """Look at the change and agree to it. What the admin says then."""
        return said(self.decide(key, "apply", digest=self.digest(key)))

    def reject(self, key: str, note: str = "") -> list[str]:
        return said(self.decide(key, "reject", note=note))


def approve(who: Any, key: str) -> list[str]:
    """Look at the change as somebody who may approve it, and approve it. What the admin says then."""
    browser = who if isinstance(who, Browser) else Browser(who)
    return said(browser.decide(key, "approve", digest=browser.digest(key)))


def proposed(peer: Peer, tool: str, **arguments: Any) -> Message:
    """What is told of a change that waits for its user."""
    confirm = peer.call(tool, **arguments)["structuredContent"]["confirm"]
    waits: Message = peer.call(tool, **arguments, confirm=confirm)["structuredContent"]
    assert waits["status"] == "pending", waits
    return waits


def said(response: Any) -> list[str]:
    """What the admin will say on the page that the response leads to."""
    assert response.status_code == 302, response
    return [str(message) for message in response.wsgi_request._messages._queued_messages]


def state_of(key: str) -> str:
    return str(Change.objects.get(pk=key).state)


def impersonating(get_response: Any) -> Any:
    """A middleware that says who is behind the login, as that of django-impersonate."""

    def answer(request: Any) -> Any:
        if real := request.session.get("_real"):
            request.real_user = User.objects.get(pk=real)
        return get_response(request)

    return answer
