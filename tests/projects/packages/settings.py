"""Three dozen packages together in one project, on PostgreSQL."""

import os

from machina import MACHINA_MAIN_STATIC_DIR, MACHINA_MAIN_TEMPLATE_DIR

from tests.projects.base import *  # noqa: F403

INSTALLED_APPS = [
    # Before the admin, whose templates and autodiscovery they change.
    "modeltranslation",
    "dal",
    "dal_select2",
    *INSTALLED_APPS,  # noqa: F405
    "django.contrib.humanize",
    "django.contrib.sites",
    "adminsortable2",
    "cms",
    "constance",
    "django_cleanup.apps.CleanupConfig",
    "django_fsm",
    "django_json_widget",
    "django_ledger",
    "django_lifecycle_checks",
    "django_q",
    "django_rq",
    "django_select2",
    "djmoney",
    "djstripe",
    "easy_thumbnails",
    "filer",
    "guardian",
    "haystack",
    "helpdesk",
    "hordak",
    "import_export",
    "invitations",
    "localflavor",
    "machina",
    "machina.apps.forum",
    "machina.apps.forum_conversation",
    "machina.apps.forum_conversation.forum_attachments",
    "machina.apps.forum_conversation.forum_polls",
    "machina.apps.forum_feeds",
    "machina.apps.forum_moderation",
    "machina.apps.forum_search",
    "machina.apps.forum_tracking",
    "machina.apps.forum_member",
    "machina.apps.forum_permission",
    "menus",
    "mptt",
    "nested_admin",
    "ordered_model",
    "organizations",
    "payments",
    "phonenumber_field",
    "polymorphic",
    "rangefilter",
    "rest_framework",
    "sekizai",
    "silk",
    "smart_selects",
    "treebeard",
    "waffle",
    "widget_tweaks",
    "tests.projects.packages.shop",
]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "guardian.backends.ObjectPermissionBackend",
]
MIDDLEWARE = [
    *MIDDLEWARE,  # noqa: F405
    "silk.middleware.SilkyMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "machina.apps.forum_permission.middleware.ForumPermissionMiddleware",
    "waffle.middleware.WaffleMiddleware",
    "cms.middleware.user.CurrentUserMiddleware",
    "cms.middleware.page.CurrentPageMiddleware",
    "cms.middleware.toolbar.ToolbarMiddleware",
    "cms.middleware.language.LanguageCookieMiddleware",
]
CONTEXT_PROCESSORS += [  # noqa: F405
    "cms.context_processors.cms_settings",
    "django_ledger.context.django_ledger_context",
    "machina.core.context_processors.metadata",
    "sekizai.context_processors.sekizai",
]
TEMPLATES[0]["DIRS"] = [MACHINA_MAIN_TEMPLATE_DIR]  # noqa: F405
STATICFILES_DIRS = [MACHINA_MAIN_STATIC_DIR]
#: The run makes it, and drops it at the end.
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": "mcp_django_packages",
        "HOST": os.environ.get("PGHOST", "127.0.0.1"),
        "USER": os.environ.get("PGUSER", "postgres"),
    }
}
CACHES = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "machina_attachments": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "attachments"},
}
LANGUAGES = [("en", "English"), ("de", "German")]
LANGUAGE_CODE = "en"
SITE_ID = 1
ROOT_URLCONF = "tests.projects.packages.urls"
X_FRAME_OPTIONS = "SAMEORIGIN"

CMS_CONFIRM_VERSION4 = True
CMS_PERMISSION = True
CMS_TEMPLATES = [("cms/welcome.html", "A page")]
CONSTANCE_BACKEND = "constance.backends.database.DatabaseBackend"
CONSTANCE_CONFIG = {"GREETING": ("Hello", "What the shop says.", str), "HOURS": (8, "How long it is open.", int)}
CURRENCIES = ("EUR", "USD")
DEFAULT_CURRENCY = "EUR"
DJSTRIPE_FOREIGN_KEY_TO_FIELD = "id"
DJSTRIPE_WEBHOOK_VALIDATION = "verify_signature"
FILER_ENABLE_PERMISSIONS = True
HAYSTACK_CONNECTIONS = {"default": {"ENGINE": "haystack.backends.simple_backend.SimpleEngine"}}
HELPDESK_TEAMS_MODE_ENABLED = False
HORDAK_INTERNAL_CURRENCY = "EUR"
MARKUP_FIELD_TYPES = (("plain", str), ("html", str))
PAYMENT_HOST = "example.com"
PAYMENT_MODEL = "shop.Payment"
PAYMENT_VARIANTS = {"default": ("payments.dummy.DummyProvider", {})}
PHONENUMBER_DEFAULT_REGION = "DE"
Q_CLUSTER = {"name": "shop", "orm": "default", "timeout": 60, "retry": 120}
RQ_QUEUES = {"default": {"HOST": "127.0.0.1", "PORT": 6379, "DB": 0}}
# No page is recorded: that would take longer than all else.
SILKY_INTERCEPT_PERCENT = 0
# Nothing listens there: no page may ask Stripe.
STRIPE_API_HOST = "http://127.0.0.1:9"
STRIPE_TEST_SECRET_KEY = "sk_test_of_a_project_that_never_asks_stripe"
USE_DJANGO_JQUERY = True
