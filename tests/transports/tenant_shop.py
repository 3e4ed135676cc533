"""Registers the tags of the tenants in a server process: see ``tests.end_to_end.test_tenants``."""

import os

from django.contrib import admin

from tests.shop.models import Tag
from tests.transports.tenancy import admin_of

if admin.site.is_registered(Tag):
    admin.site.unregister(Tag)
admin.site.register(Tag, admin_of(os.environ["TENANT_KIND"]))
