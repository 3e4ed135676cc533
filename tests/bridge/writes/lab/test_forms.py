"""Forms of a project: what they derive, ask for beside the fields of the model, and begin with."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.utils.text import slugify

from tests.bridge.writes.lab import driving
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Post

Admin: Any = admin.ModelAdmin


class DerivingForm(forms.ModelForm):
    """Derives the slug and the number of words, and asks whether the text is shouted."""

    shouted = forms.BooleanField(required=False)
    sign = forms.CharField(required=False)

    def clean_name(self) -> str:
        return str(self.cleaned_data["name"]).title()

    def clean(self) -> Any:
        cleaned = super().clean() or {}
        text = cleaned.get("text") or ""
        cleaned["slug"] = cleaned.get("slug") or slugify(cleaned.get("name", ""))
        cleaned["text"] = " ".join(
            filter(None, (text.upper() if cleaned.get("shouted") else text, cleaned.get("sign")))
        )
        self.instance.words = len(cleaned["text"].split())
        return cleaned


class DerivingAdmin(Admin):
    form = DerivingForm
    fields = ["name", "slug", "text", "shouted", "sign"]


def test_what_a_form_derives_and_asks_for_beside_the_model_is_stored(lab: Lab) -> None:
    lab.admin(Post, DerivingAdmin)
    post = Post.objects.create(name="First Post", slug="first-post", text="one two", words=2)
    signed = {"name": "First", "text": "one", "shouted": True, "sign": "Ann"}

    made = lab.same(Post, values={"name": "first post", "text": "one two"}).of(Post)[1]
    changed = lab.same(Post, post, values={"text": "one two three"}).of(Post)[0]
    filled = lab.same(Post, values=signed, typed=signed).of(Post)[1]

    assert (made["name"], made["slug"], made["words"]) == ("First Post", "first-post", 2)
    assert changed["words"] == 3
    assert filled["text"] == "ONE Ann"


def test_a_slug_that_a_script_of_the_page_fills_in_is_filled_in(lab: Lab) -> None:
    lab.admin(Post, fields=["name", "text", "slug"], prepopulated_fields={"slug": ["name", "text"]})
    typed = {"name": "First post!", "text": "on Ångström", "slug": "first-post-on-angstrom"}

    made = lab.same(Post, values={"name": "First post!", "text": "on Ångström"}, typed=typed)
    shown = driving.preview(lab.site, lab.user, "create", model="lab.post", values={"name": "A b", "text": ""})
    own = driving.preview(lab.site, lab.user, "create", model="lab.post", values={"name": "A b", "slug": "mine"})

    assert made.of(Post)[0]["slug"] == "first-post-on-angstrom"
    assert shown["adjusted"] == [{"field": "values.slug", "note": "filled in as the page does: 'a-b'"}]
    assert {one["field"]: one["after"] for one in own["diff"]}["slug"] == "mine"


class KnowingForm(forms.ModelForm):
    """Knows the request, and signs its text."""

    request: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["text"].help_text = f"by {self.request.user}"

    def save(self, commit: bool = True) -> Any:
        self.instance.text = f"{self.instance.text} ({self.request.user})"
        return super().save(commit)


class KnowingAdmin(Admin):
    form = KnowingForm
    fields = ["name", "text"]

    def get_form(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, **kwargs)
        form.request = request
        return form


class PerRequestAdmin(Admin):
    fields = ["name", "text"]

    def get_form(self, request: Any, obj: Any = None, **kwargs: Any) -> Any:
        base = super().get_form(request, obj, **kwargs)

        class Signed(base):  # type: ignore[misc, valid-type]
            def clean_text(self) -> str:
                return f"{self.cleaned_data['text']} ({request.user})"

        return Signed


@pytest.mark.parametrize("admin_class", [KnowingAdmin, PerRequestAdmin])
def test_a_form_that_knows_the_request_or_is_made_for_each_is_asked(lab: Lab, admin_class: Any) -> None:
    lab.admin(Post, admin_class)
    lab.site.register(Post, object_permissions=False)

    made = lab.same(Post, values={"name": "First", "text": "one"})

    assert made.of(Post)[0]["text"] == "one (root)"


def test_what_a_page_begins_with_is_stored_unless_it_is_changed(lab: Lab) -> None:
    class Beginning(Admin):
        fields = ["name", "text", "words"]

        def get_changeform_initial_data(self, request: Any) -> dict[str, Any]:
            return {**super().get_changeform_initial_data(request), "text": f"by {request.user}", "words": 5}

    lab.admin(Post, Beginning)

    made = lab.same(Post, values={"name": "First", "words": 6})

    assert (made.of(Post)[0]["text"], made.of(Post)[0]["words"]) == ("by root", 6)


def test_a_row_of_what_its_page_begins_with_needs_no_value(lab: Lab) -> None:
    lab.admin(Post, fields=["words"])
    post = Post.objects.create(name="First Post", slug="first-post", text="one two", words=2)

    made = lab.same(Post, values={})
    refused = lab.refused(Post, post, values={})

    assert [one["words"] for one in made.of(Post)] == [2, 0]
    assert refused.fields == ["values"]
