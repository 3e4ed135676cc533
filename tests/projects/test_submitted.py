"""What a browser submits, by the rules of HTML."""

from __future__ import annotations

from tests.projects.submitted import submitted


def of(markup: str) -> dict[str, list[str]]:
    found = submitted(f'<form id="logout-form"><input name="x"></form><form id="order_form">{markup}</form>')
    assert found is not None
    return dict(found)


SENT: list[tuple[str, dict[str, list[str]]]] = [
    ('<input name="a">', {"a": [""]}),
    ('<input name="a" value="1 &amp; 2">', {"a": ["1 & 2"]}),
    ('<input name="a" value=" x&#10;y ">', {"a": [" xy "]}),
    ('<input type="email" name="a" value=" x ">', {"a": ["x"]}),
    ('<input type="number" name="a" value="1,5">', {"a": [""]}),
    ('<input type="number" name="a" value="-1.5">', {"a": ["-1.5"]}),
    ('<input type="hidden" name="a" value="x&#10;y">', {"a": ["x\ny"]}),
    ('<input type="checkbox" name="a"><input type="checkbox" name="b" checked>', {"b": ["on"]}),
    ('<input type="checkbox" name="a" value="2" checked><input type="checkbox" name="a" value="1" checked>',
     {"a": ["1", "2"]}),
    ('<input type="radio" name="a" value="1" checked><input type="radio" name="a" value="2" checked>', {"a": ["2"]}),
    ('<textarea name="a">\nx\r\ny</textarea>', {"a": ["x\ny"]}),
    ('<select name="a"><option value="1"><option value="2" selected></select>', {"a": ["2"]}),
    ('<select name="a"><option value="1" disabled><option> b  c </option></select>', {"a": ["b c"]}),
    ('<select name="a"></select>', {}),
    ('<select name="a" multiple><option value="1"></select>', {}),
    ('<select name="a" multiple><option value="2" selected><option value="1" selected></select>', {"a": ["1", "2"]}),
    ('<select name="a"><optgroup disabled><option value="1"></optgroup><option value="2"></select>', {"a": ["2"]}),
    ('</form><input name="a" value="1" form="order_form">', {"a": ["1"]}),
]  # fmt: skip


def test_what_nobody_has_touched_is_submitted_as_by_a_browser_and_nothing_that_it_leaves_out() -> None:
    left_out = [
        '<input value="1">',
        '<input name="a" value="1" disabled>',
        '<textarea name="a" disabled>1</textarea>',
        '<select name="a" disabled><option value="1" selected></select>',
        '<input type="submit" name="_save" value="Save">',
        '<input type="file" name="a">',
        '<input name="a" form="changelist">',
        '<template><input name="a"></template>',
        '<input name="lines-__prefix__-name" value="1">',
        '<input type="hidden" name="csrfmiddlewaretoken" value="1">',
        '</form><input name="a">',
    ]

    assert {markup: of(markup) for markup, _ in SENT} == dict(SENT)
    assert {markup: of(markup) for markup in left_out} == {markup: {} for markup in left_out}
