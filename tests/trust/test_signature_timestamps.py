"""A timestamp by a trusted authority: a signature outlives its certificate."""

from __future__ import annotations

import base64
import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from publishers import Identity, authority, chain_of, signer
from skillwire.skill import digest_of
from skillwire.trust import Publisher, SignatureState, SignatureVerdict, check_signature, sign_files

FILES = {"SKILL.md": digest_of(b"skill")}
TODAY = datetime.now(UTC)
LATER = TODAY + timedelta(days=100)
ROOT = authority()
STAMPS = authority("Timestamps")
CONFIG = """
[tsa]
default_tsa = own
[own]
serial = {directory}/serial
default_policy = 1.2.3.4
digests = sha256
signer_digest = sha256
accuracy = secs:1
"""


def stamped(bundle: bytes, authority: Identity, directory: Path, *, over: bytes | None = None) -> bytes:
    """The bundle with a timestamp, as `openssl ts` makes one over its signature."""
    whole: dict[str, Any] = json.loads(bundle)
    signature = base64.b64decode(whole["dsseEnvelope"]["signatures"][0]["sig"])
    stamper = signer(authority, name="Stamper", usage="timestamp", ends=TODAY + timedelta(days=1))
    files = {
        "data": over or signature,
        "cert.pem": stamper.certificate.public_bytes(Encoding.PEM),
        "root.pem": authority.certificate.public_bytes(Encoding.PEM),
        "key.pem": stamper.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "serial": b"01\n",
        "ts.cnf": CONFIG.format(directory=directory).encode(),
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    _openssl(directory, "ts", "-query", "-data", "data", "-sha256", "-cert", "-out", "query")
    reply = ("ts", "-reply", "-queryfile", "query", "-config", "ts.cnf", "-signer", "cert.pem")
    _openssl(directory, *reply, "-inkey", "key.pem", "-out", "response")
    made = base64.b64encode((directory / "response").read_bytes()).decode()
    stamps = {"rfc3161Timestamps": [{"signedTimestamp": made}]}
    whole["verificationMaterial"]["timestampVerificationData"] = stamps
    return json.dumps(whole).encode()


def _openssl(directory: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=directory, check=True, capture_output=True)


def signed() -> bytes:
    leaf = signer(ROOT, starts=TODAY - timedelta(days=10), ends=TODAY + timedelta(days=10))
    return sign_files(FILES, name="demo", key=leaf.key, chain=chain_of(leaf))


def check(bundle: bytes, *, roots: list[Identity]) -> SignatureVerdict:
    publisher = Publisher("corp", roots=chain_of(ROOT), timestamp_roots=chain_of(*roots))
    return check_signature(FILES, bundle, [publisher], now=LATER)


@pytest.mark.process
def test_a_trusted_timestamp_keeps_a_signature_valid_after_its_certificate_expired(tmp_path: Path) -> None:
    bundle = stamped(signed(), STAMPS, tmp_path)
    assert check(bundle, roots=[STAMPS]).is_signed
    without = check(bundle, roots=[])
    assert (without.state, "expired" in without.reason) == (SignatureState.INVALID, True)


@pytest.mark.process
@pytest.mark.parametrize("case", ["another authority", "another signature", "nonsense"])
def test_a_timestamp_that_proves_nothing_is_refused(tmp_path: Path, case: str) -> None:
    match case:
        case "another authority":
            bundle = stamped(signed(), authority("Timestamps"), tmp_path)
        case "another signature":
            bundle = stamped(signed(), STAMPS, tmp_path, over=b"something else")
        case _:
            whole = json.loads(signed())
            made = {"rfc3161Timestamps": [{"signedTimestamp": base64.b64encode(b"x").decode()}]}
            whole["verificationMaterial"]["timestampVerificationData"] = made
            bundle = json.dumps(whole).encode()
    verdict = check(bundle, roots=[STAMPS])
    assert (verdict.state, verdict.reason) == (SignatureState.INVALID, "its timestamp is not valid")
