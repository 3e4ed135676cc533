"""The WSGI application of the other servers that are Django views."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.peers.settings")

application = get_wsgi_application()
