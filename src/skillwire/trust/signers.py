"""Signers: who signed a skill, as stored in lock files and approvals, and whether that changed.

A signer is stored as text: `acme key:FINGERPRINT` for a publisher whom the user configured, `unknown
publisher key:FINGERPRINT`, `unsigned`, or `invalid signature`. Pure.
"""

from __future__ import annotations

from typing import Final

from skillwire.trust.signatures import SignatureState, SignatureVerdict

_UNKNOWN_SIGNER: Final = "unknown publisher"
NO_SIGNER: Final = "unsigned"
"""The signer of a skill without a signature."""
_BAD_SIGNER: Final = "invalid signature"


def signer_text(verdict: SignatureVerdict) -> str:
    """The signer as stored in lock files and approvals: `acme key:...`, `unsigned` and so on.

    A signature that does not cover the files proves nothing about them, and is stored as invalid.
    """
    match verdict.state:
        case SignatureState.SIGNED:
            return f"{verdict.publisher} {verdict.signer}"
        case SignatureState.UNKNOWN:
            return f"{_UNKNOWN_SIGNER} {verdict.signer}".strip()
        case SignatureState.UNSIGNED:
            return NO_SIGNER
        case _:
            return _BAD_SIGNER


def is_known_signer(text: str) -> bool:
    """Whether this is the `signer_text` of a configured publisher."""
    return text not in ("", NO_SIGNER, _BAD_SIGNER) and not text.startswith(_UNKNOWN_SIGNER)


def signer_change(before: str, after: str) -> str:
    """How the signer of a skill changed from one version to the next; empty if it did not.

    Both are texts of `signer_text`. Certificates of one publisher are one signer, because they are renewed. A
    publisher who becomes known is not a change, and neither is a first signature.
    """
    if before in ("", NO_SIGNER, _BAD_SIGNER) or before == after:
        return ""
    name, _, fingerprint = before.rpartition(" ")
    other, _, now = after.rpartition(" ")
    if is_known_signer(before):
        renewed = name == other and fingerprint.startswith("cert:") and now.startswith("cert:")
        is_same = is_known_signer(after) and (fingerprint == now or renewed)
    else:
        is_same = fingerprint == now
    return "" if is_same else f"was {signer_words(before)} before, and is {signer_words(after)} now"


def confirms_signer(pinned: str, actual: str) -> bool:
    """Whether files have the signer that a lock file pins.

    If only the author of the lock file knows the publisher, the key has to be the same. A skill that is
    pinned without a valid signature may have any signer.
    """
    if pinned in (NO_SIGNER, _BAD_SIGNER):
        return True
    return actual not in (NO_SIGNER, _BAD_SIGNER) and pinned.rpartition(" ")[2] == actual.rpartition(" ")[2]


def signer_words(text: str) -> str:
    """A `signer_text` in words."""
    if text in ("", NO_SIGNER):
        return "not signed"
    if text == _BAD_SIGNER:
        return "signed, but not validly over these files"
    name, _, fingerprint = text.rpartition(" ")
    who = "an unknown publisher" if text.startswith(_UNKNOWN_SIGNER) else name
    return f"signed by {who} ({_short(fingerprint)})" if ":" in fingerprint else f"signed by {who}"


def _short(fingerprint: str) -> str:
    kind, _, value = fingerprint.partition(":")
    return fingerprint if kind == "identity" else f"{kind}:{value[:12]}…"
