"""A person with a browser, who lets a client in that has sent them to the authorization server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from tests.support.forms import Form

SECONDS = 60
#: Redirects that are followed before a page.
_MOST_REDIRECTS = 5


class Browser:
    """The browser of a person, with the cookies of one site, in which they know how to log in."""

    def __init__(self, username: str, password: str) -> None:
        self._login = {"username": username, "password": password}
        self._client = httpx.Client(timeout=SECONDS)
        #: The pages that were shown.
        self.pages: list[str] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *error: object) -> None:
        self._client.close()

    def connect(self, url: str, *scopes: str) -> str:
        """Go where a client sends its person, log in if need be, tick the scopes, press Connect, and come back.

        Returns the page that the client shows in the end. Raises AssertionError with the page that is something else.
        """
        callback = self.decide(url, "allow", *scopes)
        # The client listens on the same host as the site here, and shall not see the cookies of the site.
        answer = httpx.get(callback, timeout=SECONDS, follow_redirects=True)
        assert answer.status_code == httpx.codes.OK, (callback, answer.text)
        return answer.text

    def decide(self, url: str, decision: str, *scopes: str) -> str:
        """As ``connect``, with any button of the consent page; returns where the browser is sent."""
        page = self._open(url)
        if "password" in Form(page.text).names:
            page = self._follow(self._send(page, self._login), urlsplit(url).path)
        assert "decision" in Form(page.text).names, page.text
        answer = self._send(page, {"decision": decision, "scope": list(scopes)})
        assert answer.status_code == httpx.codes.FOUND, answer.text
        return str(answer.headers["Location"])

    def _open(self, url: str) -> httpx.Response:
        return self._follow(self._client.get(url))

    def _send(self, page: httpx.Response, fields: Mapping[str, Any]) -> httpx.Response:
        """Send the form of a page, to where the page is."""
        return self._client.post(page.url, data={**Form(page.text).hidden, **Form(page.text).chosen, **fields})

    def _follow(self, answer: httpx.Response, path: str = "") -> httpx.Response:
        """The page behind redirects within the site; ``path`` is where it must be."""
        for _ in range(_MOST_REDIRECTS):
            if not answer.is_redirect:
                break
            answer = self._client.get(urljoin(str(answer.url), answer.headers["Location"]))
        assert answer.status_code == httpx.codes.OK, (answer.url, answer.text)
        assert not path or answer.url.path == path, (str(answer.url), answer.text)
        self.pages.append(answer.text)
        return answer
