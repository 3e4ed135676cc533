from dal import autocomplete
from django.contrib import admin
from django.urls import include, path
from machina import urls as machina_urls

from tests.projects.packages.shop.models import Brand

urlpatterns = [
    path("admin/", admin.site.urls),
    path("brands/", autocomplete.Select2QuerySetView.as_view(model=Brand), name="brands"),
    path("chaining/", include("smart_selects.urls")),
    path("filer/", include("filer.urls")),
    path("forum/", include(machina_urls)),
    path("helpdesk/", include("helpdesk.urls")),
    path("hordak/", include("hordak.urls", namespace="hordak")),
    path("invitations/", include("invitations.urls", namespace="invitations")),
    path("ledger/", include("django_ledger.urls", namespace="django_ledger")),
    path("nested/", include("nested_admin.urls")),
    path("payments/", include("payments.urls")),
    path("queues/", include("django_rq.urls")),
    path("select2/", include("django_select2.urls")),
    path("silk/", include("silk.urls", namespace="silk")),
    path("stripe/", include("djstripe.urls", namespace="djstripe")),
    path("", include("mcp_django.urls")),
    path("", include("cms.urls")),
]
