"""What ``expose`` names: whether a URL serves it, and whether it can be called."""

from __future__ import annotations

from collections.abc import Iterator

from django.apps import apps
from django.core.checks import CheckMessage, Warning

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import OAUTH_APP, get_conf
from mcp_django.core.web_pages import has_login_page
from mcp_django.protocol.unknown_names import nearest


def check_api(site: MCPSite) -> Iterator[CheckMessage]:
    """Check what a site exposes of the project's API. What permission classes say at request time cannot be checked."""
    if not site.exposes_api:
        return
    from mcp_django.bridge.api.defaults import MACHINES
    from mcp_django.bridge.api.operation_tools import tool_name

    api = site.api
    for exposure in api.serves_nothing():
        yield Warning(
            f"expose({exposure.target!r:.100}) offers nothing: no URL of ROOT_URLCONF serves it.",
            hint="Include it in the URLconf, or name the beginning of its paths, as expose('api/').",
            id="mcp_django.W036",
        )
    for page in api.pages_without_form():
        yield Warning(
            f"expose_form({page!r}) offers nothing: no URL of this name leads to a FormView, CreateView or UpdateView.",
            hint="A URL in a namespace is named with that, as 'shop:contact'.",
            id="mcp_django.W036",
        )
    names = [one.name for one in api.all]
    for name in api.unknown_names():
        yield Warning(
            f"expose() names the operation {name!r}, which there is not.",
            hint=f"manage.py mcp_inventory lists them.{nearest(name, names)}",
            id="mcp_django.W037",
        )
    machines = [name for name, why in api.left_out.items() if why is MACHINES]
    if machines:
        named = ", ".join(machines[:5]) + (f" and {len(machines) - 5} more" if len(machines) > 5 else "")
        yield Warning(
            f"{named}: no agent can call it, since its authentication is for machines, or checks more than who the "
            "user is.",
            hint="Say credentials=, a function that returns headers, or authentication='replace'; or exclude it.",
            id="mcp_django.W038",
        )
    for name, shared in api.shared_names.items():
        yield Warning(
            f"{' and '.join(shared)} would both be {name}: their URLs have no names that tell them apart.",
            hint="Give the URLs names, or the routers basenames, of their own.",
            id="mcp_django.W039",
        )
    for operation in api.named_tools():
        found = site.tools.get(tool_name(operation))
        if getattr(found, "operation", None) is not operation:
            yield Warning(
                f"{operation.name} is no tool of its own: another tool is named {tool_name(operation)}.",
                hint="Rename that tool, or the URL.",
                id="mcp_django.W040",
            )
    asks = any(one.consent != "preview" for one in api.operations.values() if not one.is_safe)
    if (asks or apps.is_installed(OAUTH_APP) or get_conf().SELF_SERVICE) and not has_login_page():
        yield Warning(
            "The API is exposed to everybody who has a login, and only staff can log in: LOGIN_URL leads to no page of "
            "the project, and the login of the admin refuses other people. Without one they cannot agree to what an "
            "agent asks.",
            hint="Set LOGIN_URL to the login page of the project.",
            id="mcp_django.W041",
        )
