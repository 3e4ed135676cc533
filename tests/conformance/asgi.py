import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.conformance.settings")

import mcp_django

application = mcp_django.routing.get_asgi_application()
