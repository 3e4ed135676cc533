"""The WSGI application of our own server."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.served.settings")

application = get_wsgi_application()
