"""The club as a project: its pages, the MCP endpoint, the admin and a login."""

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import include, path

from tests.api.forms_project import views

urlpatterns = [
    path("", include("mcp_django.urls")),
    path("admin/", admin.site.urls),
    path("accounts/login/", LoginView.as_view(template_name="forms_project/login.html"), name="login"),
    path("done/", views.DoneView.as_view(), name="done"),
    path("contact/", views.ContactView.as_view(), name="contact"),
    path("booking/", views.BookingView.as_view(), name="booking"),
    path("notes/add/", views.NoteCreateView.as_view(), name="note-add"),
    path("notes/<int:pk>/", views.NoteUpdateView.as_view(), name="note-edit"),
    path("notes/<int:pk>/publish/", views.NotePublishView.as_view(), name="note-publish"),
    path("notes/<int:pk>/review/", views.NoteReviewView.as_view(), name="note-review"),
    path("notes/by/<slug:slug>/", views.NoteBySlugView.as_view(), name="note-by-slug"),
    path("topics/<int:topic_pk>/notes/add/", views.QuickNoteView.as_view(), name="quick-note"),
    path("topics/<int:pk>/close/", views.ConfirmView.as_view(), name="topic-close"),
    path("labels/add/", views.LabelCreateView.as_view(), name="label-add"),
    path("transfer/", views.TransferView.as_view(), name="transfer"),
    path("search/", views.SearchView.as_view(), name="search"),
    path("period/", views.PeriodView.as_view(), name="period"),
    path("member/", views.MemberView.as_view(), name="member"),
    path("coupons/add/", views.CouponCreateView.as_view(), name="coupon-add"),
    path("sign-up/", views.SignUpView.as_view(), name="sign-up"),
    path("reminder/", views.ReminderView.as_view(), name="reminder"),
    path("broken/", views.BrokenView.as_view(), name="broken"),
]
