"""Subscriptions to URIs are exact, limited, and removed without a trace."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillwire import FormatError, LimitExceeded, Limits
from skillwire.server.notifications import Subscriptions, canonical
from skillwire.skill import SkillUri

FILE = SkillUri("skill://team/a/x.txt")


@pytest.mark.parametrize(
    "subscribed",
    [
        "skill://team/a/x.txt",
        "skill://team/a",
        "skill://team/a/",
        "skill://team",
        "SKILL://team/a",
        "skill://%74eam/a",
    ],
)
def test_a_subscriber_is_notified_of_a_file_and_of_all_below_a_directory_in_its_own_spelling(
    subscribed: str,
) -> None:
    subscriptions: Subscriptions[str] = Subscriptions()
    subscriptions.add("me", [subscribed])
    assert subscriptions.concerned([FILE]) == {"me": {subscribed}}


@pytest.mark.parametrize(
    "subscribed",
    ["skill://team/a/x", "skill://team/a/x.txt/deeper", "skill://tea", "skill://other", "x://team/a"],
)
def test_nobody_is_notified_of_other_uris(subscribed: str) -> None:
    subscriptions: Subscriptions[str] = Subscriptions()
    subscriptions.add("me", [subscribed])
    assert subscriptions.concerned([FILE]) == {}


def test_all_of_a_request_is_taken_or_nothing() -> None:
    subscriptions: Subscriptions[str] = Subscriptions()
    with pytest.raises(FormatError):
        subscriptions.add("me", ["skill://a", "no uri"])
    assert (len(subscriptions), subscriptions.uris) == (0, ())


def test_a_client_meets_its_limit_and_all_clients_theirs() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(
        limits=Limits(subscriptions_per_client=3, subscriptions=4)
    )
    subscriptions.add("me", ["skill://a", "skill://b", "skill://c"])
    subscriptions.add("me", ["skill://a"])  # It has this one already.
    with pytest.raises(LimitExceeded, match="a client can have 3:"):
        subscriptions.add("me", ["skill://d"])
    with pytest.raises(LimitExceeded, match="all clients together"):
        subscriptions.add("you", ["skill://a", "skill://b"])
    subscriptions.remove("me", "skill://a")
    subscriptions.add("you", ["skill://a", "skill://b"])
    assert len(subscriptions) == 4


SPELLINGS = st.sampled_from(["skill://a", "skill://a/", "skill://a/b", "skill://c"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "drop"]), st.sampled_from(["me", "you"]), SPELLINGS)
)


@given(STEPS)
def test_the_subscriptions_are_consistent_after_any_steps_and_empty_after_the_last(
    steps: list[tuple[str, str, str]],
) -> None:
    subscriptions: Subscriptions[str] = Subscriptions()
    expected: set[tuple[str, str]] = set()
    for step, who, spelling in steps:
        if step == "add":
            subscriptions.add(who, [spelling])
            expected.add((who, spelling))
        elif step == "remove":
            subscriptions.remove(who, spelling)
            expected.discard((who, spelling))
        else:
            subscriptions.drop(who)
            expected = {pair for pair in expected if pair[0] != who}
        assert len(subscriptions) == len(expected)
        assert set(subscriptions.uris) == {canonical(text) for _, text in expected}
        told = subscriptions.concerned([SkillUri("skill://a/b"), SkillUri("skill://c")])
        assert {(who, text) for who, texts in told.items() for text in texts} == expected
    for who in ("me", "you"):
        subscriptions.drop(who)
    assert vars(subscriptions) == vars(Subscriptions())
