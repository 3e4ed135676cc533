import hashlib
import os
import socket
import sys
from pathlib import Path
from textwrap import indent
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connections, transaction
from django.db.models import Q

from demo_project.flights.admin import JFK_OPERATIONS
from mcp_django import site
from mcp_django.console.pages.connecting import client_setups
from mcp_django.models import AccessToken, Tool

HOST = "127.0.0.1"

#: Tools that change or hand out data start switched off; the demo shows these two actions, and those that write.
ACTIONS = ["flights_flight_mark_cancelled", "flights_flight_export_as_csv"]
WRITING = [
    "describe_form", "preview_change", "create_record", "update_record", "delete_record", "update_records",
    "create_records", "undo_change", "get_change",
]  # fmt: skip

WELCOME = """
Open          {front}
              A board of departures that moves by push. Log in by a button, and cancel a flight.
MCP endpoint  {http}
              What an MCP client connects to.
WebSocket     {websocket}
              The same server for clients that prefer a socket.
Admin         {admin}
              Tools, tokens and flights. A client that watches a flight is notified when you change it.
                admin  / admin   may do everything
                ops    / ops     sees the flights from JFK only, may change them, and writes disruptions
                viewer / viewer  may look at flights, airports and airlines
Token         {token}
              A client sends it and acts as admin, with the scopes read, actions and write.

Try it: list the tools.

{curl}

Claude Code: log in as ops by /mcp, then "Authenticate", and tick what it may do.

{claude}

  Then ask: "How late were the flights from JFK?", or "Set the first one to delayed": it shows the change first.
  Or ask: "Cancel all flights to Boston on the first": the change waits until admin approves it,
  in the admin under Changes by agents.

Cursor: ~/.cursor/mcp.json

{cursor}

Others: open {http} in a browser.

MCP Inspector

  npx @modelcontextprotocol/inspector --cli {http} --transport http \\
    --header "Authorization: Bearer {token}" --method tools/list
"""


class Command(BaseCommand):
    help = "Set up the demo site, say how to connect to it, and serve it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="Where to serve (default: 8000).")
        parser.add_argument("--rows", default="january", help="Which flights to load; see load_flights.")
        parser.add_argument("--no-serve", action="store_false", dest="serve", help="Set up, and do not serve.")

    def handle(self, *args: Any, port: int, rows: str, serve: bool, **options: Any) -> None:
        if serve:
            check_port(port)
        call_command("migrate", verbosity=0)
        call_command("load_flights", f"--rows={rows}", stdout=self.stdout, stderr=self.stderr)
        with transaction.atomic():
            if not User.objects.exists():
                switch_on_tools(*ACTIONS, *WRITING)
                let_others_approve("update_records")
            admin = create_users()
            token = valid_token(admin)
        self.stdout.write(welcome(port, token))
        if serve:
            self.stdout.write(self.style.SUCCESS(f"Serving at http://{HOST}:{port}/ - stop with Ctrl-C."))
            self.stdout.flush()
            replace_with_daphne(port)


def check_port(port: int) -> None:
    """Raise `CommandError` if nothing could be served at the port."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError) as error:
            raise CommandError(
                f"Port {port} cannot be used ({error}). Choose another one: make demo PORT={port + 1}"
            ) from error


def switch_on_tools(*names: str) -> None:
    """Only for a new site: afterwards, which tools are on is the administrator's choice."""
    for name in names:
        Tool.objects.update_or_create(site=site.name, name=name, defaults={"enabled": True})


def let_others_approve(name: str) -> None:
    """As an administrator decides it on the page of the tool: nobody changes many flights alone."""
    Tool.objects.filter(site=site.name, name=name).update(asks="approve")


def create_users() -> User:
    """Create the three users that are absent, each with its name for a password, and return `admin`."""
    view = Q(codename__startswith="view_")
    work = Q(codename="change_flight") | Q(codename__endswith="_disruption")
    view_flights = Q(codename__in=["view_flight", "view_airport", "view_airline"])
    create_staff("ops", group_with(JFK_OPERATIONS, view | work))
    create_staff("viewer", group_with("Flight viewers", view_flights))
    admin = User.objects.filter(username="admin").first()
    return admin or User.objects.create_superuser("admin", password="admin")


def create_staff(username: str, group: Group) -> None:
    if not User.objects.filter(username=username).exists():
        user = User.objects.create_user(username, password=username, is_staff=True)
        user.groups.add(group)


def group_with(name: str, permissions: Q) -> Group:
    """The group of that name; a new one gets these permissions of the flights app."""
    group, created = Group.objects.get_or_create(name=name)
    if created:
        group.permissions.set(Permission.objects.filter(permissions, content_type__app_label="flights"))
    return group


def valid_token(user: User) -> str:
    """The token of an earlier start while it is valid, or a new one.

    The database has only its hash, so the token itself is kept in a file that no other user of the machine can read.
    """
    file = Path(settings.DEMO_DIR, "token")
    if file.exists():
        token = file.read_text().strip()
        digest = hashlib.sha256(token.encode()).hexdigest()
        if AccessToken.objects.current().filter(hash=digest).exists():
            return token
        file.unlink()
    _, token = AccessToken.objects.create_token(user=user, name="make demo", scopes=["read", "actions", "write"])
    file.touch(mode=0o600)
    file.write_text(f"{token}\n")
    return token


def welcome(port: int, token: str) -> str:
    """What to connect to, and how, ready to be pasted."""
    http = f"http://{HOST}:{port}/mcp"
    with_token, by_login = (
        {one.key: one.plain_text() for one in client_setups(http, "flights", token=given, logs_in=True)}
        for given in (token, None)
    )
    return WELCOME.format(
        front=f"http://{HOST}:{port}/",
        http=http,
        websocket=f"ws://{HOST}:{port}/mcp",
        admin=f"http://{HOST}:{port}/admin/",
        token=token,
        curl=indent(with_token["curl"], "  "),
        claude=indent(by_login["claude-code"], "  "),
        cursor=with_token["cursor"],
    )


def replace_with_daphne(port: int) -> None:
    connections.close_all()
    os.chdir(settings.BASE_DIR)  # Daphne imports the application from where it stands.
    daphne = [sys.executable, "-m", "daphne", "-b", HOST, "-p", str(port), "demo_project.asgi:application"]
    os.execv(sys.executable, daphne)  # noqa: S606 - every part is ours
