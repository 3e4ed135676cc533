"""Links to many rows, by each of the widgets that the admin has for them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin

from tests.bridge.writes.lab.comparing import Outcome
from tests.bridge.writes.lab.conftest import Lab
from tests.bridge.writes.lab.models import Book, Credit, Place, Shelf, Story, Topic, Writer

pytestmark = pytest.mark.every_database
Admin: Any = admin.ModelAdmin
FIELDS = ["name", "topics", "editor"]


@pytest.fixture
def topics(lab: Lab) -> list[Topic]:
    lab.admin(Topic, search_fields=["name"])
    lab.admin(Writer, search_fields=["name"])
    return [Topic.objects.create(name=name) for name in ("art", "music", "sport", "trade")]


@pytest.fixture
def story(topics: list[Topic]) -> Story:
    """About art and music."""
    made = Story.objects.create(name="news")
    made.topics.set(topics[:2])
    return made


def topics_of(made: Outcome) -> list[Any]:
    return sorted(link["topic_id"] for link in made.rows["lab.story_topics"])


def keys(rows: Any) -> list[int]:
    return [row.pk for row in rows]


def test_links_are_changed_by_each_widget_and_stay_where_nobody_names_them(
    lab: Lab, topics: list[Topic], story: Story
) -> None:
    options: list[Any] = [{"autocomplete_fields": ["topics"]}, {"filter_horizontal": ["topics"]}, {}]
    for option in options:
        lab.admin(Story, fields=FIELDS, **option)

        made = lab.same(Story, story, values={"topics": keys(topics[1:3])})
        assert topics_of(made) == keys(topics[1:3]), option

    single = lab.same(
        Story,
        story,
        values={"topics": {"add": [topics[3].pk], "remove": [topics[0].pk]}},
        typed={"topics": [topics[1].pk, topics[3].pk]},
    )
    new = lab.same(Story, values={"name": "news", "topics": keys(topics[:2])})
    named = lab.same(Story, story, values={"name": "old news"})

    assert topics_of(single) == [topics[1].pk, topics[3].pk]
    assert sorted(topics_of(new)) == sorted(2 * keys(topics[:2]))
    assert new.signals["m2m_changed lab.story_topics post_add"] == 1
    assert topics_of(named) == keys(topics[:2])
    assert not [name for name in named.signals if name.startswith("m2m_changed")]


def test_rows_are_linked_by_their_keys_in_a_text_and_by_a_search(lab: Lab, topics: list[Topic], story: Story) -> None:
    writer = Writer.objects.create(name="Ann")
    lab.admin(Story, fields=FIELDS, raw_id_fields=["topics", "editor"])
    made = lab.same(
        Story,
        story,
        values={"topics": keys(topics[1:3]), "editor": writer.pk},
        typed={"topics": f"{topics[1].pk},{topics[2].pk}", "editor": writer.pk},
    )
    lab.admin(Story, fields=FIELDS, autocomplete_fields=["editor"])
    searched = lab.same(Story, story, values={"editor": writer.pk})

    assert topics_of(made) == keys(topics[1:3])
    assert made.of(Story)[0]["editor_id"] == searched.of(Story)[0]["editor_id"] == writer.pk


def test_rows_of_the_same_model_are_linked_both_ways(lab: Lab, topics: list[Topic], story: Story) -> None:
    lab.admin(Story, fields=["name", "follows"])
    other = Story.objects.create(name="gossip")

    made = lab.same(Story, story, values={"follows": [other.pk]})

    assert len(made.rows["lab.story_follows"]) == 2


def test_a_row_between_with_a_default_is_made_by_an_inline(lab: Lab, topics: list[Topic], story: Story) -> None:
    class CreditInline(admin.TabularInline):  # type: ignore[type-arg]
        model = Credit
        fields = ["writer"]

    lab.admin(Story, fields=FIELDS, inlines=[CreditInline])
    writer = Writer.objects.create(name="Ann")

    made = lab.same(Story, story, rows={"credits": [{"writer": writer.pk}]}, typed={"credits-0-writer": writer.pk})

    assert made.of(Credit)[0]["role"] == "writer"


def test_links_through_a_model_with_defaults_are_set_by_a_form_of_the_project(lab: Lab) -> None:
    class ShelfAdmin(Admin):
        def formfield_for_manytomany(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
            return db_field.formfield(required=False, queryset=Book.objects.order_by("name"))

        def get_fields(self, request: Any, obj: Any = None) -> list[str]:
            return ["name", "books"]

    lab.admin(Book)
    lab.admin(Shelf, ShelfAdmin)
    lab.site.register(Shelf, object_permissions=False)
    books = [Book.objects.create(name=name) for name in "ab"]
    shelf = Shelf.objects.create(name="top")

    made = lab.same(Shelf, shelf, values={"books": keys(books)})

    assert [place["number"] for place in made.of(Place)] == [7, 7]
