"""Drives the actions of packages that ask with a page: ``python -m tests.projects.asking.run [--write]``.

Each action of the ModelAdmin is called by an agent, in a transaction that is rolled back. ``asking.table.txt`` says for
each which package it is of, what its pages ask, and how it ended: driven, or the reason why it was not. The run fails
where that is no longer so, where Chromium sends something else of a page that is filled in alike, and where a hidden
column shows anywhere but in a file that an action makes.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import warnings
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.projects.asking import sent

TABLE = Path(__file__).parent.parent / "asking.table.txt"
CANARY = "sk-canary"
_CSV = {"name": "states.csv", "base64": b64encode(b"name,state\nball,gone\n").decode()}
#: Package → action → the answers to its pages.
CASES: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]] = {
    "Django": {"delete_selected": [{}]},
    "django-admin-action-forms": {"set_state": [{"values": {"state": "is gone"}}], "confirm_only": [{}]},
    "django-admin-action-tools": {
        "tool_confirmed": [{}],
        "tool_form": [{"values": {"state": "gone"}}, {"button": "_confirm_action"}],
    },
    "django-admin-form-action": {"form_action": [{"values": {"state": "gone"}}]},
    "django-admin-wizard": {"Wizard": [{"values": {"state": "gone"}}]},
    "django-adminactions": {
        "mass_update": [{"values": {"chk_id_state": True, "state": "gone"}}],
        "export_as_csv": [{}],
        "export_as_xls": [{}],
        "export_as_fixture": [{}],
        "export_delete_tree": [{}],
        "byrows_update": [{"values": {"form-0-state": "gone"}}],
        "bulk_update": [
            {"values": {"_file": _CSV, "fld-index_field": ["name"], "fld-name": "name", "fld-state": "state"}}
        ],
        "find_duplicates_action": [{"values": {"state": True}}],
        "graph_queryset": [{"values": {"axes_x": "state"}}],
        "merge": [{"button": "preview"}, {}],
    },
    "django-class-based-admin-actions": {"gone": [{}], "changed": [{"values": {"state": "gone"}}]},
    "django-import-export": {"export_admin_action": [{"values": {"format": "csv"}}]},
}
#: The same for actions on the page of one row, with its model.
ROWS: Mapping[str, tuple[str, Mapping[str, Sequence[Mapping[str, Any]]]]] = {
    "django-admin-extra-buttons": ("buttoned", {"act": [], "ask": [{}], "closed": []}),
    "django-fsm-2-admin": ("flowing", {"fsmtransition-state-let_go": []}),
    "django-inline-actions": ("inlined", {"act": [], "ask": [{"values": {"state": "gone"}}]}),
    "django-object-actions": ("linked", {"act": [], "post": [], "ask": [{"values": {"state": "gone"}}]}),
    "django-reversion": ("versioned", {"revert": [{"button": "_save"}]}),
    "django-simple-history": ("recorded", {"revert": [{"button": "_save"}]}),
    "django-unfold": (
        "unfolded",
        {"act": [], "beside": [], "submit": [], "ask": [{"values": {"state": "gone"}}]},
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--write", action="store_true", help="write the table anew")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Those of the packages.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROJECT_FOLDER"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.projects.asking.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", run_syncdb=True, verbosity=0)
        with sent.recorded() as answers:
            lines = list(_lines())
        other = sent.differing(answers)
    if options.write:
        TABLE.write_text("".join(f"{line}\n" for line in lines))
    known = TABLE.read_text().splitlines()
    wrong = [
        *(f"new: {one}" for one in lines if one not in known),
        *(f"gone: {one}" for one in known if one not in lines),
    ]
    leaks = [line for line in lines if line.startswith("LEAK")]
    problems = [*wrong, *leaks, *other]
    told = f"asking: {len(lines)} actions, {len(answers)} answers held against Chromium, {len(problems)} that are wrong"
    print("\n".join([*problems, told]), flush=True)
    return 1 if problems else 0


def _lines() -> Iterator[str]:
    import reversion
    from django.contrib.auth.models import User
    from django.db import transaction

    from mcp_django import site
    from mcp_django.models import Tool
    from tests.projects.asking.desk.models import Item, Owner, Row
    from tests.support.asking import DirectPeer

    agent = DirectPeer(User.objects.create_superuser("root"), "read", "actions", "write")
    owner = Owner.objects.create(name="ann")
    for name in ("ball", "kite"):
        Item.objects.create(name=name, owner=owner, api_key=f"{CANARY}-{name}")
        for model in Row.__subclasses__():
            with reversion.create_revision():
                made = model._default_manager.create(name=name, price=7, api_key=f"{CANARY}-{name}")
            made.price = 1
            made.save()
    cases = list(_cases())
    there = {name for name in site.tools if name.startswith("desk_")}
    yield from (f"no case for {name}" for name in sorted(there ^ {tool for _, _, tool, _, _ in cases}))
    for package, model, tool, name, pages in cases:
        Tool.objects.update_or_create(site="mcp", name=tool, defaults={"enabled": True})
        with transaction.atomic():
            told = " → ".join(_driven(agent, tool, pages, _rows_of(model)))
            transaction.set_rollback(True)
        yield f"{package} {version(package)}: {name}: {told}"


def _cases() -> Iterator[tuple[str, str, str, str, Sequence[Mapping[str, Any]]]]:
    """Package, model, tool, action, and the answers to its pages."""
    for package, actions in CASES.items():
        yield from ((package, "item", f"desk_item_{name}", name, pages) for name, pages in actions.items())
    for package, (model, actions) in ROWS.items():
        for name, pages in actions.items():
            yield package, model, f"desk_{model}_object_{name}", name, pages


def _driven(agent: Any, tool: str, pages: Sequence[Mapping[str, Any]], rows: Callable[[], list[Any]]) -> Iterator[str]:
    """What each page asks, and how it ended."""
    token: Mapping[str, str] = {}
    before = rows()
    about: Mapping[str, Any] = {"id": "1"} if "_object_" in tool else {"ids": ["1", "2"]}
    for number in range(len(pages) + 1):
        sent = {"pages": list(pages[:number])} if number else {}
        result = agent.call(tool, **about, **sent, **token)
        text = result["content"][0]["text"]
        shown: Mapping[str, Any] = json.loads(text) if text.startswith("{") else {}
        if CANARY in text or "api_key" in text:
            yield "LEAK"
        if shown.get("status") != "form":
            yield f"refused: {shown or text}" if result["isError"] else f"driven: {_outcome(before, rows(), result)}"
            return
        token = {"confirm": shown["confirm"]}
        if before != rows():
            yield "NOT ROLLED BACK"
        yield f"asks {', '.join([*shown.get('fields', {}), *shown.get('buttons', {})]) or 'nothing'}"


def _rows_of(model: str) -> Callable[[], list[Any]]:
    from django.apps import apps

    found = apps.get_model("desk", model)
    names = ["pk", *(one.attname for one in found._meta.concrete_fields if not one.primary_key)]
    return lambda: list(found._base_manager.order_by("pk").values_list(*names))


def _outcome(before: Sequence[Any], now: Sequence[Any], result: Any) -> str:
    after = {row[0]: row for row in now}
    changed = sum(row[0] in after and after[row[0]] != row for row in before)
    deleted = sum(row[0] not in after for row in before)
    written = {"changed": changed, "deleted": deleted}
    found = [f"{count} {word}" for word, count in written.items() if count]
    for file in (block["resource"] for block in result["content"] if block["type"] == "resource"):
        has_hidden = CANARY in file.get("text", "") or CANARY.encode() in b64decode(file.get("blob", ""))
        found.append("a file with the hidden column" if has_hidden else "a file")
    return ", ".join(found) or "nothing changed"


if __name__ == "__main__":
    sys.exit(main())
