from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_entries import DEMO
from skillwire.catalog.naming import SkillKey
from skillwire.host.search.index import Indexed, SearchIndex
from skillwire.host.search.tokenize import parse_query
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.uris import parse_uri


def indexed(name: str, description: str = "", body: str = "") -> Indexed:
    key = SkillKey(DEMO, parse_uri(f"skill://{name}/SKILL.md"))
    return Indexed(key, name, f"demo {name}", description, body)


def index_of(*skills: Indexed) -> SearchIndex:
    index = SearchIndex()
    index.update(skills)
    return index


def found(index: SearchIndex, text: str, *, partial: bool | None = None) -> list[str]:
    """The names of the skills that fit, best first; of one kind if `partial` is given."""
    return [
        match.key.uri.split("/")[2]
        for match in index.matches(parse_query(text, limits=DEFAULT_LIMITS))
        if partial is None or match.partial is partial
    ]


@pytest.mark.parametrize(
    ("description", "query"),
    [
        pytest.param("Pays money back.", "money", id="a word"),
        pytest.param("Pays money back.", "MONEY", id="in capitals"),
        pytest.param("Pays money back.", "mon", id="unfinished"),
        pytest.param("Pays money back.", "money ba", id="the last one unfinished"),
        pytest.param("Pays money back.", "back money", id="in another order"),
        pytest.param("Crème brûlée", "creme brulee", id="accents in the text"),
        pytest.param("creme brulee", "Crème brûlée", id="accents in the query"),
        pytest.param("cre\u0300me", "crème", id="an accent of its own"),
        pytest.param("Reviews changes.", "reviewing change", id="other English endings"),
        pytest.param("Calls read_file often.", "read_file", id="an identifier"),
        pytest.param("Calls read_file often.", "file", id="a part of an identifier"),
        pytest.param("给客户办理退款", "退款", id="two Chinese characters inside a run"),
        pytest.param("给客户办理退款", "客", id="one Chinese character"),
        pytest.param("ご返金の手続きをします", "返金", id="Japanese"),
        pytest.param("고객에게 환불을 합니다", "환불", id="Korean without its particle"),
        pytest.param("คืนเงินให้ลูกค้า", "เงิน", id="Thai"),
        pytest.param("PDFを結合する", "pdf 結合", id="two scripts in a row"),
        pytest.param("ｒｅｆｕｎｄ", "refund", id="full width"),
        pytest.param("हिन्दी में", "हिन्दी", id="Hindi"),
        pytest.param("возврат денег", "Возврат", id="Russian"),
    ],
)
def test_a_skill_is_found_by_all_of_the_words(description: str, query: str) -> None:
    assert found(index_of(indexed("aa", description), indexed("zz", "Other.")), query, partial=False) == [
        "aa"
    ]


@pytest.mark.parametrize(
    ("description", "query"),
    [
        pytest.param("Pays money back.", "oney", id="the end of a word"),
        pytest.param("Pays money back.", "mon pays", id="an unfinished word that is not the last"),
        pytest.param("给客户办理退款", "款退", id="characters in another order"),
        pytest.param("हिन्दी", "हन्दी", id="another vowel"),
        pytest.param("Pays money back.", "NOT zebra", id="an operator"),
        pytest.param("Pays money back.", "description:zebra", id="a column"),
        pytest.param("Pays money back.", "", id="nothing"),
        pytest.param("Pays money back.", "\u2042 ***", id="nothing but marks"),
    ],
)
def test_what_does_not_fit_is_not_found(description: str, query: str) -> None:
    assert found(index_of(indexed("aa", description)), query, partial=False) == []


def test_a_name_weighs_more_than_a_description_and_that_more_than_a_body() -> None:
    index = index_of(
        indexed("aa", "Other things.", "Refund, refund, refund, refund and refund."),
        indexed("bb", "Makes a refund, and a refund again."),
        indexed("refund", "Other things, told at some length so that it is no short text."),
    )
    assert found(index, "refund") == ["refund", "bb", "aa"]


def test_a_long_body_is_no_disadvantage() -> None:
    index = index_of(
        indexed("aa", "Makes a refund. Fine."), indexed("bb", "Makes a refund.", "Filler words. " * 500)
    )
    assert found(index, "refund") == ["bb", "aa"]


def test_words_may_stand_in_name_and_body_together() -> None:
    assert found(index_of(indexed("refund", "", "Call kubectl.")), "refund kubectl") == ["refund"]


def test_those_with_some_words_come_after_those_with_all() -> None:
    index = index_of(
        indexed("aa", "refund"), indexed("bb", "customer"), indexed("cc", "the customer and the refund")
    )
    assert found(index, "refund customer", partial=False) == ["cc"]
    assert sorted(found(index, "refund customer", partial=True)) == ["aa", "bb"]
    assert found(index, "refund", partial=True) == []


def test_a_sentence_without_spaces_is_found_by_parts() -> None:
    index = index_of(indexed("aa", "退款流程"), indexed("bb", "天气"))
    assert found(index, "如何办理退款", partial=True) == ["aa"]


def test_a_word_that_most_skills_have_finds_none_of_many() -> None:
    index = index_of(*(indexed(f"s{number}", "Use this for the thing.") for number in range(30)))
    assert found(index, "how to use the zebra") == []
    assert len(found(index, "use the thing")) == 30
    few = index_of(indexed("aa", "Use this."), indexed("bb", "Use that."))
    assert found(few, "use zebra", partial=True) == ["aa", "bb"]


def test_an_update_replaces_and_removes() -> None:
    first, second = indexed("aa", "old words", "old body"), indexed("bb", "other")
    index = index_of(first, second)
    index.update([indexed("aa", "new")], removed=[second.key, indexed("nobody").key])
    assert len(index) == 1
    assert [found(index, word) for word in ("old", "body", "other", "new")] == [[], [], [], ["aa"]]


@pytest.mark.requirement("SEC-11")
def test_a_snippet_is_the_passage_with_the_words_made_safe() -> None:
    index = index_of(
        indexed("aa", f"{'Filler words. ' * 50}Pays\u202e money\x1b[31m back."),
        indexed("bb", "", f"{'Filler. ' * 80}\n\nThen call\nkubectl. {'More. ' * 80}"),
        indexed("cc", "给客户办理退款"),
    )

    def snippet(text: str) -> str:
        [match] = index.matches(parse_query(text, limits=DEFAULT_LIMITS))
        return index.snippet(match)

    assert snippet("money").startswith("…")
    assert snippet("money").endswith("Pays money back.")
    assert "Then call kubectl. More." in snippet("kubectl")
    assert len(snippet("kubectl")) < 400
    assert snippet("退款") == "给客户办理退款"
    assert snippet("cc") == "给客户办理退款"


SYNTAX = st.lists(
    st.sampled_from(
        ['"', "'", "*", "(", ")", "NEAR(", "AND", "OR", "NOT", "^", "+", "-", ":", "name :", "退", "\x00"]
    )
    | st.text(max_size=4),
    max_size=12,
).map(" ".join)
SEARCHED = index_of(
    *(
        indexed(f"s{number}", "Use this to refund a customer, 退款.", "Near and not or.")
        for number in range(25)
    )
)


@given(st.text(max_size=40) | st.text(st.characters(exclude_categories=()), max_size=40) | SYNTAX)
def test_no_query_raises(text: str) -> None:
    matches = list(SEARCHED.matches(parse_query(text, limits=DEFAULT_LIMITS)))
    for match in matches:
        assert "\x00" not in SEARCHED.snippet(match)


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30))
def test_a_description_is_found_by_what_it_says(description: str) -> None:
    index = index_of(Indexed(indexed("aa").key, "aa", "", f"zebra {description}"))
    assert found(index, f"{description} zebra") == ["aa"]
