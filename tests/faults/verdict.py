"""What every subscriber must have been told by now, and what none may have been told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.faults.rows import FLIGHTS, JFK, MARKER, NO_FLIGHTS, PLANES, VIEWS, Rows
from tests.faults.subscribers import Subscriber

Commits = Iterable[Mapping[str, Any]]


def due(commits: Commits, rows: Rows, *, rides: bool) -> dict[str, dict[str, float]]:
    """By view: the URIs that were changed for it, each with the moment of its last commit.

    ``rides``: what tells of a commit is part of it, so that it may be heard of before the writer knows that it is made.
    """
    found: dict[str, dict[str, float]] = {view: {} for view in VIEWS}
    for commit in commits:
        moment = commit.get("before" if rides else "committed", 0.0)
        for uri in commit.get("uris", ()):
            for view, last in found.items():
                if rows.is_visible(uri, view) and not (view == JFK and uri in rows.left):
                    for changed in (uri, PLANES if uri.startswith(PLANES) else FLIGHTS):
                        last[changed] = max(last.get(changed, 0.0), moment)
    for uri in {uri for commit in commits for uri in commit.get("unknown", ())}:
        for last in found.values():
            last.pop(uri, None)
    return found


def missing(subscriber: Subscriber, last: Mapping[str, float]) -> list[str]:
    """What the subscriber watches, and was not told of since it was changed last, nor could read when it came back."""
    if not subscriber.is_there.is_set():
        return ["its connection"]
    return [
        uri for uri in subscriber.honoured if last.get(uri, 0.0) > max(subscriber.since, subscriber.last.get(uri, 0.0))
    ]


def visible(subscriber: Subscriber, rows: Rows) -> set[str]:
    """What a server must acknowledge of the subscriber's wishes before anything has changed."""
    return {
        uri
        for uri in subscriber.uris
        if uri in (MARKER, PLANES)
        or (uri == FLIGHTS and subscriber.view != NO_FLIGHTS)
        or (uri != FLIGHTS and rows.is_visible(uri, subscriber.view))
    }


def forbidden(subscriber: Subscriber, rows: Rows, *, looked_again: bool) -> list[str]:
    """What the subscriber was told of and should not have been, in words.

    ``looked_again``: its server, or it itself, has had a reason to look at everything again; it may have been told of
    what nobody has changed then, but never of what it may not see.
    """
    wrong = list(subscriber.wrong)
    may_see = visible(subscriber, rows)
    wrong += [f"watches {uri}, which it may not see" for uri in subscriber.honoured - may_see]
    if subscriber.view == JFK:
        wrong += [f"was told of {uri}, which it may not see any more" for uri in rows.left if subscriber.heard[uri]]
    if not looked_again:
        wrong += [f"was told of {uri}, whose changes were rolled back" for uri in rows.phantom if subscriber.heard[uri]]
        wrong += [f"was told {subscriber.lists} times that its lists changed"] if subscriber.lists else []
    return wrong


def unquiet(subscriber: Subscriber) -> list[str]:
    """What a subscriber was told of while nothing changed for it but the marker, in words."""
    return [
        f"was told of {uri} while nothing changed that it may see"
        for uri, times in subscriber.heard.items()
        if times and uri not in (MARKER, PLANES)
    ]
