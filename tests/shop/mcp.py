"""Users and groups are exposed only where code says so: tests that read them find them here."""

from django.contrib.auth.models import Group, User

from mcp_django import site

site.register([User, Group])
