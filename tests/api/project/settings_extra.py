"""What the settings of a test take over from this project."""

INSTALLED_APPS = ["rest_framework", "rest_framework.authtoken", "django_filters", "tests.api.project"]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "tests.api.project.middleware.AuthorizationMiddleware",
    "tests.api.project.middleware.SeenUserMiddleware",
    "tests.api.project.middleware.TenantMiddleware",
]

ROOT_URLCONF = "tests.api.project.urls"
