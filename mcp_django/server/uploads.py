"""Who may upload a file: a caller for whom there is something that takes one."""

from __future__ import annotations

from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING

from django import forms
from django.db import models

from mcp_django.access.permissions import check_scopes, has_declined, using_tool
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.uploads import names, upload_rows
from mcp_django.bridge.writes import access
from mcp_django.protocol.errors import InsufficientScope, InvalidRequest
from mcp_django.server.step_up import add_challenge

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

_WRITING: tuple[Operation, ...] = ("create", "update")


class NothingTakesFiles(InvalidRequest):
    """The caller may call no tool, and write no model, that takes a file."""

    reason = "NOT_FOUND"
    http_status = HTTPStatus.NOT_FOUND

    def __init__(self) -> None:
        super().__init__("There is nothing that takes a file.")


def check_takes_files(site: Site, request: MCPRequest) -> None:
    """Raises NothingTakesFiles, and InsufficientScope where the client's user could give it the right to something."""
    if takes_files(site, request):
        return
    try:
        check_scopes(request, lambda: takes_files(site, request))
    except InsufficientScope as error:
        if not has_declined(request, error.needed, ""):
            add_challenge(site, request, error)
            raise
    raise NothingTakesFiles


def store(site: Site, request: MCPRequest, content: bytes, name: str, content_type: str = "") -> str:
    """Upload a file that is here already, for the request's principal. Returns its URI. Raises MCPError."""
    check_takes_files(site, request)
    media_type = names.media_type(content_type, name)
    file_name = names.file_name(name, media_type)
    upload = upload_rows.begin(site, request.mcp.principal, file_name, media_type, len(content))
    upload_rows.add(upload, 0, BytesIO(content), len(content))
    return upload.uri


def takes_files(site: Site, request: MCPRequest) -> bool:
    """Whether the caller may call a tool with an argument that is a file, or write a model with a field that is one."""
    tools = [tool for tool in site.tools.values() if tool.takes_files]
    return catalog.may_call_one_of(site, request, tools) or any(_may_write(site, request, one) for one in _WRITING)


def _may_write(site: Site, request: MCPRequest, operation: Operation) -> bool:
    tool = site.tools.get(f"{operation}_record")
    if tool is None or not catalog.may_call_one_of(site, request, [tool]):
        return False
    with using_tool(request, tool.name):
        rights = Rights(site, request)
        return any(_has_files(site, model) for model in access.writable_models(rights, operation))


def _has_files(site: Site, rights: ModelRights) -> bool:
    """Whether the form of the model, or an inline of it, may have a file. A hook of the ModelAdmin may add others."""
    written = [rights.model, *(inline.model for inline in site.inlines.get(rights.model, ()))]
    if any(isinstance(field, models.FileField) for model in written for field in model._meta.concrete_fields):
        return True
    declared = getattr(access.admin_of(rights).form, "base_fields", {})
    return any(isinstance(field, forms.FileField) for field in declared.values())
