"""Tools for the author of a directory of skills: sign them, and lint them as they would be served."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from skillwire.documents import JsonValue
from skillwire.errors import FormatError, Issue, LimitExceeded, Severity, SkillwireError, SourceError
from skillwire.files import make_folder, write_atomic
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import (
    SKILL_FILE,
    Digest,
    Profile,
    SkillDocument,
    SkillEntry,
    digest_of,
    lint_skill,
    name_issues,
    parse_skill_md,
    unmet_demands,
)
from skillwire.skill.fields import Fixed, fix_skill_md, unified_diff
from skillwire.skill.lint import estimate_tokens, find_references, ignored_rules, resolve
from skillwire.skill.lint_report import Linted
from skillwire.sources.base import Problem
from skillwire.sources.directory.builder import Known, Rules
from skillwire.sources.directory.files import Root, find_reach, parse_root
from skillwire.sources.directory.scan import scan
from skillwire.sources.directory.walk import MeasuredSkill, Walk
from skillwire.text import shown
from skillwire.trust import (
    MAX_BUNDLE_BYTES,
    SIGNATURE_FILE,
    Hiding,
    InvalidSignatureFile,
    Publisher,
    SignatureVerdict,
    check_signature,
    claimed_differences,
    find_hidden_text,
    sign_files,
    skill_files,
    statement_of,
)
from skillwire.version import pip_command

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

_MAX_KEY_BYTES: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class SkillFolder:
    """A folder with one skill: its name and files, as a server would list them."""

    path: Path
    name: str
    files: Mapping[str, Digest]
    frontmatter: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The fields that a server would list; empty if only the files were read."""


def read_folder(path: Path) -> SkillFolder:
    """The skill in a folder, or a `FormatError` with the errors for which a server leaves it out."""
    directory = _directory_of(path)
    root = parse_root(directory)
    snapshot = scan([root], limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=Rules())
    real = str(directory.resolve())
    for skill in snapshot.skills.values():
        if str(Path(skill.directory).resolve()) == real:
            return _folder_of(directory, skill.entry)
    if issues := [issue for problem in snapshot.problems for issue in problem.issues]:
        raise FormatError(issues)
    raise _no_skill(path)


def read_files(path: Path) -> SkillFolder:
    """The files of the skill in a folder, whatever is in its `SKILL.md`: a signature is over bytes.

    They are those that a server would list. The skill is called by its directory.
    """
    directory = _directory_of(path)
    root = parse_root(directory)
    found: list[MeasuredSkill] = []
    rules = Rules(allow_oversize=True)
    Walk(root, limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=rules, on_skill=found.append).run()
    real = str(directory.resolve())
    for skill in found:
        if str(Path(skill.directory).resolve()) == real:
            return SkillFolder(directory, directory.resolve().name, _digests(directory, skill))
    raise _no_skill(path)


def _digests(directory: Path, skill: MeasuredSkill) -> dict[str, Digest]:
    if sum(skill.files.values()) > DEFAULT_LIMITS.bytes_per_skill:
        raise LimitExceeded(
            f"{shown(str(directory))} is larger than a skill may be: its signature is not checked"
        )
    try:
        return {name: digest_of((directory / name).read_bytes()) for name in skill.files}
    except OSError as error:
        name = shown(str(error.filename))
        raise SourceError(f"{name} cannot be read: {error.strerror}; grant read access") from None


def _folder_of(directory: Path, entry: SkillEntry) -> SkillFolder:
    return SkillFolder(directory, entry.name, skill_files(entry) or {}, entry.frontmatter)


def _directory_of(path: Path) -> Path:
    return path.parent if path.name == SKILL_FILE else path


def _no_skill(path: Path) -> SourceError:
    return SourceError(f"{shown(str(path))} is not a skill: give a directory that has a {SKILL_FILE}")


def signature_issues(directory: Path) -> list[Issue]:
    """The problems of the signature file in a skill's folder, for its author. Needs no key."""
    bundle = read_signature(directory)
    if bundle is None:
        return []
    fix = "sign the skill again with `skillwire sign`"
    try:
        differing = claimed_differences(read_files(directory).files, bundle)
    except InvalidSignatureFile as error:
        return [_signature_issue("signature-invalid", f"it is not a signature of this skill: {error}", fix)]
    except SkillwireError:
        return []  # What cannot be read is reported already.
    if not differing:
        return []
    names = ", ".join(shown(path, 80) for path in differing[:8])
    more = f" and {len(differing) - 8} more" if len(differing) > 8 else ""
    message = f"it does not cover the files that are here: {names}{more}"
    return [_signature_issue("signature-differs", message, fix)]


def _signature_issue(rule: str, message: str, fix: str) -> Issue:
    return Issue(rule=rule, message=message, fix=fix, severity=Severity.WARNING, file=SIGNATURE_FILE)


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
        raise SourceError(f"keyless signing needs the package sigstore: {pip_command('sigstore')}") from None
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
        raise _bad_key(f"{path} is not an elliptic curve key", "make one with `skillwire sign --new-key`")
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
        make_folder(private.parent)
        # Never overwrites a file, and is never readable by others, not even for a moment.
        descriptor = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        with public.open("xb") as file:
            file.write(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    except FileExistsError as error:
        raise SourceError(f"{error.filename} already exists: choose another name") from None
    except OSError as error:
        raise SourceError(f"{private} cannot be written: {error.strerror}; choose another place") from None
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


_HIDDEN_RULE: Final = "hidden-characters"
_MARKDOWN: Final = (".md", ".markdown")
_HIDDEN: Final = {
    Hiding.TAGS: "Unicode tag characters, which no person sees",
    Hiding.BIDI: "characters that change the direction of text",
    Hiding.INVISIBLE: "zero-width characters",
    Hiding.CONTROL: "control characters",
}

_Place: TypeAlias = tuple[str, tuple[str, ...]]
"""A skill's directory, or a path outside of skills, with its issues."""


@dataclass(frozen=True, slots=True)
class FileFix:
    """A `SKILL.md` that `--fix` repairs: its path as the user wrote it, its bytes, and the repaired bytes."""

    path: Path
    before: bytes
    fixed: Fixed
    directory: str = ""
    """The new name of its directory; empty if that stays."""

    @property
    def diff(self) -> str:
        changes = unified_diff(self.before, self.fixed.data, file=self.path.as_posix())
        if self.directory:
            moved = self.path.parent.with_name(self.directory)
            changes += f"rename {self.path.parent.as_posix()} to {moved.as_posix()}\n"
        return changes

    def write(self) -> None:
        """Replace the file atomically and keep its mode. Raises `SourceError` if that fails."""
        try:
            if self.fixed.data != self.before:
                mode = self.path.stat().st_mode & 0o777
                write_atomic(self.path, self.fixed.data, mode=mode)
            if self.directory:
                self.path.parent.rename(self.path.parent.with_name(self.directory))
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror}") from None


def lint_paths(paths: Iterable[Path], *, profile: Profile | None = None) -> list[Linted]:
    """Lint the skills below the paths, each once; by the demands of the profile as well."""
    places: dict[_Place, Linted] = {}
    sizes: dict[str, dict[str, int]] = {}
    for place, linted, files, _ in _linted(paths):
        if place not in places:
            places[place] = linted
            if linted.skill is not None:
                sizes[linted.skill] = dict(files)
    found = list(places.values())
    return found if profile is None else _with_demands(found, profile, sizes)


def lint_folders(path: Path) -> list[tuple[Linted, SkillFolder | None]]:
    """Lint the skills below a path, each with its folder as a server would list it, unless it would not."""
    return [(linted, folder) for _, linted, _, folder in _linted([path])]


def _linted(paths: Iterable[Path]) -> Iterator[tuple[_Place, Linted, Mapping[str, int], SkillFolder | None]]:
    for path in paths:
        given = path.parent if _is_skill_md(path) else path
        found = {row[0]: row for row in _lint_root(parse_root(given), given)}
        if not found:
            # A check that looked at nothing must not pass.
            raise SourceError(
                f"no skills in {given}: a skill is a directory with a {SKILL_FILE}; "
                f"skillwire new {given / 'my-skill'} makes one"
            )
        for place in sorted(found):
            yield found[place]


def _with_demands(
    linted: Sequence[Linted], profile: Profile, sizes: Mapping[str, Mapping[str, int]]
) -> list[Linted]:
    """The same with what the consumer of the profile refuses: as errors, because that is asked for."""
    demands: dict[str, list[Issue]] = {}
    for demand in unmet_demands(profile, sizes):
        file = str(Path(demand.skill) / SKILL_FILE) if demand.skill else ""
        issue = Issue(rule=f"profile-{demand.rule}", message=demand.message, fix=demand.fix, file=file)
        demands.setdefault(demand.skill, []).append(issue)
    found = [
        replace(one, issues=(*one.issues, *demands.get(one.skill, ()))) if one.skill is not None else one
        for one in linted
    ]
    return [*found, Linted(None, tuple(demands[""]))] if "" in demands else found


def find_fixes(
    paths: Iterable[Path], *, unsafe: bool = False, rename_directories: bool = False
) -> list[FileFix]:
    """The repairs of all skills below the paths, inner skills first; nothing is written yet.

    With `rename_directories`, a directory gets the name of its skill, unless there is one of that name.
    """
    fixes: dict[Path, FileFix] = {}
    for path in paths:
        given = path.parent if _is_skill_md(path) else path
        for skill, directory in _skills(parse_root(given), given)[1]:
            if skill.skill_md is not None:
                named = Path(skill.directory).name
                fixed = fix_skill_md(skill.skill_md, directory=named, unsafe=unsafe)
                renamed = _new_directory(directory, named, fixed) if rename_directories else ""
                if fixed.data != skill.skill_md or renamed:
                    file = Path(skill.directory) / SKILL_FILE
                    fixes.setdefault(file, FileFix(directory / SKILL_FILE, skill.skill_md, fixed, renamed))
    return [fixes[file] for file in sorted(fixes, key=lambda file: (-len(file.parts), file))]


def _new_directory(directory: Path, named: str, fixed: Fixed) -> str:
    """The name that a directory gets; empty if it stays."""
    try:
        name = parse_skill_md(fixed.data).frontmatter.get("name")
    except FormatError:
        return ""
    is_new = isinstance(name, str) and name != named and not name_issues(name)
    # The user's own path is not renamed while it is used: `.` has no name.
    if not isinstance(name, str) or not is_new or not directory.name or directory.with_name(name).exists():
        return ""
    return name


def _is_skill_md(path: Path) -> bool:
    try:
        return path.name.lower() == SKILL_FILE.lower() and path.is_file()
    except OSError:
        return False  # Opening it as a directory reports what is wrong.


def _skills(root: Root, given: Path) -> tuple[Walk, list[tuple[MeasuredSkill, Path]]]:
    """Walk by the server's rules, so that both agree on what a skill is and what belongs to it."""
    found: list[tuple[MeasuredSkill, Path]] = []

    def take(skill: MeasuredSkill) -> None:
        found.append((skill, given / Path(skill.directory).relative_to(root.path)))

    # All files of a skill must be known, whatever its size, before a reference is reported as missing.
    walk = Walk(
        root,
        limits=DEFAULT_LIMITS,
        reach=find_reach([root]),
        rules=Rules(allow_oversize=True),
        on_skill=take,
    ).run()
    return walk, found


def _lint_root(
    root: Root, given: Path
) -> Iterator[tuple[_Place, Linted, Mapping[str, int], SkillFolder | None]]:
    walk, skills = _skills(root, given)
    directories = {Path(skill.directory) for skill, _ in skills}
    # The scan reads the bytes again, which may have changed. What did not is not parsed again.
    documents = {data: document for skill, _ in skills for data, document in _parsed(skill.skill_md)}
    known = Known(documents=documents)
    snapshot = scan([root], limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=Rules(), known=known)
    served = {skill.directory: skill.entry for skill in snapshot.skills.values()}
    left_out = _left_out(snapshot.problems, served)
    for skill, directory in skills:
        linted = _lint(skill, directory, directories, documents.get(skill.skill_md or b""))
        refused = left_out.get(skill.directory, ())
        if refused and not any(issue.severity is Severity.ERROR for issue in linted.issues):
            # What a server leaves out is an error, in the server's words, whatever a comment turns off.
            found = (replace(issue, file=str(directory / issue.file)) for issue in refused)
            rules = {issue.rule for issue in refused}
            kept = (issue for issue in linted.issues if issue.rule not in rules)
            linted = replace(linted, issues=(*found, *kept))
        entry = served.get(skill.directory)
        folder = _folder_of(directory, entry) if entry is not None else None
        yield (skill.directory, ()), linted, skill.files, folder
    for problem in walk.problems:
        place = Path(problem.place)
        file = given / place.relative_to(root.path) if place.is_relative_to(root.path) else place
        rules = tuple(issue.rule for issue in problem.issues)
        issues = tuple(replace(issue, file=str(file)) for issue in problem.issues)
        yield (problem.place, rules), Linted(None, issues), {}, None


def _left_out(problems: Iterable[Problem], served: Container[str]) -> dict[str, tuple[Issue, ...]]:
    """The errors of the skills that a server does not serve, by their directories."""
    found: dict[str, tuple[Issue, ...]] = {}
    for problem in problems:
        if problem.place not in served:
            errors = tuple(issue for issue in problem.issues if issue.severity is Severity.ERROR)
            found[problem.place] = found.get(problem.place, ()) + errors
    return found


def _parsed(skill_md: bytes | None) -> Iterator[tuple[bytes, SkillDocument]]:
    with suppress(FormatError):  # The linter says why, and reads what it can.
        if skill_md is not None:
            yield skill_md, parse_skill_md(skill_md)


def _lint(
    skill: MeasuredSkill, directory: Path, directories: set[Path], document: SkillDocument | None
) -> Linted:
    found = [*skill.issues]
    if SIGNATURE_FILE in skill.files:
        found += signature_issues(Path(skill.directory))
    ignored = ignored_rules(skill.skill_md or b"")
    found += [issue for issue in _text_issues(skill, directories) if issue.rule not in ignored]
    if skill.skill_md is not None:
        name = Path(skill.directory).name
        found += lint_skill(skill.skill_md, directory=name, files=skill.files, document=document)
    issues = tuple(replace(issue, file=str(directory / issue.file)) for issue in found)
    if skill.skill_md is None:
        return Linted(str(directory), issues)
    return Linted(str(directory), issues, estimate_tokens(skill.skill_md, document))


def _text_issues(skill: MeasuredSkill, directories: set[Path]) -> Iterator[Issue]:
    """Issues of the text files of a skill: characters that a model reads and a person does not see, and
    references that mean something else from the skill's root.

    A file of a nested skill is reported for that skill only; `directories` are those of all skills.
    """
    root = Path(skill.directory)
    for name, size in skill.files.items():
        file = root / name
        owner = next(parent for parent in file.parents if parent in directories)
        if size > DEFAULT_LIMITS.bytes_per_skill or owner != root:
            continue
        try:
            text = file.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError):
            continue  # A binary file, or one that the walk has reported.
        for place in find_hidden_text(text, markdown=False):
            yield Issue(
                rule=_HIDDEN_RULE,
                message=f"{_HIDDEN[place.hiding]}: {place.what}",
                fix="remove them, or write them as escapes; hosts that clean text remove them as well",
                file=name,
                line=place.line,
                severity=Severity.WARNING,
            )
        if "/" in name and name.lower().endswith(_MARKDOWN):
            yield from _references(text, name, skill.files)


def _references(text: str, name: str, files: Mapping[str, int]) -> Iterator[Issue]:
    """FMT-10: a host resolves a reference in any file against the root of the skill, a reader of the file
    against its directory. Only where the second alone leads to a file is there a difference that matters."""
    here = name.rpartition("/")[0]
    for reference in find_references(text, 1):
        at_root, near = resolve(reference.target), resolve(f"{here}/{reference.target}")
        if near in files and at_root not in files:
            target = shown(reference.target)
            yield Issue(
                rule="reference-root",
                message=f"`{target}` leads to {shown(near or '')} from the directory of this file, and to no "
                "file from the root of the skill, where hosts start",
                fix=f"write {shown(near or '')}",
                file=name,
                line=reference.line,
                severity=Severity.ADVICE,
            )
