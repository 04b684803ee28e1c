"""OpenSSF Model Signing 1.0: reads and writes the file `skill.oms.sig`.

It is a Sigstore bundle around a DSSE envelope around an in-toto statement that lists files with their
digests. Reading is strict: every field is bounded before it is parsed, and a field that is not checked is
refused, because it could contain anything. `signatures.py` decides whether a signature is valid.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from skillwire.documents import DocumentError, read_json
from skillwire.errors import LimitExceeded
from skillwire.limits import Limits
from skillwire.skill import Digest
from skillwire.text import shown

BUNDLE_TYPE: Final = "application/vnd.dev.sigstore.bundle.v0.3+json"
PAYLOAD_TYPE: Final = "application/vnd.in-toto+json"
STATEMENT_TYPE: Final = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE: Final = "https://model_signing/signature/v1.0"

MAX_BUNDLE_BYTES: Final = 1024 * 1024
_MAX_FILES: Final = 4096
MAX_CERTIFICATES: Final = 8
_MAX_CERTIFICATE_BYTES: Final = 16 * 1024
_MAX_NAME: Final = 1024
_MAX_TIMESTAMPS: Final = 4
SIGNATURE_FILE: Final = "skill.oms.sig"
_LIMITS: Final = Limits(document_bytes=MAX_BUNDLE_BYTES, document_depth=16)

_Json: TypeAlias = "dict[str, _Json] | list[_Json] | str | int | float | bool | None"


class KeylessSignature(Exception):
    """The bundle is signed by an identity instead of a key. The package `sigstore` verifies it."""


class InvalidSignatureFile(Exception):
    """The signature file proves nothing; the message is the reason."""


def statement_of(files: Mapping[str, Digest], *, name: str) -> bytes:
    """The in-toto statement that is signed for these files."""
    rows = [
        (path, digest.removeprefix("sha256:")) for path, digest in files.items() if path != SIGNATURE_FILE
    ]
    rows.sort()
    whole = hashlib.sha256(b"".join(bytes.fromhex(digest) for _, digest in rows)).hexdigest()
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": whole}}],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "serialization": {
                "method": "files",
                "hash_type": "sha256",
                "allow_symlinks": False,
                "ignore_paths": [SIGNATURE_FILE],
            },
            "resources": [{"name": path, "algorithm": "sha256", "digest": digest} for path, digest in rows],
        },
    }
    return json.dumps(statement, ensure_ascii=False, separators=(",", ":")).encode("utf-8")


def bundle_of(
    payload: bytes,
    signature: bytes,
    *,
    hint: str = "",
    chain: Sequence[bytes] = (),
) -> bytes:
    """A bundle with a signed statement, as JSON: with the hint of a key, or with certificates in DER."""
    material: dict[str, object]
    if chain:
        raw = [{"rawBytes": _encode(certificate)} for certificate in chain]
        material = {"x509CertificateChain": {"certificates": raw}, "tlogEntries": []}
    else:
        material = {"publicKey": {"hint": hint}, "tlogEntries": []}
    bundle = {
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": material,
        "dsseEnvelope": {
            "payload": _encode(payload),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"sig": _encode(signature), "keyid": ""}],
        },
    }
    return (json.dumps(bundle, indent=2) + "\n").encode("ascii")


@dataclass(frozen=True, slots=True)
class SignatureBundle:
    """A bundle that was parsed. Nothing in it has been verified."""

    payload: bytes
    """The in-toto statement, exactly as it was signed."""
    signature: bytes
    hint: str
    """Which key signed it, as the signer says: only a configured key with this hint can verify it. Empty if
    the signer did not say, and with certificates."""
    chain: tuple[bytes, ...]
    """Certificates in DER, that of the signer first; empty for a plain key."""
    timestamps: tuple[bytes, ...]
    """RFC 3161 timestamps of the signature."""


def parse_bundle(data: bytes) -> SignatureBundle:
    """A bundle by key or certificate; `KeylessSignature` for one that only Sigstore can check."""
    material, envelope = _parts(data)
    hint, chain, timestamps = _material(material)
    match envelope["signatures"]:
        case [signature]:
            made = _fields(signature, "the signature", required={"sig"}, optional={"keyid"})
        case _:
            raise InvalidSignatureFile("it does not have exactly one signature")
    # The key id is not signed, so it may only repeat the hint.
    if made.get("keyid", "") not in ("", hint):
        raise InvalidSignatureFile("its key id is not the one of its key")
    return SignatureBundle(_decode(envelope["payload"]), _decode(made["sig"]), hint, chain, timestamps)


def claimed_files(data: bytes) -> dict[str, str]:
    """The files that a bundle claims to sign, by path. This alone proves nothing."""
    return signed_files(_decode(_parts(data)[1]["payload"]))


def _parts(data: bytes) -> tuple[_Json, dict[str, _Json]]:
    """The verification material and the envelope of a bundle."""
    bundle = _fields(
        _load(data, "the signature file"),
        "the bundle",
        required={"mediaType", "verificationMaterial", "dsseEnvelope"},
    )
    if bundle["mediaType"] != BUNDLE_TYPE:
        raise InvalidSignatureFile(f"its media type is not {BUNDLE_TYPE}")
    envelope = _fields(
        bundle["dsseEnvelope"], "the envelope", required={"payload", "payloadType", "signatures"}
    )
    if envelope["payloadType"] != PAYLOAD_TYPE:
        raise InvalidSignatureFile(f"its payload type is not {PAYLOAD_TYPE}")
    return bundle["verificationMaterial"], envelope


def _material(value: _Json) -> tuple[str, tuple[bytes, ...], tuple[bytes, ...]]:
    material = _fields(
        value,
        "the verification material",
        optional={
            "publicKey",
            "x509CertificateChain",
            "tlogEntries",
            "timestampVerificationData",
            "certificate",
        },
    )
    if "certificate" in material or material.get("tlogEntries", []) != []:
        raise KeylessSignature
    timestamps = _timestamps(material.get("timestampVerificationData", {}))
    if "publicKey" in material and "x509CertificateChain" not in material:
        key = _fields(material["publicKey"], "the public key", optional={"hint"})
        hint = key.get("hint", "")
        if not isinstance(hint, str) or len(hint) > _MAX_NAME:
            raise InvalidSignatureFile("the hint of its key is not a text")
        return hint, (), timestamps
    if "x509CertificateChain" in material and "publicKey" not in material:
        chain = _fields(material["x509CertificateChain"], "the chain", required={"certificates"})
        match chain["certificates"]:
            case [_, *_] as rows if len(rows) <= MAX_CERTIFICATES:
                raw = [
                    _decode(_fields(row, "a certificate", required={"rawBytes"})["rawBytes"]) for row in rows
                ]
            case _:
                raise InvalidSignatureFile(f"its chain does not have 1 to {MAX_CERTIFICATES} certificates")
        if any(len(certificate) > _MAX_CERTIFICATE_BYTES for certificate in raw):
            raise InvalidSignatureFile("a certificate is too long")
        if len(set(raw)) != len(raw):
            raise InvalidSignatureFile("its chain has a certificate twice")
        return "", tuple(raw), timestamps
    raise InvalidSignatureFile("it names neither a public key nor a certificate chain")


def _timestamps(value: _Json) -> tuple[bytes, ...]:
    data = _fields(value, "the timestamp data", optional={"rfc3161Timestamps"})
    match data.get("rfc3161Timestamps", []):
        case list(rows) if len(rows) <= _MAX_TIMESTAMPS:
            return tuple(
                _decode(_fields(row, "a timestamp", required={"signedTimestamp"})["signedTimestamp"])
                for row in rows
            )
        case _:
            raise InvalidSignatureFile(f"it has more than {_MAX_TIMESTAMPS} timestamps")


def signed_files(payload: bytes) -> dict[str, str]:
    statement = _fields(
        _load(payload, "the statement"),
        "the statement",
        required={"_type", "subject", "predicateType", "predicate"},
    )
    if statement["_type"] != STATEMENT_TYPE or statement["predicateType"] != PREDICATE_TYPE:
        raise InvalidSignatureFile("it does not sign a set of files")
    match statement["subject"]:
        case [{"digest": {"sha256": str(whole)}}]:
            pass
        case _:
            raise InvalidSignatureFile(
                "its statement does not have exactly one subject with a SHA-256 digest"
            )
    # Other fields of a predicate are ignored by readers of version 1.0.
    match statement["predicate"]:
        case {"serialization": {"method": "files", "hash_type": "sha256"}, "resources": list(rows)}:
            pass
        case {"serialization": {"method": str(method)}} if method != "files":
            raise InvalidSignatureFile(f"it signs {shown(method, 40)}, not whole files")
        case _:
            raise InvalidSignatureFile("its statement does not list files with SHA-256 digests")
    if len(rows) > _MAX_FILES:
        raise InvalidSignatureFile(f"it lists more than {_MAX_FILES:,} files")
    signed: dict[str, str] = {}
    hasher = hashlib.sha256()
    for row in rows:
        name, digest = _resource(row)
        if name in signed:
            raise InvalidSignatureFile(f"it lists {shown(name, 80)} twice")
        signed[name] = f"sha256:{digest}"
        hasher.update(bytes.fromhex(digest))
    if hasher.hexdigest() != whole:
        raise InvalidSignatureFile("the digest of its subject is not the one of the files that it lists")
    return signed


def _resource(row: _Json) -> tuple[str, str]:
    match row:
        case {"name": str(name), "digest": str(digest), "algorithm": "sha256"}:
            pass
        case _:
            raise InvalidSignatureFile("it lists a file without name, digest and algorithm sha256")
    if len(name) > _MAX_NAME or "\\" in name or any(char < " " or char == "\x7f" for char in name):
        raise InvalidSignatureFile(f"it lists {shown(name, 80)}, which is not a plain relative path")
    if any(segment in ("", ".", "..") for segment in name.split("/")):
        raise InvalidSignatureFile(f"it lists {shown(name, 80)}, which is not a plain relative path")
    if len(digest) != 64 or digest.strip("0123456789abcdef"):
        raise InvalidSignatureFile(f"the digest of {shown(name, 80)} is not 64 lowercase hexadecimal digits")
    return name, digest


def _load(data: bytes, what: str) -> _Json:
    """The JSON of a signature: strict UTF-8, each key once, so that every reader reads the same files."""
    try:
        return read_json(data, what=what, strict=True, limits=_LIMITS)
    except DocumentError as error:
        raise InvalidSignatureFile(f"{what} cannot be used: {error}") from None
    except LimitExceeded as error:
        raise InvalidSignatureFile(str(error)) from None


def _fields(
    value: _Json, what: str, *, required: set[str] | None = None, optional: set[str] | None = None
) -> dict[str, _Json]:
    """An object with exactly these fields, because an unchecked field could contain anything."""
    required, optional = required or set(), optional or set()
    if not isinstance(value, dict):
        raise InvalidSignatureFile(f"{what} is not an object")
    if missing := sorted(required - value.keys()):
        raise InvalidSignatureFile(f"{what} has no {missing[0]}")
    if unknown := sorted(value.keys() - required - optional):
        raise InvalidSignatureFile(f"{what} has an unknown field {shown(unknown[0], 40)}")
    return value


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _decode(value: _Json) -> bytes:
    if not isinstance(value, str):
        raise InvalidSignatureFile("a field is not base64")
    try:
        data = base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise InvalidSignatureFile("a field is not base64") from None
    # The last character before the padding has spare bits, which must be zero.
    if _encode(data) != value:
        raise InvalidSignatureFile("a field is not base64 in its one spelling")
    return data
