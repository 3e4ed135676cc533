"""The shop of django-oscar with the API of django-oscar-api, by its documentation (docs/source/usage/quickstart)."""

from tests.projects.oscar.settings import *  # noqa: F403

INSTALLED_APPS = [*INSTALLED_APPS, "rest_framework", "oscarapi"]  # noqa: F405
MIDDLEWARE = [
    "oscarapi.middleware.ApiBasketMiddleWare" if one == "oscar.apps.basket.middleware.BasketMiddleware" else one
    for one in MIDDLEWARE  # noqa: F405
]
ALLOWED_HOSTS = ["localhost", "testserver"]
MCP = {**MCP, "ANONYMOUS_SCOPES": ["read", "write"]}  # noqa: F405
ROOT_URLCONF = "tests.projects.oscar_api.urls"
# Staff may change what the admin changes.
OSCARAPI_BLOCK_ADMIN_API_ACCESS = False
