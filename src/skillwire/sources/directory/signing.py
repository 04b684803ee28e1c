"""Signing of a skill's folder: writes and checks `skill.oms.sig`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.errors import FormatError, SourceError
from skillwire.files import write_atomic
from skillwire.issues import Issue, Severity, shown
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill.digests import Digest
from skillwire.skill.lint import lint_skill
from skillwire.skill.uris import SKILL_FILE
from skillwire.sources.directory.builder import Rules
from skillwire.sources.directory.roots import find_reach, parse_root
from skillwire.sources.directory.scan import scan
from skillwire.sources.directory.snapshot import ScannedSkill
from skillwire.trust.oms import MAX_BUNDLE_BYTES, SIGNATURE_FILE, InvalidSignatureFile, statement_of
from skillwire.trust.publishers import Publisher
from skillwire.trust.signatures import (
    SignatureVerdict,
    check_signature,
    claimed_differences,
    sign_files,
    skill_files,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_MAX_KEY_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder with one skill: its name and files, as a server would list them."""

    path: Path
    name: str
    files: dict[str, Digest]


def read_folder(path: Path) -> SkillFolder:
    """The skill in a folder, or a `FormatError` with all lint errors."""
    directory = path.parent if path.name == SKILL_FILE else path
    skill, issues = _scanned(directory, Rules(strict=True))
    if skill is None:
        if issues:
            raise FormatError(issues)
        raise SourceError(f"{shown(str(path))} is not a skill: give a directory that has a {SKILL_FILE}")
    files = skill_files(skill.entry) or {}
    data = (directory / SKILL_FILE).read_bytes()
    sizes = dict.fromkeys(files, 0)
    errors = [
        issue
        for issue in lint_skill(data, directory=directory.resolve().name, files=sizes)
        if issue.severity is not Severity.ADVICE
    ]
    if errors:
        raise FormatError(errors)
    return SkillFolder(directory, skill.entry.name, files)


def signature_issues(directory: Path) -> list[Issue]:
    """The problems of the signature file in a skill's folder, for its author. Needs no key."""
    skill, _ = _scanned(directory, Rules())
    bundle = read_signature(directory) if skill is not None else None
    if skill is None or bundle is None:
        return []  # Problems that keep it from being served are already reported.
    fix = "sign the skill again with `skillwire sign`"
    try:
        differing = claimed_differences(skill_files(skill.entry) or {}, bundle)
    except InvalidSignatureFile as error:
        message = f"it is not a signature of this skill: {error}"
        return [
            Issue(
                rule="signature-invalid",
                message=message,
                fix=fix,
                severity=Severity.WARNING,
                file=SIGNATURE_FILE,
            )
        ]
    if not differing:
        return []
    names = ", ".join(shown(path, 80) for path in differing[:8])
    more = f" and {len(differing) - 8} more" if len(differing) > 8 else ""
    message = f"it does not cover the files that are here: {names}{more}"
    return [
        Issue(
            rule="signature-differs", message=message, fix=fix, severity=Severity.WARNING, file=SIGNATURE_FILE
        )
    ]


def _scanned(directory: Path, rules: Rules) -> tuple[ScannedSkill | None, list[Issue]]:
    """The skill in a directory as a server would list it, or the problems that keep it from being served."""
    root = parse_root(directory)
    snapshot = scan([root], limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=rules)
    real = str(directory.resolve())
    found = (one for one in snapshot.skills.values() if str(Path(one.directory).resolve()) == real)
    return next(found, None), [issue for problem in snapshot.problems for issue in problem.issues]


def sign_folder(
    folder: SkillFolder, key: EllipticCurvePrivateKey, chain: Sequence[x509.Certificate] = ()
) -> Path:
    """Write the signature of a folder's files, and return its path."""
    target = folder.path / SIGNATURE_FILE
    write_atomic(target, sign_files(folder.files, name=folder.name, key=key, chain=chain), mode=0o644)
    return target


def sign_keyless(folder: SkillFolder) -> Path:
    """Sign with Sigstore, with an identity from the environment or a browser. Uses the network."""
    try:
        from sigstore.dsse import Statement
        from sigstore.models import ClientTrustConfig
        from sigstore.oidc import IdentityToken, Issuer, detect_credential
        from sigstore.sign import SigningContext
    except ModuleNotFoundError:
        raise SourceError("keyless signing needs the package sigstore: install skillwire[sigstore]") from None
    trust = ClientTrustConfig.production()
    ambient = detect_credential()
    token = (
        IdentityToken(ambient) if ambient else Issuer(trust.signing_config.get_oidc_url()).identity_token()
    )
    statement = Statement(statement_of(folder.files, name=folder.name))
    with SigningContext.from_trust_config(trust).signer(token) as signer:
        bundle = signer.sign_dsse(statement)
    target = folder.path / SIGNATURE_FILE
    write_atomic(target, bundle.to_json().encode("utf-8"), mode=0o644)
    return target


def check_folder(folder: SkillFolder, publishers: Sequence[Publisher], *, now: datetime) -> SignatureVerdict:
    """Who signed the files of a folder."""
    return check_signature(folder.files, read_signature(folder.path), publishers, now=now)


def read_signature(directory: Path) -> bytes | None:
    """The content of a folder's signature file, up to the size limit; `None` without one."""
    try:
        with (directory / SIGNATURE_FILE).open("rb") as file:
            return file.read(MAX_BUNDLE_BYTES + 1)
    except FileNotFoundError:
        return None


def load_private_key(path: Path, password: bytes | None = None) -> EllipticCurvePrivateKey:
    """An elliptic curve private key from a PEM file."""
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(read_pem(path), password)
    except TypeError:
        fix = "give its password" if password is None else "leave the password out"
        raise _bad_key(f"{path} cannot be opened with what was given", fix) from None
    except ValueError:
        raise _bad_key(
            f"{path} is not a private key in PEM, or its password is wrong", "check the file"
        ) from None
    if not isinstance(key, EllipticCurvePrivateKey):
        raise _bad_key(f"{path} is not an elliptic curve key", "make one with `skillwire keygen`")
    return key


def load_chain(path: Path) -> list[x509.Certificate]:
    """Certificates from a PEM file, the signer's own first."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificates(read_pem(path))
    except ValueError:
        raise _bad_key(f"{path} has no certificates in PEM", "put the signer's certificate first") from None


def new_key_pair(private: Path, password: bytes | None = None) -> Path:
    """Create a P-256 key: the private part, readable only by its owner, and the public part as `.pub`."""
    import os

    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
    )

    public = private.with_name(private.name.removesuffix(".pem") + ".pub")
    key = generate_private_key(SECP256R1())
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
    try:
        # Never overwrites a file, and is never readable by others, not even for a moment.
        descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        with public.open("xb") as file:
            file.write(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    except FileExistsError as error:
        raise SourceError(f"{error.filename} already exists: choose another name") from None
    return public


def read_pem(path: Path) -> bytes:
    """The content of a key or certificate file."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_KEY_BYTES + 1)
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}; check the path") from None
    if len(data) > _MAX_KEY_BYTES:
        raise SourceError(f"{path} is too long for a key or a certificate; check the path")
    return data


def _bad_key(message: str, fix: str) -> FormatError:
    return FormatError.of(rule="signing-key", message=message, fix=fix)
