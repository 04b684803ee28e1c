"""Signatures: who signed a skill, and over which files (OpenSSF Model Signing 1.0, `skill.oms.sig`).

1. The bundle is small, is JSON without repeated keys, and has exactly the fields of the format.
2. The envelope is DSSE over an in-toto statement, with one signature.
3. The key or the certificate chain is that of a publisher whom the user configured. A chain must be valid at
   the time given, and every certificate in the bundle must be part of it.
4. The signature over the payload is valid, by an algorithm on the allow-list.
5. The statement is consistent: one subject, whose digest is that of the listed files; each file once, by a
   plain relative name, hashed whole with SHA-256.
6. The signed files are the files of the skill: the same names with the same digests, and no others. Nothing
   that is installed, served or shown is left out, whatever the signer chose to ignore.

The result says who signed what. It never says that a skill is harmless, and does not replace an approval.
Pure: no files, no network, no clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from skillwire.errors import FormatError
from skillwire.skill import DYNAMIC, Digest, SkillEntry, is_version_control, path_below, skill_root
from skillwire.trust.publishers import (
    PAYLOAD_TYPE,
    SIGNATURE_FILE,
    InvalidSignatureFile,
    KeylessSignature,
    Publisher,
    SignatureBundle,
    allowed_key,
    bundle_of,
    claimed_files,
    key_hint,
    parse_bundle,
    signed_files,
    signing_time,
    statement_of,
    unusable_key,
    verify_chain,
)
from skillwire.version import pip_command

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

# What `sigstore` may raise besides its own errors, for a malformed bundle.
_ODD_BUNDLE: Final = (ValueError, TypeError, LookupError, AttributeError)


class SignatureState(StrEnum):
    """The verdict on the signature of a skill."""

    SIGNED = "signed"
    """Signed by a configured publisher, over exactly these files."""
    DIFFERS = "differs"
    """Signed by a configured publisher, but over other files."""
    UNKNOWN = "unknown-publisher"
    """Signed with a key that belongs to no configured publisher."""
    INVALID = "invalid"
    """There is a signature file, but it proves nothing."""
    UNSIGNED = "unsigned"
    """There is no signature file."""


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """Who signed a skill, and whether the signature covers the files that it has.

    `signer` identifies the key or the certificate, so that a lock file can pin it: `key:` or `cert:` and a
    SHA-256 fingerprint. `differing` are the paths that differ from what was signed.
    """

    state: SignatureState
    publisher: str = ""
    signer: str = ""
    differing: tuple[str, ...] = ()
    reason: str = ""
    is_unread: bool = False
    """Whether the signature file could not be read, so that another attempt may succeed."""

    @property
    def is_signed(self) -> bool:
        """Whether a configured publisher signed exactly these files."""
        return self.state is SignatureState.SIGNED

    def as_json(self) -> dict[str, object]:
        """As JSON: the state and its details."""
        return {
            "state": str(self.state),
            "text": str(self),
            "publisher": self.publisher or None,
            "signer": self.signer or None,
            "differing": list(self.differing),
            "reason": self.reason or None,
        }

    def __str__(self) -> str:
        match self.state:
            case SignatureState.SIGNED:
                return f"signed by {self.publisher} over exactly these files"
            case SignatureState.DIFFERS:
                count = len(self.differing)
                files = "1 file differs" if count == 1 else f"{count} files differ"
                return f"signed by {self.publisher}, but {files}"
            case SignatureState.UNKNOWN:
                return "signature of an unknown publisher"
            case SignatureState.INVALID:
                return f"signature not valid: {self.reason}"
            case SignatureState.UNSIGNED:
                return "not signed"


UNSIGNED: Final = SignatureVerdict(SignatureState.UNSIGNED)


class _NotTheirs(Exception):
    """The signature was not made with a key of this publisher."""


def skill_files(entry: SkillEntry) -> dict[str, Digest] | None:
    """The files of an entry by path; `None` for a dynamic skill, which cannot be signed."""
    if entry.resources is DYNAMIC:
        return None
    root = skill_root(entry.uri)
    return {"/".join(path_below(resource.uri, root)): resource.digest for resource in entry.resources}


def check_signature(
    files: Mapping[str, Digest],
    bundle: bytes | None,
    publishers: Sequence[Publisher],
    *,
    now: datetime,
) -> SignatureVerdict:
    """Who signed these files. `bundle` is the content of `skill.oms.sig`, `None` if there is none.

    A certificate must be valid `now`, or have been valid at the time of a timestamp in the bundle by an
    authority that the publisher is configured with.
    """
    if bundle is None:
        return UNSIGNED
    try:
        try:
            parsed = parse_bundle(bundle)
            signer, publisher = _find_publisher(parsed, publishers, now)
            payload = parsed.payload
        except KeylessSignature:
            signer, publisher, payload = _by_identity(bundle, publishers)
        signed = signed_files(payload)
    except _NotTheirs as error:
        return SignatureVerdict(SignatureState.UNKNOWN, signer=str(error))
    except InvalidSignatureFile as error:
        return SignatureVerdict(SignatureState.INVALID, reason=str(error))
    differing = tuple(sorted(_differences(files, signed)))
    state = SignatureState.DIFFERS if differing else SignatureState.SIGNED
    return SignatureVerdict(state, publisher, signer, differing)


def claimed_differences(files: Mapping[str, Digest], bundle: bytes) -> tuple[str, ...]:
    """The paths that differ from a signature file, whoever made it, for authors and servers.

    Raises `InvalidSignatureFile` if it does not sign a set of files. Needs no key, and proves nothing.
    """
    return tuple(sorted(_differences(files, claimed_files(bundle))))


def sign_files(
    files: Mapping[str, Digest],
    *,
    name: str,
    key: EllipticCurvePrivateKey,
    chain: Sequence[x509.Certificate] = (),
) -> bytes:
    """The content of `skill.oms.sig` for these files, signed with a key, or with a certificate and its chain.

    The same files, key and chain always give the same bytes.
    """
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA
    from cryptography.hazmat.primitives.serialization import Encoding

    payload = statement_of(files, name=name)
    public = allowed_key(key.public_key())
    if chain and chain[0].public_key() != public:
        raise unusable_key("the certificate is not for this key")
    signature = key.sign(_pae(payload), ECDSA(_hash_for(public), deterministic_signing=True))
    return bundle_of(
        payload,
        signature,
        hint=key_hint(public),
        chain=[certificate.public_bytes(Encoding.DER) for certificate in chain],
    )


# Steps 3 and 4: the publisher and the signature


def _find_publisher(
    bundle: SignatureBundle, publishers: Sequence[Publisher], at: datetime
) -> tuple[str, str]:
    """The signer's fingerprint and the publisher's name."""
    if bundle.chain:
        return _by_certificate(bundle, publishers, at)
    for publisher in publishers:
        keys = publisher.keys
        for hint, key in keys.items():
            if bundle.hint and bundle.hint != hint:
                continue
            if _is_signed_by(bundle, key):
                return f"key:{hint}", publisher.name
            if bundle.hint:
                raise InvalidSignatureFile("it does not match what it signs")
    raise _NotTheirs(f"key:{bundle.hint}" if bundle.hint else "")


def _by_certificate(
    bundle: SignatureBundle, publishers: Sequence[Publisher], at: datetime
) -> tuple[str, str]:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256

    try:
        leaf, *others = [x509.load_der_x509_certificate(raw) for raw in bundle.chain]
        key = leaf.public_key()
    except (ValueError, TypeError):
        raise InvalidSignatureFile("a certificate cannot be read") from None
    signer = f"cert:{leaf.fingerprint(SHA256()).hex()}"
    try:
        allowed = allowed_key(key)
    except FormatError as error:
        raise InvalidSignatureFile(str(error)) from None
    reasons: list[str] = []
    for publisher in publishers:
        if not publisher.roots:
            continue
        try:
            verify_chain(leaf, others, publisher, signing_time(bundle, publisher, at))
        except InvalidSignatureFile as error:
            reasons.append(str(error))
            continue
        if not _is_signed_by(bundle, allowed):
            raise InvalidSignatureFile("it does not match what it signs")
        return signer, publisher.name
    # An invalid chain to a configured root is worse than one of an unknown publisher.
    for reason in reasons:
        if reason:
            raise InvalidSignatureFile(reason)
    raise _NotTheirs(signer)


def _by_identity(bundle: bytes, publishers: Sequence[Publisher]) -> tuple[str, str, bytes]:
    """A keyless signature, verified by `sigstore` with its data on disk; nothing is fetched."""
    known = [publisher for publisher in publishers if publisher.identity]
    if not known:
        raise _NotTheirs("")
    try:
        from sigstore.errors import Error
        from sigstore.models import Bundle, ClientTrustConfig
        from sigstore.verify import Verifier
        from sigstore.verify.policy import Identity
    except ModuleNotFoundError:
        raise InvalidSignatureFile(
            f"checking a keyless signature needs more packages: {pip_command('sigstore')}"
        ) from None
    try:
        parsed = Bundle.from_json(bundle)
        verifier = Verifier(trusted_root=ClientTrustConfig.production(offline=True).trusted_root)
    except (Error, *_ODD_BUNDLE) as error:
        raise InvalidSignatureFile(f"it cannot be checked ({type(error).__name__})") from None
    for publisher in known:
        try:
            kind, payload = verifier.verify_dsse(
                parsed, Identity(identity=publisher.identity, issuer=publisher.issuer or None)
            )
        except (Error, *_ODD_BUNDLE):
            continue
        if kind != PAYLOAD_TYPE:
            raise InvalidSignatureFile(f"its payload type is not {PAYLOAD_TYPE}")
        return f"identity:{publisher.identity}", publisher.name, payload
    raise _NotTheirs("")


def _is_signed_by(bundle: SignatureBundle, key: EllipticCurvePublicKey) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA

    try:
        key.verify(bundle.signature, _pae(bundle.payload), ECDSA(_hash_for(key)))
    except InvalidSignature:
        return False
    return True


def _pae(payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: the payload type and the payload, each preceded by its length."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode("ascii"), len(payload), payload)


def _hash_for(key: EllipticCurvePublicKey) -> HashAlgorithm:
    from cryptography.hazmat.primitives.hashes import SHA256, SHA384, SHA512

    return {"secp256r1": SHA256, "secp384r1": SHA384, "secp521r1": SHA512}[key.curve.name]()


# Step 6: the files


def _differences(files: Mapping[str, Digest], signed: Mapping[str, str]) -> set[str]:
    """The paths that differ from what was signed: changed, added or missing.

    Every file of the skill must be signed. A signature may also list files of version control, which no skill
    has.
    """
    ours = {path: str(digest) for path, digest in files.items() if path != SIGNATURE_FILE}
    theirs = {path: digest for path, digest in signed.items() if path != SIGNATURE_FILE}
    return {
        path
        for path in ours.keys() | theirs.keys()
        if ours.get(path) != theirs.get(path) and (path in ours or not is_version_control(path))
    }


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
