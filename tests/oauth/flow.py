"""A client of the authorization server, and the person in front of it."""

from __future__ import annotations

import base64
import hashlib
import secrets
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from django.contrib.auth.models import User
from django.test import Client

from tests.support.forms import Form

ISSUER = "http://testserver"
RESOURCE = f"{ISSUER}/mcp"
CLAUDE = "https://claude.ai/oauth/mcp-oauth-client-metadata"
CLAUDE_REDIRECT = "https://claude.ai/api/mcp/auth_callback"
CLAUDE_CODE = "https://claude.ai/oauth/claude-code-client-metadata"
LOCAL_REDIRECT = "http://localhost:51234/callback"
CHATGPT = "https://chatgpt.com/oauth/client.json"


@dataclass
class Program:
    """A program that logs in. It stands for what each SDK does."""

    client_id: str = CLAUDE
    redirect_uri: str = CLAUDE_REDIRECT
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))
    state: str = "a state"

    @property
    def challenge(self) -> str:
        hashed = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(hashed).rstrip(b"=").decode()

    def url(self, **changes: str | None) -> str:
        """The URL to which it sends its person. None leaves a parameter out."""
        params = {
            "response_type": "code", "client_id": self.client_id, "redirect_uri": self.redirect_uri,
            "code_challenge": self.challenge, "code_challenge_method": "S256", "state": self.state,
            "scope": "read", "resource": RESOURCE, **changes,
        }  # fmt: skip
        return "/mcp/authorize?" + urlencode({name: value for name, value in params.items() if value is not None})

    def exchange(self, code: str | None, **changes: str | None) -> Any:
        form = {
            "grant_type": "authorization_code", "code": code, "client_id": self.client_id,
            "redirect_uri": self.redirect_uri, "code_verifier": self.verifier, "resource": RESOURCE, **changes,
        }  # fmt: skip
        return post("/mcp/token", form)

    def refresh(self, token: str, **changes: str | None) -> Any:
        form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": self.client_id, **changes}
        return post("/mcp/token", form)

    def log_in(self, user: User, *scopes: str, asks: str = "read") -> dict[str, Any]:
        """The answer with the tokens, for a person who allows the scopes."""
        answer = self.exchange(code_in(Person(user).allow(self.url(scope=asks), *(scopes or ("read",)))))
        assert answer.status_code == 200, answer.content
        tokens: dict[str, Any] = answer.json()
        return tokens


def post(path: str, form: dict[str, str | None], **headers: str) -> Any:
    """A POST of a form by a program, which has no cookies."""
    body = urlencode({name: value for name, value in form.items() if value is not None})
    return Client(enforce_csrf_checks=True).post(
        path, body, content_type="application/x-www-form-urlencoded", headers=headers
    )


class Person:
    """A person with a browser. Forms are sent as the page has them, with its tokens."""

    def __init__(self, user: User | None = None) -> None:
        self.browser = Client(enforce_csrf_checks=True)
        if user is not None:
            self.browser.force_login(user)

    def open(self, url: str) -> Any:
        return self.browser.get(url)

    def press(self, url: str, page: Any, decision: str, *scopes: str, **changes: str) -> Any:
        form = {**hidden_in(page), **chosen_in(page), "decision": decision, "scope": list(scopes), **changes}
        return self.browser.post(url, form)

    def allow(self, url: str, *scopes: str) -> Any:
        page = self.open(url)
        return page if page.status_code == 302 else self.press(url, page, "allow", *scopes)


def hidden_in(page: Any) -> dict[str, str]:
    """The hidden fields of a page."""
    return Form(page.content.decode()).hidden


def chosen_in(page: Any) -> dict[str, str]:
    """The choices that a page starts with, of which its person can make others."""
    return Form(page.content.decode()).chosen


def boxes_in(page: Any) -> dict[str, bool]:
    """The boxes of a consent page: scope → whether it starts ticked."""
    return Form(page.content.decode()).boxes


def params_in(answer: Any) -> dict[str, str]:
    """The parameters with which a client is answered."""
    assert answer.status_code == 302, (answer.status_code, answer.content)
    return {name: values[0] for name, values in parse_qs(urlsplit(answer["Location"]).query).items()}


def code_in(answer: Any) -> str:
    params = params_in(answer)
    assert "code" in params, params
    return params["code"]


def error_in(answer: Any) -> tuple[int, str]:
    """The status and the code of an error that a program gets."""
    return answer.status_code, answer.json()["error"]
