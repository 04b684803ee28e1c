"""Publisher: a signer that the user recognizes, by public keys, root certificates or an identity."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillwire.errors import FormatError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey


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
