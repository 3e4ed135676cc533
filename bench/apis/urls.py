"""The paths of the project with another server in the place of ours."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from django.urls import include, path, re_path

from bench.apis import PEER

# The project includes our paths, whose packages the environments of the others do not have.
_none: Any = type(sys)("mcp_django.urls")
_none.urlpatterns = []
sys.modules["mcp_django.urls"] = _none

urlpatterns = list(import_module("tests.api.project.urls").urlpatterns)
if PEER == "frisian":
    urlpatterns.append(re_path(r"^mcp/?", include("frisian_mcp.urls")))
if PEER == "rest":
    from bench.apis.rest import View

    urlpatterns.append(path("mcp/", View.as_view()))
if PEER == "toolset":
    urlpatterns.append(path("", include("mcp_server.urls")))
