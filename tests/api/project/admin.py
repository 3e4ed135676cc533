"""The project has an API, and no pages in the admin: its package for tokens brings one."""

from django.contrib import admin
from rest_framework.authtoken.models import TokenProxy

admin.site.unregister(TokenProxy)
