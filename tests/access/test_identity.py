"""Who is let in: one order of checks for every kind of credential, and what each kind of file may say."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillwire.access import AccessRefusal, Caller, CallerFile, Callers, OpenIdentity, RateLimit, TokenFile
from skillwire.access.callers import parse_callers
from skillwire.access.identity import bearer_token, token_digest
from skillwire.errors import FormatError
from skillwire.limits import Limits
from skillwire.skill import SkillUri

pytestmark = pytest.mark.anyio

ADDRESS = "192.0.2.7"


def sent(*values: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"authorization", value) for value in values]


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ([b"Bearer abc"], b"abc"),
        ([b"bEARER  abc "], b"abc"),
        ([], None),
        ([b""], None),
        ([b"Bearer"], None),
        ([b"Bearer "], None),
        ([b"Bearer   "], None),
        ([b"Bearer a b"], None),
        ([b"Bearer a\xff"], None),
        ([b"Bearer a\x00"], None),
        ([b"Basic abc"], None),
        ([b"abc"], None),
        ([b"Bearer abc", b"Bearer abc"], None),
        ([b"Bearer " + b"a" * 20_000], None),
    ],
)
def test_a_credential_is_one_bearer_token_or_nothing(given: list[bytes], token: bytes | None) -> None:
    assert bearer_token(given) == token


async def test_an_empty_token_is_refused_at_once_and_is_not_the_same_as_no_token() -> None:
    callers = Callers.of_token("s3cret")
    without = await callers.identify([], ADDRESS)
    empty = await callers.identify(sent(b"Bearer "), ADDRESS)
    assert isinstance(without, AccessRefusal)
    assert isinstance(empty, AccessRefusal)
    assert (without.status, without.is_given) == (401, False)
    assert (empty.status, empty.is_given) == (401, True)
    with pytest.raises(ValueError, match="empty"):
        Callers.of_token("")


async def test_whoever_guesses_is_told_to_wait_and_whoever_is_known_is_not() -> None:
    callers = Callers.of_token("s3cret", limits=Limits(http_failed_credentials_per_minute=1))
    assert isinstance(await callers.identify(sent(b"Bearer s3cret"), ADDRESS), Caller)
    refusals = [await callers.identify(sent(b"Bearer %d" % number), ADDRESS) for number in range(20)]
    statuses = [refusal.status for refusal in refusals if isinstance(refusal, AccessRefusal)]
    assert statuses == [401] * 10 + [429] * 10
    # The same token again, from the same address: behind a proxy, everybody has it.
    assert isinstance(await callers.identify(sent(b"Bearer s3cret"), ADDRESS), Caller)
    other = await callers.identify(sent(b"Bearer 99"), "192.0.2.8")
    assert isinstance(other, AccessRefusal)
    assert other.status == 401


async def test_a_right_guess_does_not_help_an_address_that_guessed_too_often() -> None:
    callers = Callers.of_token("s3cret", limits=Limits(http_failed_credentials_per_minute=1))
    for number in range(10):
        await callers.identify(sent(b"Bearer %d" % number), ADDRESS)
    guessed = await callers.identify(sent(b"Bearer s3cret"), ADDRESS)
    assert isinstance(guessed, AccessRefusal)
    assert guessed.status == 429
    assert guessed.retry_seconds > 0


def test_looking_at_a_rate_does_not_use_it() -> None:
    now = [0.0]
    rates = RateLimit(60, 0, clock=lambda: now[0])
    assert [rates.peek_seconds("a") for _ in range(50)] == [0.0] * 50
    for _ in range(10):
        rates.wait_seconds("a")
    assert rates.peek_seconds("a") == 1.0
    now[0] += 1
    assert rates.peek_seconds("a") == 0
    assert RateLimit(0, 0).wait_seconds("a") == 0


async def test_without_credentials_everybody_is_the_user_and_nobody_an_operator() -> None:
    user = await OpenIdentity().identify(sent(b"Bearer anything"), ADDRESS)
    assert isinstance(user, Caller)
    assert (user.name, user.is_operator) == ("", False)
    assert await OpenIdentity().recheck([user]) == [user]


async def test_a_token_file_marks_its_operators_and_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("ada one\nolga two operator\n")
    callers = TokenFile(file)
    found = [await callers.identify(sent(token), ADDRESS) for token in (b"Bearer one", b"Bearer two")]
    assert [(one.name, one.is_operator) for one in found if isinstance(one, Caller)] == [
        ("ada", False),
        ("olga", True),
    ]
    ada, olga = (one for one in found if isinstance(one, Caller))
    file.write_text("ada another-token\nolga two\n")
    await callers.refresh()
    assert isinstance(await callers.identify(sent(b"Bearer one"), ADDRESS), AccessRefusal)
    # Another token is another caller, and so is one with other permissions.
    now_ada, now_olga = await callers.recheck([ada, olga])
    assert now_ada is None
    assert now_olga is not None
    assert now_olga != olga
    file.unlink()
    await callers.refresh()
    assert isinstance(await callers.identify(sent(b"Bearer another-token"), ADDRESS), Caller)


async def test_callers_of_a_file_are_rechecked_with_what_they_may_see_now(tmp_path: Path) -> None:
    file = tmp_path / "callers.toml"
    table = '[callers.{}]\ntoken = "{}"\nlabels = ["{}"]\noperator = {}\n'
    digests = [token_digest(word) for word in (b"one", b"two")]
    file.write_text(
        table.format("alice", digests[0], "Docs", "true") + table.format("bob", digests[1], "docs", "false")
    )
    callers = CallerFile(file)
    alice, bob = callers.find(b"one"), callers.find(b"two")
    assert alice is not None
    assert bob is not None
    assert (alice.is_operator, bob.is_operator) == (True, False)
    assert alice.sees_label("DOCS")
    assert not alice.sees_label("shop")
    assert await callers.recheck([alice, bob]) == [alice, bob]
    file.write_text(table.format("alice", digests[0], "shop", "true"))
    await callers.refresh()
    now = await callers.recheck([alice, bob])
    assert now[0] is not None
    assert now[0].labels == {"shop"}
    assert now[1] is None


@pytest.mark.parametrize(
    ("labels", "include", "exclude", "is_allowed"),
    [
        (None, (), (), True),
        ({"docs"}, (), (), True),
        ({"shop"}, (), (), False),
        (set[str](), (), (), False),
        (None, ("docs/guides/*",), (), True),
        (None, ("shop/*",), (), False),
        (None, (), ("*/setup",), False),
        ({"docs"}, ("docs/*",), ("shop/*",), True),
    ],
)
def test_the_uri_alone_decides_what_a_caller_sees(
    labels: set[str] | None, include: tuple[str, ...], exclude: tuple[str, ...], is_allowed: bool
) -> None:
    seen = None if labels is None else frozenset(labels)
    caller = Caller(name="ada", labels=seen, include=include, exclude=exclude)
    assert caller.allows(SkillUri("skill://docs/guides/setup")) == is_allowed


@pytest.mark.parametrize("name", ["authorization", "Cookie", "host", "proxy-authorization", "a b"])
def test_what_lets_a_client_in_here_is_passed_on_to_no_server(name: str) -> None:
    text = f'[callers.a]\ntoken = "sha256:{"0" * 64}"\ncredentials.x.pass_header = "{name}"'
    with pytest.raises(FormatError, match="is not passed on"):
        parse_callers(text, "callers.toml")


def test_an_operator_is_one_by_a_word_that_is_true_or_false() -> None:
    with pytest.raises(FormatError, match="operator is not true or false"):
        parse_callers(f'[callers.a]\ntoken = "sha256:{"0" * 64}"\noperator = "yes"', "callers.toml")
