"""SourceReference: a source of skills as a user names it, parsed. Opens nothing.

docs/release-notes               a skill of a configured MCP server, by its handle; `docs` alone is all
https://example.org              the skills that a site lists under /.well-known/agent-skills/
git+https://host/repo#v1.2:path  a git repository, at a tag, branch or commit, below a path
https://github.com/a/b/tree/v1/p the same, as GitHub, GitLab, Codeberg and Bitbucket show it in a browser
a/b, a/b/path, a/b@v1.2          the same, once `repository_at` has put a host before it
./team-skills                    a folder
./skills.tar.gz                  an archive
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from urllib.parse import unquote, urlsplit

from skillwire.errors import FormatError
from skillwire.text import shown

GIT_SCHEMES: Final = frozenset({"https", "http", "ssh", "file", "git"})
_GIT_REF: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@-]{0,254}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_ARCHIVES: Final = (".tar.gz", ".tgz", ".zip", ".tar")
_LABEL: Final = re.compile(r"[\w][\w.-]*")
# What stands before the ref in the addresses of folders, by host.
_HOSTING: Final = {
    "github.com": ("tree", "blob"),
    "gitlab.com": ("-/tree", "-/blob"),
    "codeberg.org": ("src/branch", "src/tag", "src/commit"),
    "bitbucket.org": ("src",),
}
DEFAULT_HOST: Final = "github.com"
"""Where the repository `OWNER/NAME` is, unless the user's configuration names another host."""
_SHORT: Final = re.compile(
    r"(?P<owner>[A-Za-z0-9][\w.-]{0,99})/(?P<name>[\w.-]{1,100})(?:/(?P<path>[^@#?]+?))?/?(?:@(?P<ref>[^@#?]+))?",
    re.ASCII,
)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?", re.ASCII)


FORMS: Final = (
    "name a server's skill (docs/release-notes), a site (https://example.org), a repository "
    "(OWNER/NAME@v1.2, its address in a browser, git+https://host/repo#v1.2:skills/pdf) or a folder "
    "(./team-skills)"
)
"""Every way to name a source, for a message."""


class SourceKind(StrEnum):
    """The kinds of place."""

    MCP = "mcp"
    """A configured MCP server by its label, or one skill of it: `docs`, `docs/release-notes`."""
    SITE = "site"
    """A web site with `/.well-known/agent-skills/`: `https://example.org`."""
    GIT = "git"
    """A repository, at its default branch or another ref, and in all of it or a folder:
    `git+https://host/repo#v1.2:skills/pdf`."""
    FOLDER = "folder"
    """A folder with one skill or several: `./team-skills`. A path starts with `.`, `/` or `~`."""
    ARCHIVE = "archive"
    """A path that ends like an archive: `./pdf.tar.gz`."""
    PACKAGE = "package"
    """The skills of installed Python packages. No text of a user names this place: `skillwire add
    --installed` does, and the lock has `--installed` as the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReference:
    """One place, as the user named it."""

    kind: SourceKind
    text: str
    """The text that the user wrote. Lock files have it as the source."""
    place: str
    """A URL, a path or a label: where to go."""
    ref: str = ""
    """Of a git repository: a tag, a branch or a commit; empty for its default branch."""
    path: str = ""
    """A folder of a repository, or the name of one skill of a server."""


def parse_reference(text: str) -> SourceReference:
    """The source that a text names, or a `FormatError` that says how to write it."""
    given = text.strip()
    if not given or any(char < " " or char == "\x7f" for char in given):
        raise _refused(text, "it is empty or has control characters")
    try:
        if given.startswith("git+"):
            return _git(given)
        if given.startswith(("https://", "http://")):
            return _hosted(given) or _site(given)
    except ValueError:  # of `urlsplit`, as for brackets around what is no address
        raise _refused(text, "it is not a valid URL") from None
    if "://" in given:
        raise _refused(text, "the scheme is not known")
    if given.startswith((".", "/", "~", "\\")) or re.match(r"[A-Za-z]:[\\/]", given):
        kind = SourceKind.ARCHIVE if given.lower().endswith(_ARCHIVES) else SourceKind.FOLDER
        return SourceReference(kind=kind, text=given, place=given)
    label, _, name = given.partition("/")
    if not _LABEL.fullmatch(label):
        raise _refused(text, "it does not begin with the name of a server")
    return SourceReference(kind=SourceKind.MCP, text=given, place=label, path=name)


def repository_at(text: str, host: str = DEFAULT_HOST) -> SourceReference | None:
    """The repository that `OWNER/NAME`, `OWNER/NAME/PATH` or `OWNER/NAME@REF` means on a host; `None` if the
    text has another form. Its own text is the whole address: a lock means the same everywhere.

    Whether the text names a configured server instead is for the caller to know.
    """
    match = _SHORT.fullmatch(text.strip())
    if match is None or match["name"] in (".", "..") or not is_host(host):
        return None
    name, ref, path = match["name"].removesuffix(".git"), match["ref"] or "", match["path"] or ""
    path = "" if path == "SKILL.md" else path.removesuffix("/SKILL.md")
    fragment = f"#{ref}:{path}" if path else f"#{ref}" if ref else ""
    return _git(f"git+https://{host}/{match['owner']}/{name}{fragment}")


def is_host(text: str) -> bool:
    """Whether a text is the name of a host, with a port or without."""
    return _HOST.fullmatch(text) is not None and ".." not in text


def is_commit(ref: str) -> bool:
    """Whether a ref is a full commit id, whose content never changes."""
    return _COMMIT.fullmatch(ref) is not None


def _git(text: str) -> SourceReference:
    url, _, fragment = text.removeprefix("git+").partition("#")
    ref, _, path = fragment.partition(":")
    parts = urlsplit(url)
    if parts.scheme not in GIT_SCHEMES or url.startswith("-") or not (parts.netloc or parts.path):
        raise _refused(text, "the repository is not a URL of https, ssh, git, http or file")
    if _has_secret(parts.netloc, is_web=parts.scheme in ("https", "http")):
        raise _refused(text, "it holds a name or a password, which would go into the lock: use .netrc")
    if parts.netloc.startswith("-"):
        # A host that begins with a dash is an option to ssh.
        raise _refused(text, "the host begins with a dash")
    if ref and (not _GIT_REF.fullmatch(ref) or ".." in ref or ref.endswith((".lock", "/", "."))):
        raise _refused(text, "the part after # is not a tag, a branch or a commit")
    plain = path.strip("/")
    if (plain and any(segment in ("", ".", "..") for segment in plain.split("/"))) or "\\" in path:
        raise _refused(text, "the path after : leaves the repository")
    return SourceReference(kind=SourceKind.GIT, text=text, place=url, ref=ref, path=plain)


def _hosted(text: str) -> SourceReference | None:
    """The repository, or the folder of one, that an address of a hosting service shows in a browser."""
    parts = urlsplit(text)
    marks = _HOSTING.get(parts.netloc.lower().removeprefix("www."))
    segments = [segment for segment in parts.path.split("/") if segment]
    if marks is None or len(segments) < 2 or parts.query or parts.fragment:
        return None
    # A repository of GitLab is in a group, which may be in others; a page of it has `-` after its name.
    ends = segments.index("-") if "-" in segments else len(segments)
    count = ends if marks[0].startswith("-") else 2
    repository, rest = "/".join(segments[:count]).removesuffix(".git"), "/".join(segments[count:])
    url = f"https://{parts.netloc.lower().removeprefix('www.')}/{repository}"
    if not rest:
        return replace(_git(f"git+{url}"), text=text)
    for mark in marks:
        if rest.startswith(f"{mark}/"):
            ref, _, path = rest.removeprefix(f"{mark}/").partition("/")
            folder = path.removesuffix("/SKILL.md").removesuffix("SKILL.md")
            return replace(_git(f"git+{url}#{ref}:{unquote(folder)}"), text=text)
    raise _refused(text, f"it is a page of {parts.netloc}; write git+{url}#REF:PATH")


def _site(text: str) -> SourceReference:
    parts = urlsplit(text)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused(text, "the port is not a number") from None
    if _has_secret(parts.netloc, is_web=True):
        raise _refused(text, "it holds a name or a password, which would go into the lock")
    if not host or (port is not None and port == 0) or parts.query:
        raise _refused(text, "it is not the URL of a site")
    path = parts.path
    return SourceReference(
        kind=SourceKind.SITE,
        text=text,
        place=parts._replace(fragment="", path=path.rstrip("/")).geturl(),
        path=parts.fragment,
    )


def _has_secret(netloc: str, *, is_web: bool) -> bool:
    user = netloc.rpartition("@")[0]
    return bool(user) and (is_web or ":" in user)


def _refused(text: str, message: str) -> FormatError:
    return FormatError.of(
        rule="source",
        message=f"'{shown(text, 200)}' is not a source of skills: {message}",
        fix=FORMS,
    )
