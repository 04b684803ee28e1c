"""Publisher: a signer that the user recognizes, by public keys, root certificates or an identity."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from skillwire.errors import FormatError
from skillwire.trust.oms import MAX_CERTIFICATES, InvalidSignatureFile, SignatureBundle
from skillwire.version import pip_command

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.x509.verification import ClientVerifier

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
