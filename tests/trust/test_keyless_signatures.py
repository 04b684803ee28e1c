"""Keyless signatures: what we ask of `sigstore`, and what we make of its answer.

A signature of the public service needs that service, which no test has. So the verifier is replaced where it
would accept one; where it refuses, it is the real one, with the trust roots that it ships with.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from publishers import NOW, authority, new_key, signer
from skillwire.skill import digest_of
from skillwire.trust import Publisher, SignatureState, SignatureVerdict, check_signature, sign_files
from skillwire.trust.publishers import PAYLOAD_TYPE, statement_of

pytest.importorskip("sigstore", reason="the extra sigstore is not installed")
from sigstore.errors import VerificationError
from sigstore.verify import Verifier

FILES = {"SKILL.md": digest_of(b"skill"), "scripts/run.py": digest_of(b"script")}
MAKER = Publisher("maker", identity="release@maker.example", issuer="https://issuer.example")
OTHER = Publisher("other", identity="else@other.example", issuer="https://issuer.example")


def bundle() -> bytes:
    """A bundle in the shape of a keyless one: a leaf certificate alone, and an entry of a log."""
    made = json.loads(sign_files(FILES, name="demo", key=new_key()))
    from cryptography.hazmat.primitives.serialization import Encoding

    raw = signer(authority()).certificate.public_bytes(Encoding.DER)
    encoded = base64.b64encode(b"x").decode()
    made["verificationMaterial"] = {
        "certificate": {"rawBytes": base64.b64encode(raw).decode()},
        "tlogEntries": [
            {
                "logIndex": "1",
                "logId": {"keyId": encoded},
                "kindVersion": {"kind": "dsse", "version": "0.0.1"},
                "integratedTime": "1700000000",
                "inclusionPromise": {"signedEntryTimestamp": encoded},
                "inclusionProof": {
                    "logIndex": "1",
                    "rootHash": encoded,
                    "treeSize": "2",
                    "hashes": [encoded],
                    "checkpoint": {"envelope": "log.example\n2\neA==\n\n— log.example eHh4eHh4\n"},
                },
                "canonicalizedBody": base64.b64encode(b"{}").decode(),
            }
        ],
    }
    made["dsseEnvelope"]["signatures"] = [{"sig": made["dsseEnvelope"]["signatures"][0]["sig"]}]
    return json.dumps(made).encode()


def check(*publishers: Publisher) -> SignatureVerdict:
    return check_signature(FILES, bundle(), publishers, now=NOW)


def accept(
    monkeypatch: pytest.MonkeyPatch, identity: str, payload: bytes, kind: str = PAYLOAD_TYPE
) -> list[Any]:
    """A verifier that confirms one identity, as the service would have; gives the policies that it saw."""
    policies: list[Any] = []

    def verify(_self: object, _bundle: object, policy: Any) -> tuple[str, bytes]:
        policies.append(policy)
        if policy._identity != identity:
            raise VerificationError("another identity")
        return kind, payload

    monkeypatch.setattr(Verifier, "verify_dsse", verify)
    return policies


def test_a_signature_of_a_configured_identity_counts_over_exactly_these_files(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies = accept(monkeypatch, "release@maker.example", statement_of(FILES, name="demo"))
    verdict = check(OTHER, MAKER)
    assert str(verdict) == "signed by maker over exactly these files"
    assert verdict.signer == "identity:release@maker.example"
    # The issuer is asked for as well: an identity means nothing without who vouches for it.
    assert all("issuer.example" in str(policy.__dict__["_issuer"].__dict__) for policy in policies)


def test_other_files_than_were_signed_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    accept(monkeypatch, "release@maker.example", statement_of({"SKILL.md": FILES["SKILL.md"]}, name="demo"))
    assert str(check(MAKER)) == "signed by maker, but 1 file differs"


def test_an_identity_that_nobody_configured_is_an_unknown_publisher(monkeypatch: pytest.MonkeyPatch) -> None:
    accept(monkeypatch, "somebody@else.example", statement_of(FILES, name="demo"))
    assert str(check(OTHER, MAKER)) == "signature of an unknown publisher"


def test_another_kind_of_payload_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    accept(monkeypatch, "release@maker.example", statement_of(FILES, name="demo"), kind="text/plain")
    assert check(MAKER).state is SignatureState.INVALID


def test_what_the_real_verifier_does_not_accept_is_signed_by_nobody() -> None:
    """The certificate is of an authority of our own: the roots of the public service do not know it."""
    verdict = check(MAKER)
    assert verdict.state in (SignatureState.UNKNOWN, SignatureState.INVALID)
    assert not verdict.is_signed
