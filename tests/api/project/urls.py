"""The paths of the project: the shop's API, the MCP server and a page to log in."""

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import include, path, re_path
from rest_framework.routers import DefaultRouter, SimpleRouter
from rest_framework_nested.routers import NestedSimpleRouter

from tests.api.project import views_accounts as accounts
from tests.api.project import views_answers as answers
from tests.api.project import views_catalog as catalog
from tests.api.project import views_customers as customers
from tests.api.project import views_events as events
from tests.api.project import views_failures as failures
from tests.api.project import views_identity as identity
from tests.api.project import views_orders as orders
from tests.api.project import views_plain as plain

router = SimpleRouter()
router.register("orders", orders.OrderViewSet, basename="order")
router.register("orders-by-number", orders.OrderByNumberViewSet, basename="order-by-number")
router.register("products", catalog.ProductViewSet)
router.register("hours", catalog.HourViewSet, basename="hour")
router.register("customers", customers.CustomerViewSet)
router.register("documents", customers.DocumentViewSet, basename="document")

lines = NestedSimpleRouter(router, "orders", lookup="order")
lines.register("lines", orders.LineViewSet, basename="order-line")

tickets = SimpleRouter(use_regex_path=False)
tickets.register("tickets", customers.TicketViewSet, basename="ticket")

staff = DefaultRouter()
staff.register("groups", accounts.GroupViewSet)

api = [
    *router.urls,
    *lines.urls,
    *tickets.urls,
    path("staff/", include(staff.urls)),
    path("checkout/", orders.CheckoutView.as_view()),
    path("orders/<int:pk>/credentials/", orders.CredentialsView.as_view()),
    path("settings/", customers.SettingListView.as_view()),
    path("settings/<int:pk>/", customers.SettingView.as_view()),
    path("events/", events.EventListView.as_view()),
    path("events/all/", events.AllEventsView.as_view()),
    path("feed/", events.FeedView.as_view()),
    path("report/", catalog.ReportView.as_view()),
    path("echo/", catalog.echo),
    path("cash-registers/", catalog.cash_registers),
    path("hotplates/", catalog.hotplates),
    path("me/", accounts.ProfileView.as_view()),
    path("auth/password/", accounts.PasswordView.as_view()),
    path("auth/register/", accounts.RegisterView.as_view()),
    path("auth/login/", accounts.LoginView.as_view()),
    path("auth/token/", accounts.TokenView.as_view()),
    path("answers/csv/", answers.CSVOrdersView.as_view()),
    path("answers/export/", answers.ExportedOrdersView.as_view()),
    path("answers/envelope/", answers.EnvelopedOrdersView.as_view()),
    path("answers/page/", answers.OrdersPageView.as_view()),
    path("answers/imprint/", answers.ImprintView.as_view()),
    path("answers/moved/", answers.MovedView.as_view()),
    path("answers/stream/", answers.StreamView.as_view()),
    path("answers/endless/", answers.EndlessView.as_view()),
    path("answers/newest/", answers.NewestOrderView.as_view()),
    path("answers/numbers/", answers.NumbersView.as_view()),
    path("answers/open-count/", answers.OpenCountView.as_view()),
    path("answers/nothing/", answers.NothingView.as_view()),
    path("answers/text/", answers.TextView.as_view()),
    path("cached/tokens/", identity.CachedForTokensView.as_view()),
    path("cached/cookies/", identity.CachedForCookiesView.as_view()),
    path("visits/", identity.VisitsView.as_view()),
    path("machine/", identity.MachineView.as_view()),
    path("nobody/", identity.NobodyView.as_view()),
    path("scoped/", identity.ScopedView.as_view()),
    path("token-only/", identity.TokenOnlyView.as_view()),
    path("seen-user/", identity.SeenUserView.as_view()),
    path("tenant/", identity.TenantView.as_view()),
    path("inside/", identity.AddressView.as_view()),
    path("throttled/", identity.ThrottledView.as_view()),
    re_path(r"^(?P<version>v\d+)/greeting/$", identity.PathVersionView.as_view()),
    path("greeting/", identity.HeaderVersionView.as_view()),
    path("writes/non-atomic/", failures.NonAtomicView.as_view()),
    path("writes/invalid/", failures.WrittenThenInvalidView.as_view()),
    path("writes/crash/", failures.WrittenThenCrashedView.as_view()),
    path("exit/<int:code>/", failures.ExitView.as_view()),
    path("twice/", failures.TwiceView.as_view()),
    path("webhook/", plain.webhook),
    path("health/", plain.health, name="health"),
    path("plain/", plain.plain),
    path("asynchronous/", plain.asynchronous),
]

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/", include(api)),
    path("accounts/login/", LoginView.as_view(template_name="api_project/login.html"), name="login"),
    path("", include("mcp_django.urls")),
]
