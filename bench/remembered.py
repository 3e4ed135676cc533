"""What a process remembers of callers, in memory: tokens with their users and permissions, and sessions.

.venv/bin/python -m bench.remembered [--tokens N] [--check]
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
from collections.abc import Sequence

from bench.goals import Goal
from mcp_django.core.secret import Secret

TOKENS = 10_000
_PERMISSIONS = 40
#: What a token may take, with its user and its session.
_MOST_KILOBYTES = 4.5


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.remembered", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tokens", type=int, default=TOKENS, help=f"how many tokens are used, twice ({TOKENS:,})")
    parser.add_argument("--check", action="store_true", help="fail where the goal is missed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"DJANGO_SETTINGS_MODULE": "bench.settings", "DEMO_DIR": folder}
        each = _measure(options.tokens)
    goal = Goal("a remembered token with its session", each, _MOST_KILOBYTES, "kB")
    print("\nGoals", goal, sep="\n")
    return 0 if goal.holds or not options.check else 1


def _measure(count: int) -> float:
    """Print the table; returns the kilobytes of each token."""
    import django

    django.setup()

    from django.core.management import call_command
    from django.db import transaction
    from django.test import override_settings

    call_command("migrate", verbosity=0)
    with override_settings(MCP={"TOKEN_CACHE_SECONDS": 3_600}), transaction.atomic():
        first, second = _tokens("a", count), _tokens("b", count)
        # What Django and SQLite keep once, whatever is remembered.
        _use(second[:100])
        before = _resident()
        _use(first)
        used = _resident()
        _use(second)
        print("| remembered | memory | each |", "|---|---:|---:|", sep="\n")
        print(f"| {count:,} tokens | {(used - before) / 1e6:,.1f} MB | {(used - before) / count / 1e3:,.1f} kB |")
        print(f"| after {count:,} other ones | {(_resident() - before) / 1e6:,.1f} MB | |")
    return (used - before) / count / 1e3


def _tokens(prefix: str, count: int) -> list[str]:
    """New tokens in plain text, each with a user and a session of its own; all users are in one group."""
    from django.contrib.auth.models import Group, Permission, User

    from mcp_django.models import AccessToken

    group, _ = Group.objects.get_or_create(name="readers")
    group.permissions.set(Permission.objects.all()[:_PERMISSIONS])
    users = User.objects.bulk_create(User(username=f"{prefix}{number}", password="!" * 88) for number in range(count))
    group.user_set.add(*users)
    return [AccessToken.objects.create_token(user=user)[1] for user in users]


def _use(tokens: Sequence[str]) -> None:
    """What a call of each token with a session leaves behind."""
    from mcp_django.access.authentication import authenticate
    from mcp_django.access.user_permissions import put_onto_user
    from mcp_django.bridge.sites import site
    from mcp_django.exchange.exchange import inspection_exchange
    from mcp_django.exchange.requests import from_settings
    from mcp_django.protocol.envelope import Client
    from mcp_django.push.sessions.session_rows import StoredSession

    for token in tokens:
        request = from_settings()
        request.authorization = Secret(f"Bearer {token}")
        principal = authenticate(request, fresh=False)
        request.mcp = inspection_exchange(site, request.for_principal(principal), "tools/call")
        put_onto_user(request)
        session = StoredSession.open(site, principal, "2025-11-25", Client({"name": "bench", "version": "1"}, {}))
        StoredSession.find(site, principal, session.key, fresh=False)


def _resident() -> int:
    from bench.memory import resident_bytes

    gc.collect()
    return resident_bytes(os.getpid())


if __name__ == "__main__":
    sys.exit(main())
