"""Signatures of OpenSSF's own `model_signing` are accepted here, and ours there."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from publishers import authority, new_key, signer
from skillwire.sources import load_private_key
from skillwire.sources.directory.authoring import check_folder, load_chain, read_folder, sign_folder
from skillwire.trust import SIGNATURE_FILE, Publisher, SignatureState
from trees import write_skill

pytestmark = pytest.mark.peer

ENVIRONMENT = Path(__file__).parents[2] / ".envs/model-signing"
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def model_signing() -> str:
    command = ENVIRONMENT / "bin/model_signing"
    if not command.exists():
        message = "model_signing is not installed: run `make environments`"
        pytest.fail(message) if os.environ.get("CI") else pytest.skip(message)
    return str(command)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"scripts/größe/run.py": b"print(1)\n", "data.bin": bytes(range(256))}
    return write_skill(tmp_path / "demo", files)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> tuple[Path, Path]:
    private, public = path / "key.pem", path / "key.pub"
    private.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.mark.parametrize("curve", [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()], ids=lambda one: one.name)
def test_signatures_by_key_are_accepted_both_ways(
    model_signing: str, folder: Path, tmp_path: Path, curve: ec.EllipticCurve
) -> None:
    private, public = write_key(tmp_path, new_key(curve))
    publisher = Publisher.from_pem("acme", key=public.read_bytes())
    signature = str(folder / SIGNATURE_FILE)

    theirs = run(
        model_signing, "sign", "key", str(folder), "--private_key", str(private), "--signature", signature
    )
    assert theirs.returncode == 0, theirs.stderr
    assert check_folder(read_folder(folder), [publisher], now=NOW).is_signed

    sign_folder(read_folder(folder), load_private_key(private))
    verify = (
        model_signing,
        "verify",
        "key",
        str(folder),
        "--signature",
        signature,
        "--public_key",
        str(public),
    )
    ours = run(*verify)
    assert ours.returncode == 0, ours.stderr
    (folder / "data.bin").write_bytes(b"changed")
    assert run(*verify).returncode != 0
    assert check_folder(read_folder(folder), [publisher], now=NOW).differing == ("data.bin",)


def test_signatures_by_certificate_are_accepted_both_ways(
    model_signing: str, folder: Path, tmp_path: Path
) -> None:
    root = authority()
    middle = authority("Middle", root)
    leaf = signer(middle, starts=NOW - timedelta(days=1), ends=NOW + timedelta(days=9))
    private, _ = write_key(tmp_path, leaf.key)
    files: dict[str, Path] = {}
    for name, identity in {"root": root, "middle": middle, "leaf": leaf}.items():
        files[name] = tmp_path / f"{name}.pem"
        files[name].write_bytes(identity.certificate.public_bytes(Encoding.PEM))
    publisher = Publisher.from_pem("corp", root=files["root"].read_bytes())
    signature = str(folder / SIGNATURE_FILE)

    sign = (model_signing, "sign", "certificate", str(folder), "--signature", signature)
    keys = ("--private_key", str(private), "--signing_certificate", str(files["leaf"]))
    theirs = run(*sign, *keys, "--certificate_chain", str(files["middle"]))
    assert theirs.returncode == 0, theirs.stderr
    verdict = check_folder(read_folder(folder), [publisher], now=NOW)
    assert verdict.is_signed, verdict

    (tmp_path / "chain.pem").write_bytes(files["leaf"].read_bytes() + files["middle"].read_bytes())
    sign_folder(read_folder(folder), load_private_key(private), load_chain(tmp_path / "chain.pem"))
    verify = (model_signing, "verify", "certificate", str(folder), "--signature", signature)
    ours = run(*verify, "--certificate_chain", str(files["root"]))
    assert ours.returncode == 0, ours.stderr


def test_a_path_that_they_ignore_is_not_signed_here(model_signing: str, folder: Path, tmp_path: Path) -> None:
    private, public = write_key(tmp_path, new_key())
    script = str(folder / "scripts/größe/run.py")
    options = (
        "--private_key",
        str(private),
        "--signature",
        str(folder / SIGNATURE_FILE),
        "--ignore-paths",
        script,
    )
    assert run(model_signing, "sign", "key", str(folder), *options).returncode == 0
    listed = json.loads((folder / SIGNATURE_FILE).read_bytes())
    assert listed["mediaType"].startswith("application/vnd.dev.sigstore.bundle")
    verdict = check_folder(
        read_folder(folder), [Publisher.from_pem("acme", key=public.read_bytes())], now=NOW
    )
    assert (verdict.state, verdict.differing) == (SignatureState.DIFFERS, ("scripts/größe/run.py",))
