from __future__ import annotations

import html
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire.text import Cleaned, clean_line, clean_text, escape_markdown, escape_xml, safe_line, safe_text

HOSTILE = st.sampled_from(
    "\x00\x07\x08\x0b\x0c\r\n\t\x1b\x7f\x85\x9b\xa0\xad\u034f\u061c\u115f\u200b\u200c\u200d\u200e\u202e\u2028\u2029"
    "\u2060\u2066\u3164\ufe00\ufe0e\ufe0f\ufeff\ufff9\ufffe\ud800\udfff\U000e0041\U000e0100\U0001f468\U0001f3fb"
    "\u06cc\u0645\u094d\u0915[]<>&0m;\U0001fffe"
)
TEXTS = st.text(alphabet=st.one_of(HOSTILE, st.characters()), max_size=60)
# Format characters that show: number signs of Arabic, Syriac and Kaithi, put before the digits they count.
VISIBLE_FORMAT = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
JOINERS = {0x200C, 0x200D, 0xFE0E, 0xFE0F}
FILLERS = {0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0}
SELECTORS = {*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)}


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize(
    ("text", "line", "removed"),
    [
        ("plain", "plain", 0),
        ("  two \t words\n", "two words", 0),
        ("one\r\ntwo\u2028three\u2029four\x85five\x0bsix", "one two three four five six", 0),
        ("a\u3000b\xa0c", "a b c", 0),
        ("\x1b[31;1mred\x1b[0m", "red", 11),
        ("\x9b2Jgone", "gone", 3),
        ("\x1b]0;title\x07after", "]0;titleafter", 2),
        ("a\x1b\x1b[31m[31mb", "a[31mb", 6),
        ("evil\u202etxt.exe", "eviltxt.exe", 1),
        ("a\u2066b\u2069c\u200ed", "abcd", 3),
        ("hi" + "".join(chr(0xE0000 + ord(char)) for char in "steal"), "hi", 5),
        ("a\u200bb\u2060c\ufeffd\xade", "abcde", 4),
        ("x\ufe01\U000e0101", "x", 2),
        ("\ud800lone\udfff", "lone", 2),
        ("\u3164\u115f", "", 2),
    ],
)
def test_what_a_reader_cannot_see_is_removed_from_a_line(text: str, line: str, removed: int) -> None:
    assert clean_line(text) == Cleaned(line, removed)


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize(
    "text",
    [
        "می‌خواهم",  # Persian: a non-joiner inside a word
        "क्‍ष",  # Devanagari: a joiner after a virama
        "ශ්‍රී",  # Sinhala
        "র‍্য",  # Bengali: a joiner before a virama
        "👩‍💻",
        "👨🏽‍🚀",
        "❤️‍🔥",
        "3️⃣ ℹ️ ☎︎",
        "Größe, naïve, Ελλάδα, עברית, العربية, 日本語, ไทย",
        "٠\u0600",
    ],
)
def test_legitimate_scripts_and_emoji_are_kept(text: str) -> None:
    assert clean_line(text) == Cleaned(text)


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("ab\u200dcd\u200c", "abcd"),
        ("\u200dab", "ab"),
        ("می\u200c\u200c\u200cخ", "می\u200cخ"),
        ("👩\u200d\u200d💻", "👩\u200d💻"),
        ("👩\u200d", "👩"),
        ("👩\u200dx", "👩x"),
        ("مx\u200cم", "مxم"),
        ("م\u200c", "م"),
        ("م\u200c!", "م!"),
        ("☎\ufe0e\ufe0f\ufe0e", "☎\ufe0e"),
        ("a\ufe0fb\ufe0f", "ab"),
        ("۰\u200cم", "۰م"),
    ],
)
def test_a_joiner_with_nothing_to_join_is_removed(text: str, line: str) -> None:
    assert clean_line(text).text == line


@pytest.mark.slow
@pytest.mark.requirement("SEC-11")
def test_no_invisible_character_of_unicode_gets_through() -> None:
    others = FILLERS | SELECTORS
    for point in range(sys.maxunicode + 1):
        char = chr(point)
        hidden = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp") or point in others
        if hidden and point not in VISIBLE_FORMAT:
            assert clean_line(f"é{char}é").text in ("éé", "é é"), hex(point)
            if point not in JOINERS and char not in "\n\t":
                assert char not in clean_text(f"é{char}é").text, hex(point)


@pytest.mark.requirement("SEC-11")
def test_a_text_keeps_its_lines_and_tabs() -> None:
    assert clean_text("a\n\tb  c\r\nd\re\u2028f\x1b[2Jg") == Cleaned("a\n\tb  c\nd\ne\nfg", 4)
    assert safe_text("x\u202ey\n") == "xy\n"


@pytest.mark.parametrize(
    ("limit", "line"),
    [(20, "twelve chars"), (12, "twelve chars"), (8, "twelve…"), (7, "twelve…"), (1, "…"), (0, "")],
)
def test_a_long_line_is_shortened_and_says_so(limit: int, line: str) -> None:
    cleaned = clean_line("twelve chars", limit=limit)
    assert cleaned.text == line
    assert cleaned.shortened == (limit < 12)
    assert len(cleaned.text) <= limit


@pytest.mark.parametrize(
    ("cleaned", "remark"),
    [
        (Cleaned("x"), ""),
        (Cleaned("x", 1), "1 hidden character removed"),
        (Cleaned("x", 2, True), "2 hidden characters removed, shortened"),
    ],
)
def test_what_cleaning_removed_is_reported(cleaned: Cleaned, remark: str) -> None:
    assert cleaned.remark == remark


@pytest.mark.requirement("SEC-11")
@given(TEXTS, st.integers(0, 20))
def test_a_clean_line_is_one_line_and_stays_as_it_is(text: str, limit: int) -> None:
    line = clean_line(text).text
    assert clean_line(line) == Cleaned(line)
    assert line.isprintable() or all(char.isprintable() or ord(char) > 0x7F for char in line)
    assert len(line.splitlines()) <= 1
    line.encode("utf-8")
    cut = safe_line(text, limit=limit)
    assert clean_line(cut, limit=limit) == Cleaned(cut)


@pytest.mark.requirement("SEC-11")
@given(st.one_of(TEXTS, st.text(st.characters(codec="ascii"))), st.integers(0, 20))
def test_a_line_is_cleaned_alike_with_and_without_a_character_that_goes(text: str, limit: int) -> None:
    assert clean_line(f"\0{text}", limit=limit).text == clean_line(text, limit=limit).text


@pytest.mark.requirement("SEC-11")
@given(TEXTS)
def test_a_clean_text_stays_as_it_is(text: str) -> None:
    once = clean_text(text)
    assert clean_text(once.text) == Cleaned(once.text)
    assert not set(once.text) & set("\x1b\x9b\x00\r\u202e\U000e0041")


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_is_not_touched(text: str) -> None:
    assert clean_text(text) == Cleaned(text)


@pytest.mark.requirement("SEC-11")
@given(TEXTS)
def test_escaped_text_opens_and_closes_nothing(text: str) -> None:
    line = safe_line(text)
    escaped = escape_xml(line)
    assert not set(escaped) & set("<>\"'")
    assert len(escaped) >= len(line)


def test_every_character_that_means_something_in_xml_is_escaped() -> None:
    text = "<a b=\"c\" d='e'>&amp;"
    assert escape_xml(text) == "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;amp;"
    assert html.unescape(escape_xml(text)) == text


@pytest.mark.requirement("SEC-11")
@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        ("plain words", "plain words"),
        ("**bold** [x](y) `z`", r"\*\*bold\*\* \[x\]\(y\) \`z\`"),
        ("# Title", r"\# Title"),
        ("1. item", r"1\. item"),
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        ("https://x.y", r"https\://x\.y"),
    ],
)
def test_escaped_markdown_is_plain_words(text: str, markdown: str) -> None:
    assert escape_markdown(text) == markdown
