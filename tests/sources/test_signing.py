"""Signing a skill's folder, and checking the signature that is in it."""

from __future__ import annotations

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from publishers import authority, new_key, signer
from skillwire.errors import FormatError, SourceError
from skillwire.sources import load_private_key
from skillwire.sources.directory.authoring import (
    check_folder,
    load_chain,
    new_key_pair,
    read_folder,
    sign_folder,
)
from skillwire.trust import MAX_BUNDLE_BYTES, SIGNATURE_FILE, Publisher, SignatureState
from trees import write_skill

NOW = datetime.now(UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_skill(tmp_path / "demo", {"scripts/run.py": b"print(1)\n"})


def test_a_signed_folder_is_signed_until_a_file_changes(folder: Path, tmp_path: Path) -> None:
    public = new_key_pair(tmp_path / "key.pem")
    publisher = Publisher.from_pem("acme", key=public.read_bytes())
    assert str(check_folder(read_folder(folder), [publisher], now=NOW)) == "not signed"
    signature = sign_folder(read_folder(folder), load_private_key(tmp_path / "key.pem"))
    assert signature == folder / SIGNATURE_FILE
    assert check_folder(read_folder(folder), [publisher], now=NOW).is_signed
    first = signature.read_bytes()
    sign_folder(read_folder(folder), load_private_key(tmp_path / "key.pem"))
    assert signature.read_bytes() == first
    (folder / "scripts/run.py").write_text("print(2)\n")
    verdict = check_folder(read_folder(folder), [publisher], now=NOW)
    assert (verdict.state, verdict.differing) == (SignatureState.DIFFERS, ("scripts/run.py",))


def test_a_folder_signed_with_a_certificate_is_recognized_by_its_root(folder: Path, tmp_path: Path) -> None:
    root = authority()
    leaf = signer(root)
    pem = leaf.certificate.public_bytes(Encoding.PEM) + root.certificate.public_bytes(Encoding.PEM)
    (tmp_path / "chain.pem").write_bytes(pem)
    sign_folder(read_folder(folder), leaf.key, load_chain(tmp_path / "chain.pem"))
    publisher = Publisher.from_pem("corp", root=root.certificate.public_bytes(Encoding.PEM))
    assert check_folder(read_folder(folder), [publisher], now=NOW).publisher == "corp"


def test_what_lint_refuses_is_not_signed(folder: Path) -> None:
    (folder / "SKILL.md").write_text("---\nname: demo\n---\nText.\n")
    with pytest.raises(FormatError, match="description"):
        read_folder(folder)


def test_a_directory_without_a_skill_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a skill"):
        read_folder(tmp_path)


def test_a_private_key_is_for_its_owner_alone_and_never_replaced(tmp_path: Path) -> None:
    public = new_key_pair(tmp_path / "key.pem", b"password")
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600
    before = (tmp_path / "key.pem").read_bytes(), public.read_bytes()
    with pytest.raises(SourceError, match="already exists"):
        new_key_pair(tmp_path / "key.pem")
    assert ((tmp_path / "key.pem").read_bytes(), public.read_bytes()) == before
    assert load_private_key(tmp_path / "key.pem", b"password").curve.name == "secp256r1"


@pytest.mark.parametrize(
    ("content", "password", "message"),
    [
        (b"nonsense", None, "not a private key"),
        (
            rsa.generate_private_key(65537, 2048).private_bytes(
                Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
            ),
            None,
            "not an elliptic curve key",
        ),
        (
            new_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
            None,
            "not a private key",
        ),
        (
            new_key().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
            b"x",
            "leave the password out",
        ),
        (b"x" * 70_000, None, "too long"),
    ],
    ids=["nonsense", "RSA", "a public key", "a needless password", "too long"],
)
def test_a_key_file_that_cannot_be_used_says_why(
    tmp_path: Path, content: bytes, password: bytes | None, message: str
) -> None:
    (tmp_path / "key.pem").write_bytes(content)
    with pytest.raises((FormatError, SourceError), match=message):
        load_private_key(tmp_path / "key.pem", password)


def test_a_signature_file_without_end_is_read_no_further_than_the_limit(folder: Path) -> None:
    with (folder / SIGNATURE_FILE).open("wb") as file:
        file.truncate(MAX_BUNDLE_BYTES * 3)
    verdict = check_folder(read_folder(folder), [], now=NOW)
    assert "at most 1,048,576 are read" in verdict.reason
