"""The ASGI application: MCP over HTTP and WebSocket, with the site behind it.

`ASGIStaticFilesHandler` serves the admin's CSS and JavaScript, which a deployed site leaves to its web server.
"""

import os

from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
from django.core.asgi import get_asgi_application as get_django_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "demo_project.settings")

# Before mcp_django: this sets up the apps, and only then can their models be imported.
django_application = ASGIStaticFilesHandler(get_django_application())

from mcp_django.routing import get_asgi_application  # noqa: E402

application = get_asgi_application(django_application)
