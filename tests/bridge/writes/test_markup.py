"""The forms of a page, as a browser reads them."""

from __future__ import annotations

from mcp_django.bridge.writes.markup import Page
from tests.projects.submitted import comparable, submitted
from tests.projects.test_submitted import SENT


def test_what_is_sent_untouched_is_what_a_browser_sends() -> None:
    pages = {markup: f'<form id="order_form" method="post">{markup}</form>' for markup, _ in SENT}

    found = {markup: comparable(Page(page).forms[0].values) for markup, page in pages.items()}

    assert found == {markup: submitted(page) for markup, page in pages.items()}


def test_controls_stand_with_their_labels_and_choices() -> None:
    [form] = Page(
        """
        <form method="post" enctype="multipart/form-data" action=" next/ ">
        <label for="a">First:</label><input id="a" name="a" required>
        <label>Second <select name="b"><option value="1">one<option value="2" disabled>two</select></label>
        <label><input type="radio" name="c" value="x"> Ex</label>
        <label><input type="radio" name="c" value="y" checked> Why</label>
        <input type="checkbox" id="d" name="d" value="1"><label for="d">Flag</label>
        <input type="hidden" name="d" value="0"><input type="file" name="e">
        <fieldset disabled><input name="f"></fieldset>
        <template><input name="g"></template><button name="go" value="1">Go <b>on</b></button>
        <input type="submit" value="Save" formaction="save/"><button type="button">No</button>
        <button formmethod="get">No</button>
        """
    ).posted

    assert {one.name: (one.kind, one.label, one.options) for one in form.seen} == {
        "a": ("text", "First", {}), "b": ("select", "Second", {"1": "one"}),
        "c": ("radio", "", {"x": "Ex", "y": "Why"}),
        "d": ("checkbox", "Flag", {"1": ""}), "e": ("file", "", {}),
    }  # fmt: skip
    assert form.values == {"a": [""], "b": ["1"], "c": ["y"], "d": ["0"]}
    assert [(one.name, one.label, one.action) for one in form.buttons] == [("go", "Go on", None), ("", "Save", "save/")]
    assert (form.action, form.is_multipart, form.controls["a"].is_required) == ("next/", True, True)


def test_what_each_page_has_is_no_form_of_it_and_only_paragraphs_are_its_text() -> None:
    page = Page(
        """
        <nav><p>Home</p></nav><form id="logout-form" method="post"><button>Log out</button></form>
        <form method="post" action="/i18n/setlang/"><select name="language"><option>en</select></form>
        <form method="get"><input name="q"></form><script src="/static/admin/js/theme.js"></script>
        <h1>Closing &amp; more</h1><p>Close <b>them</b> <a href="/x">ann</a>?</p><ul><li><p>ann</p></ul>
        <table><tr><td><p>ann</p></table><div class="readonly"><p>ann</p></div><p class="help">ann</p>
        <form method="post"><p><label>Why</label><input name="why">
        <ul class="errorlist" id="id_why_error"><li>No.</li></ul></p></form>
        """
    )

    assert [list(form.controls) for form in page.posted] == [["why"]]
    assert (page.title, page.sentences, page.has_script) == ("Closing & more", ["Close them ?"], False)
    assert page.posted[0].errors == [("id_why", "No.")]


def test_a_page_of_a_million_open_elements_is_read_in_one_pass() -> None:
    page = Page(f'{"<p><b>" * 100_000}<form method="post"><input name="a">{"</i></u>" * 100_000}')

    assert page.posted[0].values == {"a": [""]}
