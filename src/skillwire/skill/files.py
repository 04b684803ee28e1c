"""The files of a skill: which names belong to it, which contain credentials, and their media types."""

from __future__ import annotations

import mimetypes
import re
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Final

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
