"""What a page of rows costs where hooks of a ModelAdmin are asked whether they look at the object.

.venv/bin/python -m bench.hooks [--database sqlite|postgresql|mariadb] [--rounds N] [--check]

Each hook is asked, beside the same hook with ``ignores_object``, which is not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

ROUNDS = 300
#: How much longer a page may take for one kind of hook.
MOST = 1.05


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hooks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--database", choices=["sqlite", "postgresql", "mariadb"], default="sqlite")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each page is asked for ({ROUNDS})")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "bench.settings", "BENCH_DATABASE": options.database, "BENCH_ROWS": "january",
    }  # fmt: skip

    import django

    django.setup()

    goals = _measure(options.rounds)
    print("\nGoals", *goals, sep="\n")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


def _hooks() -> Mapping[str, Mapping[str, Callable[..., Any]]]:
    """Hooks that look at no object, by their names, and answer what the demo's own does."""
    from demo_project.flights.admin import FlightAdmin

    plain: Any = FlightAdmin

    def get_fieldsets(self: Any, request: Any, obj: Any = None) -> Any:
        return plain.get_fieldsets(self, request, obj)

    def get_readonly_fields(self: Any, request: Any, obj: Any = None) -> Any:
        return plain.get_readonly_fields(self, request, obj)

    def has_view_permission(self: Any, request: Any, obj: Any = None) -> Any:
        return plain.has_view_permission(self, request, obj)

    def formfield_for_foreignkey(self: Any, db_field: Any, request: Any, **kwargs: Any) -> Any:
        return plain.formfield_for_foreignkey(self, db_field, request, **kwargs)

    hooks: dict[str, Callable[..., Any]] = {
        hook.__name__: hook
        for hook in (get_fieldsets, get_readonly_fields, has_view_permission, formfield_for_foreignkey)
    }
    return {**{name: {name: hook} for name, hook in hooks.items()}, "all four": hooks}


def _measure(rounds: int) -> list[Any]:
    from tqdm import tqdm

    from bench import contestants
    from bench.goals import Goal
    from bench.project import caller, set_up
    from bench.rounds import run
    from mcp_django import ignores_object

    set_up("january")
    who, page = caller("admin"), {"model": contestants.MODEL, "limit": contestants.PAGE}

    def contestant(hooks: Mapping[str, Callable[..., Any]]) -> Any:
        site = _site(hooks)
        found = contestants.tool(who, "find_records", page)
        tool = site.tools["find_records"].run
        found.prepare = lambda: contestants.exchange_of(who, "find_records", page, site=site)
        found.answer = lambda exchange: tool(exchange, page)
        return found

    pairs = {}
    for name, hooks in _hooks().items():
        declared = {hook: ignores_object(_again(function)) for hook, function in hooks.items()}
        pairs[name] = contestant(declared), contestant(hooks)
        if pairs[name][0].once() != pairs[name][1].once():
            raise SystemExit(f"{name}: both pages must be the same")
    for _ in tqdm(run([one for pair in pairs.values() for one in pair], rounds, 20), total=rounds, disable=None):
        pass
    print(f"{'':<28}{'declared':>12}{'asked':>12}{'to it':>8}")
    for name, (declared, asked) in pairs.items():
        times = f"{declared.median * 1e6:>9,.0f} µs{asked.median * 1e6:>9,.0f} µs"
        print(f"{name:<28}{times}{asked.median / declared.median:>8.3f}")
    singly = {name: pair for name, pair in pairs.items() if name != "all four"}
    return [
        Goal(f"a page with {name} asked", asked.median / declared.median, MOST)
        for name, (declared, asked) in singly.items()
    ]


def _again(hook: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of a hook, which may be decorated."""
    return FunctionType(hook.__code__, hook.__globals__, hook.__name__, hook.__defaults__, hook.__closure__)


def _site(hooks: Mapping[str, Callable[..., Any]]) -> Any:
    """A site with an admin of its own, that of the demo, in which flights have these hooks."""
    from django.apps import apps
    from django.contrib import admin

    from demo_project.flights.models import Flight
    from mcp_django import MCPSite

    own = admin.AdminSite(name=f"bench-{id(hooks)}")
    for model in apps.get_models():
        if admin.site.is_registered(model):
            cls = type(admin.site.get_model_admin(model))
            own.register(model, type(cls.__name__, (cls,), dict(hooks)) if model is Flight else cls)
    return MCPSite(f"bench-{id(hooks)}", admin_site=own)


if __name__ == "__main__":
    sys.exit(main())
