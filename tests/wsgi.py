"""The WSGI application of the server processes that tests start. ``TEST_MODULE`` names one that declares more tools."""

import os
from importlib import import_module

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")

from django.core.wsgi import get_wsgi_application

application = get_wsgi_application()
if os.environ.get("TEST_MODULE"):
    import_module(os.environ["TEST_MODULE"])
