"""Keys, certificates and signatures for tests, made anew: no secret is in the repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@dataclass(frozen=True)
class Identity:
    """A private key with its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate


def new_key(curve: ec.EllipticCurve | None = None) -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(curve or ec.SECP256R1())


def authority(name: str = "Root", issuer: Identity | None = None, **options: bool) -> Identity:
    return _issue(name, issuer, ca=options.get("ca", True), usage="certify")


def signer(
    issuer: Identity,
    *,
    name: str = "Signer",
    usage: str = "sign",
    starts: datetime = NOW - timedelta(days=10),
    ends: datetime = NOW + timedelta(days=10),
    curve: ec.EllipticCurve | None = None,
) -> Identity:
    return _issue(name, issuer, ca=False, usage=usage, starts=starts, ends=ends, curve=curve)


def chain_of(*identities: Identity) -> Sequence[x509.Certificate]:
    return [identity.certificate for identity in identities]


def _issue(
    name: str,
    issuer: Identity | None,
    *,
    ca: bool,
    usage: str,
    starts: datetime = NOW - timedelta(days=1000),
    ends: datetime = NOW + timedelta(days=1000),
    curve: ec.EllipticCurve | None = None,
) -> Identity:
    key = new_key(curve)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(starts)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if usage in ("sign", "certify", "encrypt", "sign and tls"):
        builder = builder.add_extension(
            x509.KeyUsage(
                digital_signature=usage.startswith("sign"),
                content_commitment=False,
                key_encipherment=usage == "encrypt",
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=usage == "certify",
                crl_sign=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    if usage == "timestamp":
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True
        )
    if usage in ("tls", "sign and tls"):
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return Identity(key, builder.sign(issuer.key if issuer else key, SHA256()))
