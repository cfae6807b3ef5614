"""Foreign text in HTML: escaped as the standard library does, behind the removal of control characters."""

from __future__ import annotations

import html

from hypothesis import given, settings
from hypothesis import strategies as st

from graphwright.support.escaping import html_text


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(categories=("L", "N", "P", "S")), max_size=40))
def test_printable_text_is_escaped_as_the_standard_library_does(text: str) -> None:
    assert html_text(text) == html.escape(text, quote=True)


def test_nothing_ends_a_quoted_attribute_or_begins_a_tag() -> None:
    hostile = "\"'><script>&amp;\x1b[31m\u202e"
    assert html_text(hostile) == "&quot;&#x27;&gt;&lt;script&gt;&amp;amp;�[31m�"
