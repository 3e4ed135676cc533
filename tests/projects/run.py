"""Compares one project with its admin: ``python -m tests.projects.run NAME [--write]``, in the project's environment.

What is shown must differ as ``NAME.differences.txt`` says. What the endpoint shows and the admin does not stands in no
file: it fails the run. What is done must differ as ``NAME.deeds.txt`` says, and what is sent of forms as
``NAME.forms.txt``.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite
    from tests.projects.rows import Factory

HERE = Path(__file__).parent
#: The ModelAdmins of each project whose forms are compared, at least, and the rows that both a person and an agent
#: write: fewer would be a mistake of the comparison.
FEWEST = {
    "django_tests": (150, 340), "oscar": (60, 75), "packages": (125, 120), "popular": (30, 27), "shapes": (30, 44),
}  # fmt: skip

#: The projects of which is told how much of their change pages is in pages of rows.
MEASURED = ("packages", "shapes")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("--write", action="store_true", help="write the file anew; new lines wait for their reason")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # Those of the packages.
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PROJECT_FOLDER"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = f"tests.projects.{options.name}.settings"
        import django

        django.setup()
        with _tables():
            return _run(options.name, write=options.write)


@contextmanager
def _tables() -> Iterator[None]:
    """Those of all models: in the folder of the run, or on a server in a database that is dropped afterwards."""
    from django.core.management import call_command
    from django.db import connection

    if connection.vendor == "sqlite":
        call_command("migrate", run_syncdb=True, verbosity=0)
        yield
        return
    name = connection.settings_dict["NAME"]
    connection.creation.create_test_db(verbosity=0, autoclobber=True, serialize=False)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def _run(name: str, *, write: bool) -> int:
    from mcp_django.bridge.sites import all_sites
    from tests.projects.comparison import is_leak
    from tests.projects.forms import hold_defaults
    from tests.projects.rows import Factory

    sites = [site for site in sorted(all_sites(), key=lambda site: site.name) if len(site.admin_sites) == 1]
    for site in sites:
        _register_people(site)
    ours = {"mcp_django.change": _change, "mcp_django.tokentemplate": _template}
    factory = Factory({**ours, **import_module(f"tests.projects.{name}.makers").MAKERS})
    shown = list(_differences(name, sites, factory))
    wrong = [f"LEAK: {one}" for one in shown if is_leak(one)]
    wrong += _unknown(f"{name}.differences.txt", [one for one in shown if not is_leak(one)], write=write)
    wrong += [*_failed_checks(), *_unexplained(sites), *_failed_pages(sites)]
    if name in MEASURED:
        print("\n".join(_measures(sites, factory)))
    # Last, since these hold the defaults of all models.
    hold_defaults()
    deeds, written = _deeds(name, sites, factory)
    wrong += _unknown(f"{name}.deeds.txt", deeds, write=write)
    forms, admins = _forms(name, sites, factory)
    wrong += _unknown(f"{name}.forms.txt", forms, write=write)
    for count, least, what in zip((admins, written), FEWEST[name], ("forms of ModelAdmins", "rows"), strict=True):
        if count < least:
            wrong.append(f"{count} {what} were compared: {least} are expected at least")
    print("\n".join(wrong))
    _say(name, f"{len(shown) + len(deeds) + len(forms)} differences, {len(wrong)} that are wrong: see {name}.*.txt")
    return 1 if wrong else 0


def _register_people(site: MCPSite) -> None:
    """Expose the users, groups and permissions that the admin of the site has, which only code does."""
    from django.db.models import Model

    from mcp_django.bridge.declared.secrets import is_about_rights

    # A package may register what only looks like a model.
    models = [model for admin_site in site.admin_sites for model in admin_site._registry if issubclass(model, Model)]
    site.register([model for model in models if is_about_rights(model) and not site.is_registered(model)])


def _unknown(file: str, found: list[str], *, write: bool) -> list[str]:
    """The lines by which the file is out of date."""
    from tests.projects import differences

    known = differences.read(HERE / file)
    if write:
        differences.write(HERE / file, found, known)
    return differences.compare(known, found)


def _differences(name: str, sites: list[MCPSite], factory: Factory) -> Iterator[str]:
    """The differences of all sites, each reported as it is done: the run takes a minute."""
    from tests.projects.comparison import Comparison

    begun = time.monotonic()
    _remove_permissions_to_write()
    _fill(factory, sites)
    makers = import_module(f"tests.projects.{name}.makers")
    guests = {"guest": makers.guest(factory)} if hasattr(makers, "guest") else {}
    for done, site in enumerate(sites, 1):
        # The lists of all models beside each page take a third of the time.
        site.admin_sites[0].get_app_list = lambda *args, **kwargs: []  # type: ignore[method-assign]
        site.admin_sites[0].enable_nav_sidebar = False
        lines = Comparison(site, {**_people(site), **guests}, factory).lines()
        yield from lines
        told = f"{len(lines)} differences after {time.monotonic() - begun:.0f} s"
        _say(name, f"{done} of {len(sites)}, the site {site.name}: {told}")
    yield from (f"{model._meta.label_lower}: no rows, since {why}" for model, why in factory.failed.items())


def _deeds(name: str, sites: list[MCPSite], factory: Factory) -> tuple[list[str], int]:
    """How what a superuser's agent does differs from what the superuser does, and how many rows both write."""
    from tests.projects.deeds import Deeds
    from tests.projects.written import Written

    begun = time.monotonic()
    done = [kind(site, _people(site)["root"], factory) for site in sites for kind in (Deeds, Written)]
    lines = [line for deeds in done for line in deeds.lines()]
    tried = sum((deeds.tried for deeds in done), Counter())
    counted = ", ".join(f"{count} {kind}" for kind, count in sorted(tried.items()))
    _say(name, f"deeds: {counted}: {len(lines)} differences after {time.monotonic() - begun:.0f} s")
    return lines, tried["create by both"] + tried["update by both"]


def _forms(name: str, sites: list[MCPSite], factory: Factory) -> tuple[list[str], int]:
    """How what is sent of forms differs, and of how many ModelAdmins they are."""
    from tests.projects.forms import Forms

    begun = time.monotonic()
    done = [Forms(site, _people(site)["root"], factory) for site in sites]
    lines = [line for forms in done for line in forms.lines()]
    admins = sum(len(forms.pages) for forms in done)
    pages, saved = sum(forms.pages.total() for forms in done), sum(forms.saved for forms in done)
    counted = f"{pages} forms of {admins} ModelAdmins, of which {saved} were saved"
    _say(name, f"{counted}: {len(lines)} differences after {time.monotonic() - begun:.0f} s")
    return lines, admins


def _measures(sites: list[MCPSite], factory: Factory) -> Iterator[str]:
    """How much a superuser sees, and a user who may view each model and change none."""
    from tests.projects.measure import measure

    for site in sites:
        viewer = _user("viewer", site.model_admins)
        yield from measure(site, _people(site)["root"], factory).lines(f"{site.name}, a superuser")
        yield from measure(site, viewer, factory).lines(f"{site.name}, a user with permissions to view")


def _say(name: str, text: str) -> None:
    print(f"{name}: {text}", flush=True)


def _remove_permissions_to_write() -> None:
    """Nobody here has one, and forms with a choice of all permissions take half of the time."""
    from django.contrib.auth.models import Permission
    from django.db.models import Q

    names = Q(*(("codename__startswith", f"{action}_") for action in ("add", "change", "delete")), _connector=Q.OR)
    Permission.objects.filter(names).delete()


def _fill(factory: Factory, sites: list[MCPSite]) -> None:
    """Make rows of each model of the admin sites, and of the models in their inlines."""
    registered = [(model, model_admin) for site in sites for model, model_admin in site.model_admins.items()]
    for model, _ in registered:
        for row in factory.rows_of(model):
            factory.relate(row)
    for model, model_admin in registered:
        for row in factory.rows_of(model)[:1]:
            factory.fill_inlines(model_admin, row)


def _change(factory: Factory, model: Any) -> Any:
    """A change by an agent: some of its texts are read as JSON, and as the name of a model."""
    texts = {"model": "auth.group", "keys": "[]", "arguments": "{}", "result": "{}"}
    return model.objects.create(**{**factory.values(model), **texts})


def _template(factory: Factory, model: Any) -> Any:
    """A template of tokens, whose limits are an object."""
    return model.objects.create(**{**factory.values(model), "scopes": ["read"], "limits": {}})


def _people(site: MCPSite) -> Mapping[str, Any]:
    """A superuser, a user who may view every second model of the site but ours, and one who may view a single one."""
    others = (model for model in site.model_admins if model._meta.app_label != "mcp_django")
    registered = sorted(others, key=lambda model: model._meta.label_lower)
    return {
        "root": _user("root", []),
        "reader": _user("reader", registered[::2]),
        "clerk": _user("clerk", registered[:1]),
    }


def _user(name: str, models: Iterable[Any]) -> Any:
    """The user of this name, who may view these models. ``root`` is a superuser."""
    from django.contrib.auth import get_user_model

    user: Any
    user, _ = get_user_model()._default_manager.get_or_create(
        username=name, defaults={"email": f"{name}@example.com", "is_staff": True, "is_superuser": name == "root"}
    )
    user.user_permissions.set(one for model in models for one in _view_permissions(model))
    return user


def _view_permissions(model: Any) -> Any:
    """The one by which a user sees the model; none where the model has no such permission."""
    from django.contrib.auth.models import Permission

    opts = model._meta
    return Permission.objects.filter(content_type__app_label=opts.app_label, codename=f"view_{opts.model_name}")


def _failed_checks() -> Iterator[str]:
    """Our own system checks must find no error in a project of others, and name a cure with each warning."""
    from django.core import checks

    for message in checks.run_checks():
        if str(message.id).startswith("mcp_django.") and (message.level >= checks.ERROR or not message.hint):
            yield f"check: {message}"


def _unexplained(sites: list[MCPSite]) -> Iterator[str]:
    """What ``mcp_inventory --compare-admin`` says of a site where something is missing without a reason."""
    from django.core.management import CommandError, call_command

    for site in sites:
        try:
            call_command("mcp_inventory", "--site", site.name, "--compare-admin", stdout=StringIO())
        except CommandError as error:
            yield f"mcp_inventory --site {site.name} --compare-admin: {error}"


def _failed_pages(sites: list[MCPSite]) -> Iterator[str]:
    """The pages of the console that a superuser cannot open, in the order of the sites."""
    from django.test import Client

    from tests.support.console import pages

    for site in sites:
        [admin_site], client = site.admin_sites, Client(raise_request_exception=False)
        client.force_login(_people(site)["root"])
        ours = {model: row.pk for model, _ in pages(admin_site, {}) if model and (row := model.objects.first())}
        for _, url in pages(admin_site, ours):
            answer = client.get(url)
            # Some answer to a POST alone, or to a row that is not there.
            if answer.status_code not in (200, 302, 403, 404, 405):
                yield f"console: {url}: {answer.status_code}"


if __name__ == "__main__":
    sys.exit(main())
