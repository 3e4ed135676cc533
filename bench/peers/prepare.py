"""Gives the database of another server its tables, and the reader a token, which is printed."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.peers.settings")
django.setup()

from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402

from bench.peers import PEER  # noqa: E402

call_command("migrate", verbosity=0)
reader = User.objects.get(username="reader")
if PEER == "mcpz":
    from django_mcpz.bearer_tokens.models import Token as BearerToken

    print(BearerToken.create(name="bench", user=reader)[1])
else:
    from rest_framework.authtoken.models import Token

    print(Token.objects.create(user=reader).key)
