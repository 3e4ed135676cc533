"""The pages of the club, each driven by Django's FormView, CreateView or UpdateView.

Owners see and change their own rows alone, and staff all of them.
"""

from typing import Any

from django.contrib import messages
from django.contrib.auth.mixins import LoginRequiredMixin, PermissionRequiredMixin, UserPassesTestMixin
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import PermissionDenied
from django.core.mail import send_mail
from django.db.models import QuerySet
from django.forms import BaseForm
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse, reverse_lazy
from django.views.generic import CreateView, FormView, TemplateView, UpdateView

from tests.api.forms_project import forms
from tests.api.forms_project.models import Booking, Label, Member, Note, Topic


def visible(rows: QuerySet[Any], user: AbstractUser) -> QuerySet[Any]:
    """The rows that the user may see."""
    return rows if user.is_staff else rows.filter(owner=user)


class WithUser:
    """Hands the user to the form."""

    def get_form_kwargs(self) -> dict[str, Any]:
        return {**super().get_form_kwargs(), "user": self.request.user}


class DoneView(TemplateView):
    """Where most forms lead to: no form itself."""

    template_name = "forms_project/done.html"


class ContactView(FormView):
    """A message to the club, by anyone."""

    form_class = forms.ContactForm
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def form_valid(self, form: BaseForm) -> HttpResponse:
        data = form.cleaned_data
        to = ["club@example.com", *([data["email"]] if data["copy"] else [])]
        send_mail(f"A message of {data['name']}", data["message"], "web@example.com", to)
        messages.success(self.request, "Thank you for your message.")
        return super().form_valid(form)


class BookingView(LoginRequiredMixin, WithUser, FormView):
    """A room for a day. All fields have a prefix."""

    form_class = forms.BookingForm
    template_name = "forms_project/form.html"
    prefix = "booking"
    success_url = reverse_lazy("done")

    def form_valid(self, form: BaseForm) -> HttpResponse:
        data = form.cleaned_data
        plan = data.pop("plan")
        if plan:
            data.update(file_name=plan.name, file_size=plan.size)
        extras = ",".join(data.pop("extras"))
        Booking.objects.create(owner=self.request.user, extras=extras, **data)
        return super().form_valid(form)


class NoteCreateView(LoginRequiredMixin, WithUser, CreateView):
    """A note becomes the caller's, whatever is sent."""

    model = Note
    form_class = forms.NoteForm
    template_name = "forms_project/form.html"

    def form_valid(self, form: BaseForm) -> HttpResponse:
        form.instance.owner = self.request.user
        return super().form_valid(form)


class QuickNoteView(LoginRequiredMixin, CreateView):
    """A note in a topic that the path names, with a title that the query may give. It has no form class."""

    model = Note
    fields = ["title", "slug"]
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated:
            self.topic = get_object_or_404(visible(Topic.objects.all(), request.user), pk=kwargs["topic_pk"])
        return super().dispatch(request, *args, **kwargs)

    def get_initial(self) -> dict[str, Any]:
        return {"title": self.request.GET.get("title", self.topic.name)}

    def form_valid(self, form: BaseForm) -> HttpResponse:
        form.instance.owner = self.topic.owner
        form.instance.topic = self.topic
        return super().form_valid(form)


class LabelCreateView(PermissionRequiredMixin, CreateView):
    """A label, by who has the permission to add one. The address of success is made of the label."""

    model = Label
    fields = ["name", "colour"]
    permission_required = "forms_project.add_label"
    template_name = "forms_project/form.html"
    success_url = "/done/?label={name}"


class NoteUpdateView(LoginRequiredMixin, WithUser, UpdateView):
    """A note of the caller: those of others are missing."""

    form_class = forms.NoteForm
    template_name = "forms_project/form.html"

    def get_queryset(self) -> QuerySet[Note]:
        return visible(Note.objects.all(), self.request.user)


class NotePublishView(UserPassesTestMixin, UpdateView):
    """A note of the caller: those of others are forbidden."""

    model = Note
    fields = ["public"]
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def test_func(self) -> bool:
        return self.request.user.is_staff or self.get_object().owner == self.request.user


class NoteBySlugView(LoginRequiredMixin, UpdateView):
    """A note by its slug. One that is not public is refused to others."""

    model = Note
    fields = ["text", "due"]
    template_name = "forms_project/form.html"

    def get_object(self, queryset: QuerySet[Note] | None = None) -> Note:
        note = super().get_object(queryset)
        user = self.request.user
        if not (note.public or user.is_staff or note.owner == user):
            raise PermissionDenied("This note is not public.")
        return note


class NoteReviewView(LoginRequiredMixin, UpdateView):
    """A note whose title and slug are shown alone."""

    form_class = forms.ReviewForm
    template_name = "forms_project/review.html"
    context_object_name = "reviewed"
    success_url = reverse_lazy("done")

    def get_queryset(self) -> QuerySet[Note]:
        return visible(Note.objects.all(), self.request.user)


class TransferView(LoginRequiredMixin, FormView):
    """A transfer, which the view itself refuses where there is not enough."""

    form_class = forms.TransferForm
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")
    balance = 100

    def form_valid(self, form: BaseForm) -> HttpResponse:
        if form.cleaned_data["amount"] > self.balance:
            form.add_error("amount", f"There are only {self.balance}.")
        if form.cleaned_data["purpose"] == "nothing":
            form.add_error(None, "That is no purpose.")
        if form.errors:
            return self.form_invalid(form)
        return super().form_valid(form)


class SearchView(LoginRequiredMixin, FormView):
    """A search, which answers with a page and sends nobody elsewhere."""

    form_class = forms.SearchForm
    template_name = "forms_project/search.html"

    def form_valid(self, form: BaseForm) -> HttpResponse:
        field, words = form.cleaned_data["field"], form.cleaned_data["words"]
        found = visible(Note.objects.filter(**{f"{field}__icontains": words}), self.request.user)
        return self.render_to_response(self.get_context_data(form=form, found=found.order_by("pk")))


class PeriodView(FormView):
    """A period, by anyone: the two days are looked at together."""

    form_class = forms.PeriodForm
    template_name = "forms_project/by_hand.html"
    success_url = reverse_lazy("done")


class MemberView(LoginRequiredMixin, UpdateView):
    """What the caller tells of itself: the path names no row."""

    model = Member
    form_class = forms.MemberForm
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def get_object(self, queryset: QuerySet[Member] | None = None) -> Member:
        return get_object_or_404(Member, user=self.request.user)


class CouponCreateView(LoginRequiredMixin, CreateView):
    """A coupon with a code that is unique."""

    form_class = forms.CouponForm
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def form_valid(self, form: BaseForm) -> HttpResponse:
        form.instance.owner = self.request.user
        return super().form_valid(form)


class ConfirmView(LoginRequiredMixin, FormView):
    """Closes a topic. Its page is shown by another: who asks for it by GET is sent there."""

    form_class = forms.ConfirmForm
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def get(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return HttpResponseRedirect(reverse("booking"))

    def form_valid(self, form: BaseForm) -> HttpResponse:
        get_object_or_404(visible(Topic.objects.all(), self.request.user), pk=self.kwargs["pk"]).delete()
        return super().form_valid(form)


class SignUpView(FormView):
    """A context that names its form otherwise. Who is logged in has no business here."""

    form_class = forms.SignUpForm
    template_name = "forms_project/sign_up.html"
    success_url = reverse_lazy("done")

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_authenticated and not request.user.is_staff:
            return HttpResponseRedirect(reverse("member"))
        return super().dispatch(request, *args, **kwargs)

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        context = super().get_context_data(**kwargs)
        context["sign_up"] = context.pop("form")
        return context


class ReminderView(LoginRequiredMixin, FormView):
    """Fields of several inputs and of texts that are parsed. It takes no GET."""

    http_method_names = ["post", "options"]
    form_class = forms.ReminderForm
    template_name = "forms_project/form.html"

    def form_valid(self, form: BaseForm) -> HttpResponse:
        data = form.cleaned_data
        return HttpResponse(f"{data['subject']} {data['at']:%Y-%m-%d %H:%M}", status=201, content_type="text/plain")


class BrokenView(LoginRequiredMixin, FormView):
    """An error that nobody handles, once the form is valid."""

    form_class = forms.TransferForm
    template_name = "forms_project/form.html"
    success_url = reverse_lazy("done")

    def form_valid(self, form: BaseForm) -> HttpResponse:
        raise ZeroDivisionError
