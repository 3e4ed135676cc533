import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.end_to_end.clients.desk.settings")

import mcp_django

application = mcp_django.routing.get_asgi_application()
