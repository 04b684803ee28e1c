"""Publisher: a signer that the user recognizes, and `skill.oms.sig`, the file that a signature is in.

The file is OpenSSF Model Signing 1.0: a Sigstore bundle around a DSSE envelope around an in-toto statement
that lists files with their digests. Reading is strict: every field is bounded before it is parsed, and a
field that is not checked is refused, because it could contain anything. `signatures.py` decides whether a
signature is valid.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeAlias

from skillwire.documents import DocumentError, read_json
from skillwire.errors import FormatError, LimitExceeded
from skillwire.limits import Limits
from skillwire.skill import Digest
from skillwire.text import shown
from skillwire.version import pip_command

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.x509.verification import ClientVerifier

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


_CURVES: Final = frozenset({"secp256r1", "secp384r1", "secp521r1"})


class Publisher:
    """A signer that the user recognizes, by public keys or root certificates.

    `timestamp_roots` are the root certificates of a timestamp authority: a timestamp by it proves that a
    certificate was still valid when it signed. `identity` and `issuer` recognize a keyless signature
    (Sigstore). Raises a `FormatError` for a key that is not on an allowed elliptic curve.
    """

    __slots__ = ("identity", "issuer", "keys", "name", "roots", "timestamp_roots")

    def __init__(
        self,
        name: str,
        *,
        keys: Sequence[EllipticCurvePublicKey] = (),
        roots: Sequence[x509.Certificate] = (),
        timestamp_roots: Sequence[x509.Certificate] = (),
        identity: str = "",
        issuer: str = "",
    ) -> None:
        self.name = name
        self.keys = {key_hint(key): key for key in keys}
        self.roots = tuple(roots)
        self.timestamp_roots = tuple(timestamp_roots)
        self.identity = identity
        self.issuer = issuer

    @classmethod
    def from_pem(
        cls,
        name: str,
        *,
        key: bytes | None = None,
        root: bytes | None = None,
        timestamp_root: bytes | None = None,
        identity: str = "",
        issuer: str = "",
    ) -> Publisher:
        """A publisher from PEM texts: a public key, or root certificates."""
        from cryptography.hazmat.primitives.serialization import load_pem_public_key

        try:
            keys = [] if key is None else [allowed_key(load_pem_public_key(key))]
        except ValueError:
            raise unusable_key(f"the key of publisher {name} is not a public key in PEM") from None
        return cls(
            name,
            keys=keys,
            roots=_certificates(root, f"the root of publisher {name}"),
            timestamp_roots=_certificates(timestamp_root, f"the timestamp root of publisher {name}"),
            identity=identity,
            issuer=issuer,
        )

    def __repr__(self) -> str:
        return f"Publisher({self.name!r})"


def key_hint(key: EllipticCurvePublicKey) -> str:
    """The SHA-256 of a public key in PEM, by which a bundle identifies its key."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(pem).hexdigest()


def allowed_key(key: object) -> EllipticCurvePublicKey:
    """The key, if its algorithm is on the allow-list; otherwise a `FormatError`."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey

    if not isinstance(key, EllipticCurvePublicKey) or key.curve.name not in _CURVES:
        raise unusable_key("the key is not an elliptic curve key on P-256, P-384 or P-521")
    return key


def _certificates(pem: bytes | None, what: str) -> list[x509.Certificate]:
    from cryptography import x509

    try:
        return [] if pem is None else x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise unusable_key(f"{what} is not a certificate in PEM") from None


def unusable_key(message: str) -> FormatError:
    """The error for an invalid key or certificate of the user."""
    return FormatError.of(rule="signature-key", message=message, fix="give a PEM file of the right kind")


def verify_chain(
    leaf: x509.Certificate, others: list[x509.Certificate], publisher: Publisher, at: datetime
) -> None:
    """Raise unless the chain ends at a root of the publisher; without a reason if it ends elsewhere."""
    from cryptography.x509.verification import VerificationError

    verifier = _verifier(publisher.roots, at)
    try:
        path = verifier.verify(leaf, others).chain
    except VerificationError:
        raise InvalidSignatureFile(_chain_reason(leaf, others, publisher.roots, at)) from None
    except (ValueError, TypeError):
        raise InvalidSignatureFile("a certificate of its chain cannot be read") from None
    used = set(path)
    if any(certificate not in used for certificate in others):
        raise InvalidSignatureFile("its chain has a certificate that does not belong to it")
    if not _may_sign(leaf):
        raise InvalidSignatureFile("its certificate is not for signing")


def _chain_reason(
    leaf: x509.Certificate, others: list[x509.Certificate], roots: Sequence[x509.Certificate], at: datetime
) -> str:
    """Why a chain to one of the roots is invalid; empty if it does not lead to one."""
    issuers = {root.subject for root in roots}
    if not any(certificate.issuer in issuers for certificate in (leaf, *others)):
        return ""
    for certificate in (leaf, *others):
        if at > certificate.not_valid_after_utc:
            return f"its certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d}"
        if at < certificate.not_valid_before_utc:
            return f"its certificate is not valid before {certificate.not_valid_before_utc:%Y-%m-%d}"
    if not _may_sign(leaf):
        return "its certificate is not for signing"
    # The same name with another key is another root.
    return ""


def signing_time(bundle: SignatureBundle, publisher: Publisher, now: datetime) -> datetime:
    """When the signature was made, according to a trusted timestamp authority; otherwise `now`."""
    if not bundle.timestamps or not publisher.timestamp_roots:
        return now
    try:
        from rfc3161_client import VerifierBuilder, decode_timestamp_response
        from rfc3161_client.errors import VerificationError
    except ModuleNotFoundError:
        raise InvalidSignatureFile(
            f"checking its timestamp needs more packages: {pip_command('sigstore')}"
        ) from None
    builder = VerifierBuilder()
    for root in publisher.timestamp_roots:
        builder = builder.add_root_certificate(root)
    verifier = builder.build()
    for raw in bundle.timestamps:
        try:
            response = decode_timestamp_response(raw)
            verifier.verify_message(response, bundle.signature)
        except (ValueError, VerificationError):
            raise InvalidSignatureFile("its timestamp is not valid") from None
        return response.tst_info.gen_time
    return now


def _verifier(roots: Sequence[x509.Certificate], at: datetime) -> ClientVerifier:
    from cryptography import x509
    from cryptography.x509.verification import Criticality, ExtensionPolicy, PolicyBuilder, Store

    def is_authority(_policy: object, _certificate: object, extension: x509.BasicConstraints) -> None:
        if not extension.ca:
            raise ValueError("not a certificate authority")

    def may_certify(_policy: object, _certificate: object, extension: x509.KeyUsage | None) -> None:
        if extension is not None and not extension.key_cert_sign:
            raise ValueError("not for signing certificates")

    either = Criticality.AGNOSTIC
    authority = (
        ExtensionPolicy.permit_all()
        .require_present(x509.BasicConstraints, either, is_authority)
        .may_be_present(x509.KeyUsage, either, may_certify)
    )
    return (
        PolicyBuilder()
        .store(Store(list(roots)))
        .time(at.astimezone(UTC).replace(tzinfo=None))
        .max_chain_depth(MAX_CERTIFICATES)
        .extension_policies(ca_policy=authority, ee_policy=ExtensionPolicy.permit_all())
        .build_client_verifier()
    )


def _may_sign(leaf: x509.Certificate) -> bool:
    """Whether a certificate is for signing: it must state a usage, and every stated usage must allow it."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    stated: list[bool] = []
    with contextlib.suppress(x509.ExtensionNotFound):
        stated.append(leaf.extensions.get_extension_for_class(x509.KeyUsage).value.digital_signature)
    with contextlib.suppress(x509.ExtensionNotFound):
        usages = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        stated.append(ExtendedKeyUsageOID.CODE_SIGNING in usages)
    return bool(stated) and all(stated)
