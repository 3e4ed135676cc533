"""The requests with which the API is compared: at least one for each method of each URL pattern."""

from tests.api.project.case import Case
from tests.api.project.requests_shop import CATALOG, CUSTOMERS, LINES, ORDERS

__all__ = ["CASES", "Case"]

ACCOUNTS = [
    Case("/api/me/"),
    Case("/api/me/", "PUT", body={"email": "me@example.org", "first_name": "M", "last_name": "E"}),
    Case("/api/me/", "PATCH", body={"first_name": "Me", "is_staff": True}, note="a read-only field is ignored"),
    Case("/api/me/", "PATCH", body={"email": "nowhere"}, note="invalid"),
    Case(
        "/api/auth/password/",
        "POST",
        body={"old_password": "secret-of-anna", "new_password": "another-secret"},
        note="the password is anna's",
    ),
    Case("/api/auth/register/", "POST", body={"username": "nina", "password": "secret-of-nina"}),
    Case("/api/auth/register/", "POST", body={"username": "anna", "password": "short"}, note="invalid"),
    Case("/api/auth/login/", "POST", body={"username": "otto", "password": "secret-of-otto"}),
    Case("/api/auth/login/", "POST", body={"username": "ines", "password": "secret-of-ines"}, note="inactive"),
    Case("/api/auth/token/", "POST", body={"username": "otto", "password": "secret-of-otto"}),
    Case("/api/auth/token/", "POST", body={"username": "otto", "password": "wrong"}, note="invalid"),
    Case("/api/staff/", note="the root of a router"),
    Case("/api/staff/.json", note="with a format"),
    Case("/api/staff/groups/"),
    Case("/api/staff/groups/", "POST", body={"name": "packers"}),
    Case("/api/staff/groups/", "POST", body={"name": "buyers"}, note="the name is taken"),
    Case("/api/staff/groups/{group.pk}/"),
    Case("/api/staff/groups/{group.pk}/", "PUT", body={"name": "customers"}),
    Case("/api/staff/groups/{group.pk}/", "PATCH", body={"name": "customers"}),
    Case("/api/staff/groups/{group.pk}/", "DELETE"),
    Case("/api/staff/groups.json", note="with a format"),
    Case("/api/staff/groups.json", "POST", body={"name": "packers"}, note="with a format"),
    Case("/api/staff/groups/{group.pk}.json", note="with a format"),
    Case("/api/staff/groups/{group.pk}.json", "PUT", body={"name": "customers"}, note="with a format"),
    Case("/api/staff/groups/{group.pk}.json", "PATCH", body={"name": "customers"}, note="with a format"),
    Case("/api/staff/groups/{group.pk}.json", "DELETE", note="with a format"),
]

ANSWERS = [
    Case("/api/answers/csv/"),
    Case("/api/answers/export/"),
    Case("/api/answers/export/", query={"format": "csv"}),
    Case("/api/answers/envelope/"),
    Case("/api/answers/page/", note="HTML of a template"),
    Case("/api/answers/imprint/", note="HTML of a view"),
    Case("/api/answers/moved/", note="302"),
    Case("/api/answers/stream/"),
    Case("/api/answers/endless/", note="never ends: read its first part alone"),
    Case("/api/answers/newest/"),
    Case("/api/answers/numbers/"),
    Case("/api/answers/open-count/"),
    Case("/api/answers/nothing/", note="204"),
    Case("/api/answers/text/"),
]

IDENTITY = [
    Case("/api/cached/tokens/", note="cached for all sessions: clear the cache before each call"),
    Case("/api/cached/cookies/", note="cached for the session"),
    Case("/api/visits/", note="counts in the session"),
    Case("/api/machine/", note="401 without X-Service-Key"),
    Case("/api/nobody/", note="AnonymousUser for all"),
    Case("/api/scoped/", note="401 without a token"),
    Case("/api/token-only/", note="401 without a token"),
    Case("/api/seen-user/"),
    Case("/api/tenant/", note="has the host of the request"),
    Case("/api/inside/", note="depends on the address of the client"),
    Case("/api/throttled/", note="three times in a minute: clear the cache before each call"),
    Case("/api/v1/greeting/"),
    Case("/api/v2/greeting/"),
    Case("/api/v3/greeting/", note="no such version"),
    Case("/api/greeting/", note="the version of the Accept header"),
]

WRITES = [
    Case("/api/writes/non-atomic/", "POST", body={"text": "written"}),
    Case("/api/writes/non-atomic/", "POST", body={}, note="invalid"),
    Case("/api/writes/invalid/", "POST", body={"text": "written"}, note="writes and answers 400"),
    Case("/api/writes/crash/", "POST", body={"text": "written"}, note="writes and raises ZeroDivisionError"),
    Case("/api/exit/0/"),
    Case("/api/exit/3/", note="raises SystemExit"),
    Case("/api/twice/", "POST", body={"b": 1, "a": 2}),
    Case("/api/webhook/", "POST", body={"event": "paid"}),
    Case("/api/webhook/", "POST", body=["paid"], note="invalid"),
    Case("/api/health/"),
    Case("/api/plain/", note="a view of Django's"),
    Case("/api/asynchronous/", note="a view of Django's on the event loop"),
]

CASES = [*ORDERS, *LINES, *CATALOG, *CUSTOMERS, *ACCOUNTS, *ANSWERS, *IDENTITY, *WRITES]
