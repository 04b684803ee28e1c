"""Signers from one version of a skill to the next: what is a change, and what a lock confirms."""

from __future__ import annotations

import pytest

from skillwire.trust import (
    UNSIGNED,
    SignatureState,
    SignatureVerdict,
    signer_change,
    signer_text,
    signer_words,
)
from skillwire.trust.signatures import confirms_signer, is_known_signer

ACME = "acme key:" + "a" * 64
OTHER_KEY = "acme key:" + "b" * 64
CORP = "corp cert:" + "c" * 64
RENEWED = "corp cert:" + "d" * 64
MALLORY = "mallory cert:" + "d" * 64
STRANGER = "unknown publisher key:" + "a" * 64
OTHER_STRANGER = "unknown publisher key:" + "b" * 64
NAMELESS = "unknown publisher"


@pytest.mark.parametrize(
    ("before", "after", "is_change"),
    [
        (ACME, ACME, False),
        (ACME, OTHER_KEY, True),
        (ACME, "unsigned", True),
        (ACME, "invalid signature", True),
        # A stranger can claim any key: nobody here has verified it.
        (ACME, STRANGER, True),
        (ACME, MALLORY, True),
        (CORP, RENEWED, False),
        (CORP, MALLORY, True),
        (CORP, OTHER_KEY, True),
        (STRANGER, STRANGER, False),
        (STRANGER, ACME, False),
        (STRANGER, OTHER_STRANGER, True),
        (STRANGER, "unsigned", True),
        (NAMELESS, "unsigned", True),
        ("unsigned", ACME, False),
        ("invalid signature", "unsigned", False),
        ("", ACME, False),
    ],
)
def test_a_signer_who_changes_or_vanishes_is_a_change(before: str, after: str, is_change: bool) -> None:
    assert bool(signer_change(before, after)) is is_change


def test_a_change_says_who_it_was_and_who_it_is() -> None:
    assert signer_change(ACME, "unsigned") == (
        "was signed by acme (key:aaaaaaaaaaaa…) before, and is not signed now"
    )
    assert signer_words(STRANGER) == "signed by an unknown publisher (key:aaaaaaaaaaaa…)"
    assert signer_words(NAMELESS) == "signed by an unknown publisher"
    assert signer_words("maker identity:a@b.example") == "signed by maker (identity:a@b.example)"


@pytest.mark.parametrize(
    ("pinned", "actual", "is_confirmed"),
    [
        (ACME, ACME, True),
        (ACME, "acme-inc key:" + "a" * 64, True),
        # Only the author of the lock knows that publisher: the key must be the same.
        (ACME, STRANGER, True),
        (ACME, OTHER_STRANGER, False),
        (ACME, OTHER_KEY, False),
        (ACME, "unsigned", False),
        (ACME, "invalid signature", False),
        (STRANGER, ACME, True),
        (STRANGER, "unsigned", False),
        # A lock can hold any text.
        ("acme unsigned", "unsigned", False),
        ("acme signature", "invalid signature", False),
        ("unsigned", ACME, True),
        ("invalid signature", "unsigned", True),
    ],
)
def test_a_lock_is_believed_only_as_far_as_the_files_say_the_same(
    pinned: str, actual: str, is_confirmed: bool
) -> None:
    assert confirms_signer(pinned, actual) is is_confirmed


@pytest.mark.parametrize(
    ("verdict", "text", "is_known"),
    [
        (SignatureVerdict(SignatureState.SIGNED, "acme", "key:ab"), "acme key:ab", True),
        (SignatureVerdict(SignatureState.DIFFERS, "acme", "key:ab", ("a.md",)), "invalid signature", False),
        (SignatureVerdict(SignatureState.UNKNOWN, signer="key:ab"), "unknown publisher key:ab", False),
        (SignatureVerdict(SignatureState.UNKNOWN), "unknown publisher", False),
        (SignatureVerdict(SignatureState.INVALID, reason="x"), "invalid signature", False),
        (UNSIGNED, "unsigned", False),
    ],
)
def test_every_verdict_has_a_text_that_can_be_kept(
    verdict: SignatureVerdict, text: str, is_known: bool
) -> None:
    assert (signer_text(verdict), is_known_signer(text)) == (text, is_known)
