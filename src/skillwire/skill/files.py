"""The files of a skill: which names belong to it, and SkillDocument, a `SKILL.md` as frontmatter and body.

Servers and hosts use this one parser, so that a field-by-field comparison never refuses a correct skill
(VER-2). It reads YAML 1.2 as the `yaml` package of JavaScript does. Three rules are ours:

- The block is closed by the first line that is `---` alone. `...`, which some tools accept too, is refused.
- The newline before the closing `---` belongs to the YAML, so `description: |` as the last key keeps it.
- A value on one line that is not valid YAML, such as one with an unquoted colon, is read as if it were in
  quotes, as the client guide of agentskills.io proposes. Each repair is reported; `strict` allows none.
"""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Final

from skillwire.documents import JsonObject, JsonValue
from skillwire.errors import FormatError, Issue, Severity
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.entries import LONGEST_SEGMENT, SKILL_FILE, parse_name, path_error, safe_path
from skillwire.skill.yaml_scalars import plain_lines
from skillwire.text import shown

_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$"}
    | {f"{name}{number}" for name in ("com", "lpt") for number in "0123456789¹²³"}
)
_FORBIDDEN: Final = frozenset('<>:"|?*\\')
MANIFEST_FILE_BYTES: Final = 1_000_000
"""R6: the file size that clients of the reference server's dialect accept."""
MARKDOWN: Final = "text/markdown"
DIRECTORY: Final = "inode/directory"
_UNKNOWN: Final = "application/octet-stream"
_TEXT: Final = "text/plain"

# With the files that signers ignore: what may be unsigned is not part of a skill.
_VERSION_CONTROL: Final = frozenset(
    {".git", ".gitattributes", ".github", ".gitignore", ".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS"}
)
_MADE_BY_TOOLS: Final = frozenset(
    {"__pycache__", "node_modules", ".venv", ".mypy_cache", ".pytest_cache", ".ruff_cache"}
)
_EDITOR_FILES: Final = frozenset({".DS_Store", "Thumbs.db", "desktop.ini", ".idea", ".vscode"})
_NEVER: Final = _VERSION_CONTROL | _MADE_BY_TOOLS | _EDITOR_FILES

# Swap, backup and lock files of vi, Emacs, Kate, Office and macOS.
_EDITOR_PATTERNS: Final = (
    "*~",
    "*.swp",
    "*.swo",
    "*.swx",
    ".#*",
    "#*#",
    "._*",
    "~$*",
    "*.pyc",
    "*.pyo",
    ".*.kate-swp",
)
# Most names are simple; only a name with one of these can match a pattern above.
_EDITOR_MARK: Final = re.compile(r"[~#]|\.(?:sw|_|py[co]|kate)")

# Files and directories whose only purpose is to store credentials, in lower case.
_CREDENTIALS: Final = frozenset(
    {
        # environment files and package registries
        ".envrc",
        ".npmrc",
        ".yarnrc",
        ".pypirc",
        ".netrc",
        "_netrc",
        ".git-credentials",
        ".pgpass",
        ".my.cnf",
        ".htpasswd",
        ".dockercfg",
        ".terraformrc",
        ".vault-token",
        ".boto",
        ".s3cfg",
        # SSH and cloud keys
        "id_rsa",
        "id_dsa",
        "id_ecdsa",
        "id_ed25519",
        "id_ecdsa_sk",
        "id_ed25519_sk",
        ".ssh",
        ".aws",
        ".azure",
        ".gcloud",
        ".gnupg",
        ".kube",
        "application_default_credentials.json",
        "credentials.json",
        "client_secret.json",
        "kubeconfig",
    }
)
_CREDENTIAL_SUFFIXES: Final = (".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".agekey", ".tfstate")
_ENVIRONMENT: Final = re.compile(r"(?:.+)?\.env(?:\..+)?")
_EXAMPLE: Final = re.compile(
    r"(?:^|[._-])(?:example|examples|sample|template|tmpl|tpl|dist|defaults?|schema|dummy)(?:$|[._-])"
)
_SERVICE_ACCOUNT: Final = re.compile(r"(?:.*[._-])?(?:service[._-]?account|client_secret)[^/]*\.json")
# Names for which the content decides: a certificate is public, a key is not.
_MAYBE_KEY: Final = (".pem", ".key", ".json", ".crt", ".cert", ".der", ".pk8")
_PRIVATE_KEY: Final = re.compile(rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----")
_SERVICE_ACCOUNT_KEY: Final = re.compile(rb'"private_key"\s*:\s*"-----BEGIN')

LFS_POINTER: Final = b"version https://git-lfs.github.com/spec/"
"""The start of a file that Git LFS has not fetched yet."""


def is_version_control(path: str) -> bool:
    """Whether a path is one of version control, such as `.gitignore`: no skill has it."""
    return not _VERSION_CONTROL.isdisjoint(path.split("/"))


@lru_cache(maxsize=4096)
def belongs_to_skill(name: str) -> bool:
    """Whether a file or directory of this name is part of the skill around it.

    The same rule applies to manifests, reads, directory listings and watching.
    """
    if name in _NEVER or is_credential_name(name):
        return False
    if _EDITOR_MARK.search(name):
        return not any(fnmatchcase(name, pattern) for pattern in _EDITOR_PATTERNS)
    return True


@lru_cache(maxsize=512)
def is_credential_name(name: str) -> bool:
    """Whether a file or directory of this name contains credentials; examples and templates do not."""
    low = name.lower()
    if low in _CREDENTIALS:
        return True
    if _EXAMPLE.search(low):
        return False
    return (
        low.endswith(_CREDENTIAL_SUFFIXES)
        or _ENVIRONMENT.fullmatch(low) is not None
        or _SERVICE_ACCOUNT.fullmatch(low) is not None
    )


def may_hold_private_key(name: str) -> bool:
    """Whether the content of a file of this name has to be checked with `holds_private_key`."""
    return name.lower().endswith(_MAYBE_KEY)


def holds_private_key(data: bytes) -> bool:
    """Whether a key, certificate or JSON file contains a private key."""
    if data.lstrip()[:1] == b"{":
        return _SERVICE_ACCOUNT_KEY.search(data) is not None
    return _PRIVATE_KEY.search(data) is not None


@lru_cache(maxsize=512)
def is_linkable(name: str) -> bool:
    """Whether a link may lead through a file or directory of this name."""
    return name not in _VERSION_CONTROL and not is_credential_name(name)


_PLAIN_TEXT: Final = """
    txt text log rst adoc org tex bib ini cfg conf properties editorconfig gitignore gitattributes
    dockerignore npmignore env example sample template tmpl tpl j2 jinja jinja2 mustache hbs ejs erb liquid
    ps1 psm1 psd1 bat cmd bash zsh fish awk sed vim el ex exs erl hs ml fs clj dart zig nim jl groovy
    gradle m mm asm s proto graphql gql prisma tf tfvars hcl rego cue nix bicep mk cmake make dockerfile
    vue svelte astro scss sass less styl sol vy cairo move diff patch lock sum mod http rest srt vtt
    mermaid mmd puml plantuml dot gv drawio glsl hlsl wgsl feature robot bats snap po pot
"""
# Known files without an extension.
_PLAIN_TEXT_NAMES: Final = """
    license licence notice readme changelog authors contributing copying makefile dockerfile containerfile
    procfile gemfile rakefile vagrantfile jenkinsfile justfile codeowners
"""
# Our own table for common files, because the system's differs between machines.
_KNOWN: Final = {
    "md": MARKDOWN,
    "markdown": MARKDOWN,
    "mdx": MARKDOWN,
    "py": "text/x-python",
    "sh": "application/x-sh",
    "js": "text/javascript",
    "mjs": "text/javascript",
    "cjs": "text/javascript",
    "jsx": "text/javascript",
    "ts": "text/x-typescript",
    "mts": "text/x-typescript",
    "cts": "text/x-typescript",
    "tsx": "text/x-typescript",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "ndjson": "application/x-ndjson",
    "yaml": "application/yaml",
    "yml": "application/yaml",
    "toml": "application/toml",
    "csv": "text/csv",
    "tsv": "text/tab-separated-values",
    "html": "text/html",
    "htm": "text/html",
    "css": "text/css",
    "xml": "application/xml",
    "xsd": "application/xml",
    "xsl": "application/xml",
    "xslt": "application/xslt+xml",
    "sql": "application/sql",
    "go": "text/x-go",
    "rs": "text/x-rust",
    "java": "text/x-java",
    "kt": "text/x-kotlin",
    "swift": "text/x-swift",
    "rb": "text/x-ruby",
    "php": "text/x-php",
    "pl": "text/x-perl",
    "lua": "text/x-lua",
    "r": "text/x-r",
    "c": "text/x-c",
    "h": "text/x-c",
    "cpp": "text/x-c++",
    "cc": "text/x-c++",
    "hpp": "text/x-c++",
    "cs": "text/x-csharp",
    "scala": "text/x-scala",
    "svg": "image/svg+xml",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "zip": "application/zip",
    "gz": "application/gzip",
    **dict.fromkeys(_PLAIN_TEXT.split(), _TEXT),
}


def media_type(name: str) -> str:
    """The media type for a file name; `application/octet-stream` if unknown."""
    _, dot, ending = name.rpartition(".")
    if not dot:
        return _TEXT if name.lower() in _PLAIN_TEXT_NAMES.split() else _UNKNOWN
    # Only the extension is passed, because the standard library parses a name as a URL.
    return _KNOWN.get(ending.lower()) or _standard().guess_type(f"file.{ending}")[0] or _UNKNOWN


@cache
def _standard() -> mimetypes.MimeTypes:
    # Created on first use, because it reads the system's tables.
    return mimetypes.MimeTypes()


def check_portable(paths: Iterable[str], *, limits: Limits = DEFAULT_LIMITS) -> None:
    """Refuse paths that cannot be installed on every system: for what is published to readers unknown."""
    listed = tuple(safe_path(path, limits=limits) for path in paths)
    if problems := portability_problems(listed):
        raise path_error(problems[0])


def windows_problem(path: str) -> str:
    """Why Windows refuses a path, for a person; empty if it does not."""
    for segment in path.split("/"):
        if bad := sorted(_FORBIDDEN & set(segment)):
            return f"{shown(path)} contains {' '.join(bad)}"
        if segment.endswith((" ", ".")):
            return f"{shown(path)} has a name that ends with a space or a dot"
        if segment.partition(".")[0].rstrip(" ").casefold() in _DEVICES:
            return f"{shown(path)} contains the name of a device"
        if len(segment) > LONGEST_SEGMENT:
            return f"{shown(path)} has a name with more than {LONGEST_SEGMENT} characters"
    return ""


def clashes(paths: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Pairs of paths that are the same on a file system that ignores case or how accents are encoded."""
    first: dict[str, str] = {}
    found: dict[tuple[str, str], None] = {}
    for path in sorted(paths):
        segments = path.split("/")
        for length in range(1, len(segments) + 1):
            part = "/".join(segments[:length])
            other = first.setdefault(_fold(part), part)
            if other != part:
                found[other, part] = None
    return tuple(found)


def portability_problems(paths: Iterable[str]) -> tuple[str, ...]:
    """Return what keeps a skill from being installed everywhere, one line each."""
    listed = tuple(paths)
    return (
        *(f"not possible on Windows: {problem}" for path in listed if (problem := windows_problem(path))),
        *(
            f"on macOS and Windows, {shown(one)} and {shown(other)} are the same name"
            for one, other in clashes(listed)
        ),
    )


def _fold(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()


# A nested mapping.
_PLAIN_DEPTH: Final = 2


def load_mapping(
    text: str, *, file: str, first_line: int, limits: Limits
) -> tuple[JsonObject, dict[str, int]]:
    """The mapping in a YAML text, and the line of each of its keys, or a `FormatError`.

    `first_line` is the line of the file that the text starts on. Raises a `SourceError` if PyYAML has no C
    parser.
    """
    if len(text) <= limits.frontmatter_bytes and limits.frontmatter_depth >= _PLAIN_DEPTH:
        found = plain_lines(text, first_line=first_line)
        if found is not None:
            return found
    # Imported on demand: simple frontmatter does not need PyYAML.
    from skillwire.skill.yaml_events import load_events

    return load_events(text, file=file, first_line=first_line, limits=limits)


_OPEN = re.compile(r"---[ \t]*\r?\n")
_CLOSE = re.compile(r"---[ \t]*\r?(?:\n|\Z)")
_LATE_OPEN = re.compile(r"(?:[ \t]*\r?\n)+---[ \t]*\r?\n|[ \t]+---[ \t]*\r?\n")
_LOOSE_CLOSE = re.compile(r"^(?:[ \t]+---|----+|\.\.\.|—|–)[ \t]*\r?$", re.MULTILINE)
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
# An unindented line that starts a field.
_FIELD = re.compile(r"""(?:[A-Za-z0-9_][^:\s"'#]*|"[^"]*"|'[^']*')[ ]*:(?:[ ]+(?P<value>.*?))?[ \t\r]*""")
# A value that is meant as text, but has a colon in it or starts with a reserved character.
_REPAIRED = frozenset({"yaml-unquoted-colon", "yaml-special"})
_CONFLICT = re.compile(r"^(?:(?P<certain><{7}|>{7}|\|{7}) |={7}\r?$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SkillDocument:
    """A parsed `SKILL.md`. Line numbers count from 1 in the file."""

    frontmatter: dict[str, JsonValue]
    body: str
    body_line: int
    """The line that the body starts on."""
    lines: dict[str, int] = field(default_factory=dict[str, int])
    """The line of every top-level key."""
    repairs: tuple[Issue, ...] = ()
    """The values that were read as if they were in quotes."""


def parse_skill_md(
    data: bytes, *, file: str = SKILL_FILE, limits: Limits = DEFAULT_LIMITS, strict: bool = False
) -> SkillDocument:
    """Split and parse a `SKILL.md` (FMT-1), or raise a `FormatError` that says what to fix where."""
    block, body, body_line = split_skill_md(data, file)
    repairs: tuple[Issue, ...] = ()
    try:
        frontmatter, lines = load_mapping(block, file=file, first_line=2, limits=limits)
    except FormatError as error:
        if (line := conflict_line(block)) is not None:
            raise FormatError(_conflict(line, file)) from None
        repaired = None if strict else _repair(block, file, limits)
        if repaired is None:
            raise
        quoted, repairs = repaired
        try:
            frontmatter, lines = load_mapping(quoted, file=file, first_line=2, limits=limits)
        except FormatError:
            raise error from None
    return SkillDocument(frontmatter, body, body_line, lines, repairs)


def salvage_skill_md(
    data: bytes, *, file: str = SKILL_FILE, limits: Limits = DEFAULT_LIMITS
) -> tuple[SkillDocument | None, tuple[Issue, ...]]:
    """Return what can be read of an invalid `SKILL.md`, field by field, and every mistake in it.

    For a linter, which reports all mistakes at once. The document is `None` if there is no usable
    frontmatter.
    """
    try:
        block, body, body_line = split_skill_md(data, file)
    except FormatError as error:
        return None, error.issues
    if (line := conflict_line(block)) is not None:
        return None, (_conflict(line, file),)
    frontmatter: dict[str, JsonValue] = {}
    lines: dict[str, int] = {}
    issues: list[Issue] = []
    # SEC-9: a block that is too long is refused whole, below, and not searched field by field.
    for line, text in _fields(block) if len(block) <= limits.frontmatter_bytes else ():
        if not text.strip() or all(part.startswith("#") for part in text.split("\n") if part.strip()):
            continue
        try:
            found, places = load_mapping(text, file=file, first_line=line, limits=limits)
        except FormatError as error:
            issues += error.issues
            continue
        frontmatter |= found
        lines |= places
    try:
        load_mapping(block, file=file, first_line=2, limits=limits)
    except FormatError as error:
        known = {(issue.line, issue.rule) for issue in issues}
        issues += [issue for issue in error.issues if (issue.line, issue.rule) not in known]
    return SkillDocument(frontmatter, body, body_line, lines), tuple(issues[: limits.issues_per_file])


def quote_fields(block: str, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The YAML with quotes around every one-line value that is not valid YAML."""
    repaired = _repair(block, SKILL_FILE, limits)
    return block if repaired is None else repaired[0]


def split_skill_md(data: bytes, file: str) -> tuple[str, str, int]:
    """The YAML, the body, and the line that the body starts on."""
    text = _decode(data, file)
    opening = _OPEN.match(text)
    if opening is None:
        raise FormatError(_no_frontmatter(text, file))
    closing = _closing(text, opening.end())
    if closing is None:
        raise FormatError(_unclosed(text, opening.end(), file))
    block = text[opening.end() : closing.start()]
    return block, text[closing.end() :], block.count("\n") + 3


def _fields(block: str) -> Iterator[tuple[int, str]]:
    """The text of each top-level field, with its first line in the file. Comments and blank lines before the
    first field are a separate item.
    """
    start, lines = 2, list[str]()
    for number, line in enumerate(block.removesuffix("\n").split("\n"), 2):
        if lines and _FIELD.fullmatch(line):
            yield start, "".join(f"{each}\n" for each in lines)
            start, lines = number, []
        lines.append(line)
    yield start, "".join(f"{each}\n" for each in lines)


def _repair(block: str, file: str, limits: Limits) -> tuple[str, tuple[Issue, ...]] | None:
    """The YAML with missing quotes added, and an issue for each; `None` if nothing was repaired."""
    if len(block) > limits.frontmatter_bytes:  # SEC-9: each field costs a parser.
        return None
    repairs: list[Issue] = []
    parts: list[str] = []
    for line, text in _fields(block):
        first, _, rest = text.partition("\n")
        field = _FIELD.fullmatch(first)
        if field is None:
            parts.append(text)
            continue
        value = field["value"]
        try:
            load_mapping(text, file=file, first_line=line, limits=limits)
        except FormatError as error:
            # Only a value on one line; comments and blank lines may follow.
            is_single = all(not other.strip() or other.startswith("#") for other in rest.split("\n"))
            issue = error.issues[0]
            if not (value and is_single and issue.rule in _REPAIRED):
                return None
            message = f"{issue.message}; it is read as if it were in quotes"
            repairs.append(replace(issue, message=message, severity=Severity.WARNING))
            quoted = "'" + value.replace("'", "''") + "'"
            text = f"{first[: field.start('value')]}{quoted}{first[field.end('value') :]}\n{rest}"
        parts.append(text)
    return ("".join(parts), tuple(repairs)) if repairs else None


def conflict_line(text: str) -> int | None:
    """The line, from 0, of the first conflict marker of Git. `=======` is one only before a `>>>>>>>`."""
    last = text.rfind("\n>>>>>>> ")
    for marker in _CONFLICT.finditer(text):
        if marker["certain"] or marker.start() < last:
            return text.count("\n", 0, marker.start())
    return None


def _conflict(line: int, file: str) -> Issue:
    return Issue(
        rule="merge-conflict",
        message="the frontmatter has merge conflict markers",
        fix="choose one side and remove the lines that start with <<<<<<<, ======= and >>>>>>>",
        file=file,
        line=line + 2,
    )


def _closing(text: str, at: int) -> re.Match[str] | None:
    """The first line after this position that is `---` alone."""
    while (closing := _CLOSE.match(text, at)) is None:
        at = text.find("\n---", at) + 1
        if not at:
            break
    return closing


def _decode(data: bytes, file: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        found = "UTF-16" if data.startswith(_UTF_16) else f"byte 0x{data[error.start]:02x} is not"
        raise FormatError.of(
            rule="not-utf-8",
            message=f"the file is not UTF-8 text: {found}",
            fix="save the file as UTF-8",
            file=file,
            line=data.count(b"\n", 0, error.start) + 1,
        ) from None
    return text.removeprefix("\ufeff")


def _no_frontmatter(text: str, file: str) -> Issue:
    if text.startswith(LFS_POINTER.decode()):
        message, fix = "the file is a Git LFS pointer, not the file itself", "run: git lfs pull"
    elif not text.strip():
        message, fix = (
            "the file is empty",
            "start it with ---, name: and description: lines, and --- again",
        )
    elif _LATE_OPEN.match(text):
        message, fix = (
            "the frontmatter does not start on the first line",
            "move --- to the start of line 1",
        )
    elif text.startswith("---") and not text.split("\n", 1)[0].strip("- \t\r"):
        message, fix = "the first line is not exactly ---", "make line 1 three hyphens and nothing else"
    else:
        message = "the file does not start with frontmatter"
        fix = "start it with ---, name: and description: lines, and --- again"
    return Issue(rule="frontmatter-missing", message=message, fix=fix, file=file, line=1)


def _unclosed(text: str, start: int, file: str) -> Issue:
    near = _LOOSE_CLOSE.search(text, start)
    line = 1 if near is None else text.count("\n", 0, near.start()) + 1
    fix = "put a line that is exactly --- after the last field"
    if near is not None:
        fix = f"make line {line} exactly ---, at the start of the line"
    return Issue(
        rule="frontmatter-unclosed",
        message="the frontmatter that starts on line 1 is never closed",
        fix=fix,
        file=file,
        line=line,
    )


TEMPLATE_SENTENCES: Final = (
    "say here in one sentence what the skill does.",
    "Say in a sentence or two what a good result looks like.",
    "Write the first step as an instruction.",
    "Name the commands to run and the files to read, with paths relative to this file.",
    "Say how to check the result before it is shown.",
    "Say what to ask the user for, and what to do when they do not know.",
)
"""What `new_skill_md` leaves to the author. `lint` names those that are still there."""


def new_skill_md(name: str, description: str = "") -> str:
    """A `SKILL.md` for a skill of this name, or a `FormatError` that says what is wrong with the name."""
    checked = parse_name(name)
    title = checked.replace("-", " ").capitalize()
    said = " ".join(description.split()) or (
        f"{title}: {TEMPLATE_SENTENCES[0]} Use when the user asks for it, and name the words they would use."
    )
    quoted = said.replace("\\", "\\\\").replace('"', '\\"')
    return f"""---
name: {checked}
description: "{quoted}"
---

# {title}

{TEMPLATE_SENTENCES[1]}

## Steps

1. {TEMPLATE_SENTENCES[2]}
2. {TEMPLATE_SENTENCES[3]}
3. {TEMPLATE_SENTENCES[4]}

## When something is missing

{TEMPLATE_SENTENCES[5]}
"""
