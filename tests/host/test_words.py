from __future__ import annotations

import pytest

from skillwire.host.search.tokenize import parse_query, spread
from skillwire.limits import DEFAULT_LIMITS, Limits


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("refund customer", ("refund", "customer"), id="words"),
        pytest.param("  Refund\tREFUND\n refund ", ("refund",), id="each once, without case"),
        pytest.param("", (), id="nothing"),
        pytest.param(' *** " -- ( ) ', (), id="nothing but marks"),
        pytest.param("a OR b NOT c", ("a", "or", "b", "not", "c"), id="operators are words"),
        pytest.param('name:"x" ^y (z*', ('name:"x"', "^y", "(z*"), id="syntax stays inside a word"),
        pytest.param("PDF退款 客户", ("pdf", "退款", "客户"), id="scripts without spaces come apart"),
        pytest.param("Ｒｅｆｕｎｄ ﬁle", ("refund", "file"), id="compatibility forms"),
        pytest.param("re\x00fu\u202end\ud800", ("refund",), id="hidden characters"),
        pytest.param("हिन्दी", ("हिन्दी",), id="marks of a script belong to its words"),
    ],
)
def test_a_query_is_words_whatever_was_typed(text: str, words: tuple[str, ...]) -> None:
    query = parse_query(text, limits=DEFAULT_LIMITS)
    assert query.words == words
    assert bool(query) == bool(words)


def test_a_query_is_read_up_to_the_limit_and_has_no_more_than_so_many_words() -> None:
    assert parse_query("refund customer", limits=Limits(search_query_chars=6)).words == ("refund",)
    many = " ".join(f"w{number}" for number in range(100))
    assert len(parse_query(many, limits=DEFAULT_LIMITS).words) == 32
    run = parse_query("".join(chr(0x4E00 + number) for number in range(500)), limits=DEFAULT_LIMITS)
    assert len(run.parts()) == 64


def test_every_word_is_quoted_and_only_the_last_may_be_unfinished() -> None:
    query = parse_query('say "hi', limits=DEFAULT_LIMITS)
    assert query.all_words(unfinished=True) == '"say" AND """hi"*'
    assert query.all_words(unfinished=False) == '"say" AND """hi"'


def test_a_longer_run_without_spaces_may_fit_in_pairs() -> None:
    query = parse_query("退款客户 pdf 客户", limits=DEFAULT_LIMITS)
    shown = [part.replace("\u200b", "") for part in query.parts()]
    assert shown == ['"退款"', '"款客"', '"客户"', '"pdf"']


def test_plain_text_is_indexed_as_it_is() -> None:
    assert spread("Crème brûlée") == "Crème brûlée"
    assert spread("plain") == "plain"
