"""What of loaded skills goes back into a shortened conversation, decided from their texts and a budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from skillwire.catalog.render import ReplayText, fit_replay
from skillwire.skill import SetDigest

HEX = "0123456789abcdef"


def digest(number: int) -> SetDigest:
    return SetDigest(f"sha256:{number:064x}")


def skill(handle: str, size: int = 100, *, number: int | None = None, problem: str = "") -> ReplayText:
    return ReplayText(handle, handle[0] * size, None if number is None else digest(number), problem)


def test_texts_come_in_the_order_given_and_whole() -> None:
    made = fit_replay([skill("new"), skill("old")], 1000)
    assert made.replayed == ("new", "old")
    assert made.named == ()
    assert made.text.index("n" * 100) < made.text.index("o" * 100)


def test_what_does_not_fit_is_named() -> None:
    made = fit_replay([skill("new"), skill("big", 5000), skill("small", 50)], 600)
    assert made.replayed == ("new", "small")
    assert made.named == ("big",)
    assert "- big has no room here" in made.text


def test_the_same_files_come_once() -> None:
    made = fit_replay([skill("a", number=1), skill("b", number=1), skill("c", number=2)], 1000)
    assert made.replayed == ("a", "c")
    assert "- b has the same files as a" in made.text


def test_a_skill_with_a_problem_is_named_with_it() -> None:
    made = fit_replay([skill("a", problem="has changed since it was loaded")], 1000)
    assert (made.replayed, made.named) == ((), ("a",))
    assert "- a has changed since it was loaded" in made.text
    assert "aaaa" not in made.text


def test_nothing_loaded_is_nothing_to_say() -> None:
    assert fit_replay([], 1000).text == ""


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.booleans()), max_size=30),
    st.integers(0, 2000),
)
def test_no_budget_is_exceeded_and_no_skill_is_lost(drawn: list[tuple[int, int, bool]], budget: int) -> None:
    candidates = [
        skill(f"{chr(97 + place % 26)}-{place}", size, number=number, problem="changed" if changed else "")
        for place, (size, number, changed) in enumerate(drawn)
    ]
    made = fit_replay(candidates, budget)
    assert len(made.text) <= budget
    assert sorted([*made.replayed, *made.named]) == sorted(one.handle for one in candidates)
    for one in candidates:
        assert (one.handle in made.replayed) <= (not one.problem and one.text in made.text)
