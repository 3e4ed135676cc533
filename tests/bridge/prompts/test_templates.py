"""Templates that administrators write: what they say, which arguments they have, and what is not in reach of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.template import defaultfilters
from django.test import override_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_django.core.prompt_templates import _FILTERS, _engine, compile_template
from mcp_django.exceptions import ToolError
from mcp_django.protocol.errors import LimitExceeded
from tests.support.examples import examples


def written(text: str, **values: str) -> str:
    return compile_template(text).render(values)


def arguments(text: str) -> dict[str, bool]:
    """The template's arguments, and whether each must be given."""
    return {argument.name: argument.required for argument in compile_template(text).arguments}


def refused(text: str) -> str:
    with pytest.raises(ValidationError) as caught:
        compile_template(text)
    [message] = caught.value.messages
    return message


# What it says.


FILLED: list[tuple[str, dict[str, str], str]] = [
    ("Hello.", {}, "Hello."),
    ("{{ who }}, {{ who }}!", {"who": "Ann"}, "Ann, Ann!"),
    ("{{ who|default:'friend' }}", {}, "friend"),
    ("{{ who|default:other }}", {"other": "Bob"}, "Bob"),
    ("{{ who|upper|slice:':2' }}", {"who": "ann"}, "AN"),
    ("{{ who|truncatewords:2 }}", {"who": "a b c"}, "a b …"),
    ("{{ n }} row{{ n|pluralize }}", {"n": "2"}, "2 rows"),
    ("{% if who %}{{ who }}{% else %}nobody{% endif %}", {}, "nobody"),
    ("{% if a == 'x' %}1{% elif b and not a %}2{% elif a|length > 3 %}3{% else %}4{% endif %}", {"b": "y"}, "2"),
    ("{% if a == 'x' %}1{% elif b and not a %}2{% elif a|length > 3 %}3{% else %}4{% endif %}", {"a": "long"}, "3"),
    ("{% if a in 'xyz' %}in{% endif %}", {"a": "y"}, "in"),
    ("{% if a %}{% if b %}both{% endif %}{% endif %}", {"a": "1", "b": "1"}, "both"),
    ("a{# note #}b{% comment %}{{ nothing }}{% endcomment %}c", {}, "abc"),
    ("{{ '{{' }} {{ 5 }}", {}, "{{ 5"),
    ("{{ a }}", {"a": "<b> & 'c'"}, "<b> & 'c'"),
    ("{{ a }}", {"a": "{{ b }}{% if a %}x{% endif %}"}, "{{ b }}{% if a %}x{% endif %}"),
]


def test_a_template_is_filled_in() -> None:
    assert [(text, written(text, **values)) for text, values, _ in FILLED] == [(text, said) for text, _, said in FILLED]


# Which arguments it has.


ARGUMENTS: list[tuple[str, dict[str, bool]]] = [
    ("none", {}),
    ("{{ b }}{{ a }}", {"b": True, "a": True}),
    ("{{ a|upper }}", {"a": True}),
    ("{{ a|default:'x' }}", {"a": False}),
    ("{{ a|upper|default:'x' }}", {"a": False}),
    ("{{ a|default:b }}", {"a": False, "b": True}),
    ("{{ a|default:'x' }}{{ a }}", {"a": True}),
    ("{{ 'x'|default:b }}", {"b": True}),
    ("{% if a %}{{ a }}{% endif %}", {"a": False}),
    ("{% if a %}{{ a }}{% endif %}{{ a }}", {"a": True}),
    ("{% if a %}{{ b }}{% endif %}", {"a": False, "b": True}),
    ("{% if a %}x{% elif b %}{{ b }}{% else %}{{ a }}{% endif %}", {"a": False, "b": False}),
    ("{% if not a or b == c %}{{ c }}{% endif %}", {"a": False, "b": False, "c": False}),
    ("{% if a %}{% if b %}{{ a }}{{ b }}{{ c }}{% endif %}{% endif %}", {"a": False, "b": False, "c": True}),
    ("{% if a|length > n %}{{ n }}{% endif %}", {"a": False, "n": False}),
    ("{{ True }}{% if None %}{% endif %}{{ 5 }}{{ 'x' }}", {}),
    ("{% comment %}{{ a }}{% endcomment %}{# {{ b }} #}", {}),
]


def test_the_variables_of_a_template_are_its_arguments_in_their_order() -> None:
    found = [(text, list(arguments(text).items())) for text, _ in ARGUMENTS]

    assert found == [(text, list(expected.items())) for text, expected in ARGUMENTS]


# What is refused.


MISTAKES = {
    "{% if a %}": "The template is wrong: Unclosed tag on line 1: 'if'. Looking for one of: elif, else, endif.",
    "{{ }}": "The template is wrong: Empty variable tag on line 1",
    "{{ a b }}": "The template is wrong: Could not parse the remainder: ' b' from 'a b'",
    "{{ a|nope }}":
        "The template is wrong: Invalid filter: 'nope'. There are: "
        "capfirst, cut, default, length, lower, pluralize, slice, slugify, title, "
        "truncatechars, truncatewords, upper, urlencode, wordcount, wordwrap.",
    "{{ a|cut }}": "The template is wrong: cut requires 2 arguments, 1 provided",
    "{% else %}": "The template is wrong: Invalid block tag on line 1: 'else'. There are: if, elif, else, comment.",
    "{% if a %}{% for x in a %}{% endif %}":
        "The template is wrong: Invalid block tag on line 1: 'for', "
        "expected 'elif', 'else' or 'endif'. There are: if, elif, else, comment.",
    "{% if a = b %}{% endif %}": "The template is wrong: Could not parse the remainder: '=' from '='",
    "{{ größe }}": "“größe”: the name of an argument is 1 to 64 letters, digits and _.",
    "{{ " + "a" * 65 + " }}": "“" + "a" * 65 + "”: the name of an argument is 1 to 64 letters, digits and _.",
}  # fmt: skip


def test_a_mistake_is_told_as_the_engine_tells_it() -> None:
    assert {text: refused(text) for text in MISTAKES} == MISTAKES
    assert written("{{ a") == "{{ a"  # No tag at all: it is text.


# Attacks.


def test_reading_an_attribute_of_an_argument() -> None:
    names = (
        "a.__class__", "a.upper", "a.encode", "a.0", "a.split.0", "request.user", "settings.SECRET_KEY", "block.super",
    )  # fmt: skip
    for name in names:
        for text in (
            f"{{{{ {name} }}}}", f"{{{{ {name}|upper }}}}", f"{{{{ b|default:{name} }}}}",
            f"{{% if {name} %}}x{{% endif %}}", f"{{% if b == {name}|lower %}}x{{% endif %}}",
        ):  # fmt: skip
            assert "nothing may follow a dot" in refused(text) or "may not begin with underscores" in refused(text)


def test_a_tag_that_reaches_further() -> None:
    tags = (
        "include 'admin/base.html'", "extends 'admin/base.html'", "load static", "debug", "csrf_token",
        "url 'admin:index'", "now 'Y'", "lorem 1000000", "for x in a", "with x=a", "cycle 'a' 'b'", "firstof a",
        "regroup a by b as c", "widthratio a 1 1", "autoescape off", "filter upper", "spaceless",
        "templatetag openblock", "verbatim", "ssi 'x'", "block x", "querystring a=1", "ifchanged", "resetcycle",
    )  # fmt: skip
    assert [
        tag
        for tag in tags
        if not refused(f"{{% {tag} %}}").startswith("The template is wrong: Invalid block tag on line 1: ")
    ] == []


def test_a_filter_that_is_not_allowed() -> None:
    names = set(defaultfilters.register.filters) - set(_FILTERS)

    assert len(names) > 30
    for name, argument in itertools.product(names, ("", ":1000000000")):
        assert refused(f"{{{{ a|{name}{argument} }}}}").startswith("The template is wrong: Invalid filter: "), name


def test_what_nobody_gave_is_not_there() -> None:
    context = ("settings", "request", "user", "perms", "debug", "messages", "forloop", "block")

    text = "".join(f"{{{{ {name}|default:'-' }}}}" for name in context)

    assert written(text) == "-" * len(context)
    assert written("{{ a|default:'-' }}", b="not asked for") == "-"


def test_deep_nesting() -> None:
    deep = "{% if a %}" * 900 + "{% endif %}" * 900
    fitting = "{% if a %}" * 20 + "x" + "{% endif %}" * 20

    assert refused(deep) == "Tags may be nested 20 deep."
    assert refused("{% if a %}" + fitting + "{% endif %}") == "Tags may be nested 20 deep."
    assert written(fitting, a="1") == "x"


def test_many_filters_on_one_value() -> None:
    assert refused("{{ a" + "|urlencode" * 6 + " }}") == "A value may pass 5 filters, not more."
    assert refused("{% if a" + "|urlencode" * 6 + " %}{% endif %}") == "A value may pass 5 filters, not more."
    assert written("{{ a" + "|urlencode" * 5 + " }}", a=" ") == "%2525252520"


def test_a_long_value_that_stands_many_times() -> None:
    """The template is short, the value fits a message, and the prompt would take gigabytes."""
    template = compile_template("{{ a }}" * 2_000)

    with pytest.raises(LimitExceeded) as caught:
        template.render({"a": "x" * 500_000})

    assert caught.value.message == "The prompt would be larger than 900000 bytes (MAX_RESULT_BYTES)."
    with override_settings(MCP={"MAX_RESULT_BYTES": 4_000}):
        assert len(template.render({"a": "xx"})) == 4_000
        with pytest.raises(LimitExceeded):
            template.render({"a": "xxx"})


@pytest.mark.parametrize("name", _FILTERS)
def test_no_filter_makes_much_out_of_little(name: str) -> None:
    argument = {"cut": ":'x'", "slice": ":':100000'", "truncatechars": ":100000", "truncatewords": ":100000",
                "wordwrap": ":1", "default": ":'x'"}.get(name, "")  # fmt: skip
    for piece in ("ΐ", "a", "\n", "a ", "\ufdfa", "<", "%", "it's "):
        value = piece * 90_000
        assert len(written(f"{{{{ a|{name}{argument} }}}}", a=value)) <= 9 * len(value), piece


def test_a_value_that_a_filter_cannot_take() -> None:
    expressions = ("a|wordwrap:n", "a|wordwrap:'x'", "a|truncatechars:n", "a|slice:n", "n|pluralize")
    values = ("x", "", "-1", "0", "1e999", "9" * 5_000, "\x00", "\ud800")
    refusals = set()
    for expression, value in itertools.product(expressions, values):
        try:
            written(f"{{{{ {expression} }}}}", a="some words", n=value)
        except ToolError as error:
            refusals.add(error.message)

    assert refusals <= {"This prompt cannot be written with these values."}


PIECES = ["{{", "}}", "{%", "%}", "{#", "#}", " a ", "|upper", "|default:", "'x'", "if ", "endif", "else", "comment",
          "endcomment", ".x", "__", "\n", "_('a')", "==", "in", "not"]  # fmt: skip


@settings(max_examples=examples(200))
@given(st.lists(st.sampled_from(PIECES)).map("".join))
def test_any_text_is_a_template_or_refused_in_words(text: str) -> None:
    try:
        compiled = compile_template(text)
    except ValidationError as error:
        assert error.messages
        return
    assert isinstance(compiled.render({argument.name: "v" for argument in compiled.arguments}), str)


def test_no_loader_is_there_and_a_text_is_compiled_once() -> None:
    engine: Any = _engine

    assert (engine.dirs, engine.loaders, engine.template_libraries, engine.autoescape) == ([], [], {}, False)
    assert [sorted(library.tags) for library in engine.template_builtins] == [["comment", "if"]]
    assert compile_template("{{ a }}") is compile_template("{{ a }}")
