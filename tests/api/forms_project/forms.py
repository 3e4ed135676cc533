"""The forms of the club."""

from typing import Any

from django import forms
from django.contrib.auth.models import AbstractBaseUser

from tests.api.forms_project.models import Coupon, Label, Member, Note, Topic


class ContactForm(forms.Form):
    name = forms.CharField(max_length=40)
    email = forms.EmailField(label="Your address", help_text="We answer to it.")
    message = forms.CharField(widget=forms.Textarea, min_length=5)
    copy = forms.BooleanField(label="Send me a copy", required=False)


class BookingForm(forms.Form):
    """Many kinds of fields. The topics are those of the user alone."""

    room = forms.ChoiceField(choices=[("", "Choose"), ("hall", "The hall"), ("attic", "The attic")])
    topic = forms.ModelChoiceField(Topic.objects.none())
    day = forms.DateField()
    fee = forms.DecimalField(max_digits=7, decimal_places=2, min_value=0)
    lunch = forms.BooleanField(required=False)
    extras = forms.MultipleChoiceField(
        choices=[("chairs", "Chairs"), ("sound", "Sound"), ("light", "Light")],
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    plan = forms.FileField(required=False)
    source = forms.CharField(initial="web", required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, user: AbstractBaseUser, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["topic"].queryset = Topic.objects.filter(owner=user).order_by("pk")


class NoteForm(forms.ModelForm):
    """A note of a user, whose topics alone it offers."""

    class Meta:
        model = Note
        fields = ["title", "slug", "topic", "labels", "text", "due", "fee", "public"]

    def __init__(self, *args: Any, user: AbstractBaseUser, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["topic"].queryset = Topic.objects.filter(owner=user).order_by("pk")
        self.fields["labels"].queryset = Label.objects.order_by("pk")

    def clean_title(self) -> str:
        title = self.cleaned_data["title"]
        if "spam" in title.lower():
            raise forms.ValidationError("No advertising, please.", code="spam")
        return title


class ReviewForm(forms.ModelForm):
    """Two of the fields are shown alone: whatever is sent for them, they stay as they are."""

    class Meta:
        model = Note
        fields = ["title", "slug", "text", "public"]
        widgets = {
            "title": forms.TextInput(attrs={"readonly": True}),
            "slug": forms.TextInput(attrs={"readonly": True}),
        }

    def clean_title(self) -> str:
        return self.instance.title

    def clean_slug(self) -> str:
        return self.instance.slug


class TransferForm(forms.Form):
    """The account cannot pay more than it has, which the view alone knows."""

    amount = forms.IntegerField(min_value=1)
    purpose = forms.CharField(max_length=40, required=False)


class SearchForm(forms.Form):
    words = forms.CharField(max_length=40)
    field = forms.ChoiceField(choices=[("title", "Title"), ("text", "Text")], initial="title")


class PeriodForm(forms.Form):
    """The end is not before the start, and a long period needs a reason."""

    start = forms.DateField()
    end = forms.DateField()
    reason = forms.CharField(required=False)

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        start, end = data.get("start"), data.get("end")
        if start and end:
            if end < start:
                raise forms.ValidationError("The period ends before it starts.", code="order")
            if (end - start).days > 30 and not data.get("reason"):
                self.add_error("reason", "A long period needs a reason.")
        return data


class MemberForm(forms.ModelForm):
    """The number is shown, and disabled."""

    number = forms.CharField(disabled=True)

    class Meta:
        model = Member
        fields = ["number", "motto", "newsletter"]


class CouponForm(forms.ModelForm):
    """The code is unique, and is kept in capitals."""

    class Meta:
        model = Coupon
        fields = ["code", "percent"]

    def clean_code(self) -> str:
        return self.cleaned_data["code"].upper()

    def clean_percent(self) -> int:
        percent = self.cleaned_data["percent"]
        if percent > 50:
            raise forms.ValidationError("At most %(most)s percent.", params={"most": 50})
        return percent


class SignUpForm(forms.Form):
    username = forms.SlugField(max_length=30)
    age = forms.TypedChoiceField(choices=[("", "—"), ("18", "Grown up"), ("8", "A child")], coerce=int)
    rules = forms.BooleanField(label="I accept the rules")


class ConfirmForm(forms.Form):
    sure = forms.BooleanField()


class ReminderForm(forms.Form):
    subject = forms.CharField(max_length=40)
    at = forms.SplitDateTimeField()
    every = forms.DurationField(required=False)
    link = forms.URLField(required=False, assume_scheme="https")
    details = forms.JSONField(required=False)
    people = forms.ModelMultipleChoiceField(Label.objects.order_by("pk"), required=False)
    member = forms.NullBooleanField()
