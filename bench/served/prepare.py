"""Makes our database: tables, flights, and a reader with two tokens, which are printed.

Its argument says which flights.
The first token is one that was made by hand, the second one that an OAuth client has got.
"""

import os
import sys
from datetime import timedelta

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "bench.served.settings")
django.setup()

from django.contrib.auth.models import Permission, User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.utils import timezone  # noqa: E402

from mcp_django.models import AccessToken, Grant  # noqa: E402

call_command("migrate", verbosity=0)
call_command("load_flights", f"--rows={sys.argv[1]}", stdout=sys.stderr, stderr=sys.stderr)
reader = User.objects.create_user("reader")
models = ("flight", "airline", "airport", "plane")
reader.user_permissions.set(Permission.objects.filter(codename__in=[f"view_{model}" for model in models]))
scopes = ["read", "actions"]
print(AccessToken.objects.create_token(user=reader, name="bench", scopes=scopes)[1])
end = timezone.now() + timedelta(days=30)
grant = Grant.objects.create(
    user=reader, client="https://client.example/bench", resource="http://localhost/mcp", scopes=scopes, expires_at=end
)
print(AccessToken.objects.create_token(user=reader, scopes=scopes, grant=grant, expires_at=end)[1])
with connection.cursor() as cursor:
    if connection.vendor == "sqlite":
        # All is in the one file, which is copied.
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    else:
        cursor.execute("ANALYZE")
