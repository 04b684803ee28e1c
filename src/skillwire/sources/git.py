"""Skills of a git repository at a commit, read from its objects: nothing is checked out.

So no hook, filter, attribute or submodule of the repository can run. `git` gets a clean environment and may
only use the requested protocol. A password comes from `.netrc`, a key from ssh.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from skillwire.errors import LimitExceeded, SourceError
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill.files import belongs_to_skill
from skillwire.sources.archive import ArchiveFile, safe_path
from skillwire.sources.reference import GIT_SCHEMES, Reference, is_commit
from skillwire.text import redact_url

# What ssh, TLS and proxies need. Git's own variables are not passed on.
_PASSED_ON: Final = (
    "HOME",
    "USERPROFILE",
    "PATH",
    "SYSTEMROOT",
    "TEMP",
    "TMP",
    "TMPDIR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "http_proxy",
    "https_proxy",
    "HTTPS_PROXY",
    "no_proxy",
    "NO_PROXY",
)
_SETTINGS: Final = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.askPass=",
    "core.sshCommand=ssh -oBatchMode=yes",
    "credential.helper=",
    "fetch.fsckObjects=true",
    "fetch.recurseSubmodules=false",
    "fetch.unpackLimit=1",
    "gc.auto=0",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
_POLL_SECONDS: Final = 0.2
_SAID: Final = 400
_REGULAR, _EXECUTABLE, _LINK = "100644", "100755", "120000"


@dataclass(frozen=True, slots=True)
class GitTree:
    """The files below a path of a repository at a commit. `skipped` has links, which are not read."""

    commit: str
    files: tuple[ArchiveFile, ...]
    skipped: tuple[str, ...] = ()


def resolve_commit(reference: Reference, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The commit that a reference points to now, or `SourceError`. Only fetches refs."""
    if is_commit(reference.ref):
        return reference.ref
    names = [reference.ref, f"{reference.ref}^{{}}"] if reference.ref else ["HEAD"]
    said = _git(reference, None, ["ls-remote", "--", reference.place, *names], limits).decode(
        "utf-8", "replace"
    )
    rows = {name: commit for commit, _, name in (line.partition("\t") for line in said.splitlines())}
    wanted = (
        [f"refs/tags/{reference.ref}^{{}}", f"refs/tags/{reference.ref}", f"refs/heads/{reference.ref}"]
        if reference.ref
        else ["HEAD"]
    )
    for name in (*wanted, reference.ref):
        if is_commit(rows.get(name, "")):
            return rows[name]
    raise SourceError(
        f"{_shown_place(reference)} has no {shown(reference.ref) or 'default branch'}: "
        "name a tag, a branch or a commit that it has"
    )


def fetch_tree(reference: Reference, *, limits: Limits = DEFAULT_LIMITS) -> GitTree:
    """The files that a reference points to, with their commit."""
    commit = resolve_commit(reference, limits=limits)
    with _repository(reference, limits) as repository:
        _fetch(reference, repository, commit, limits)
        return _read(reference, repository, commit, limits)


def _fetch(reference: Reference, repository: Path, commit: str, limits: Limits) -> None:
    options = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    try:
        _git(reference, repository, [*options, "--depth=1", "--", reference.place, commit], limits)
        return
    except SourceError:
        # Some servers do not send single commits: fetch branches and tags, and look for it there.
        specs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        _git(reference, repository, [*options, "--", reference.place, *specs], limits)
    try:
        _git(reference, repository, ["cat-file", "-e", f"{commit}^{{commit}}"], limits)
    except SourceError:
        raise SourceError(
            f"{_shown_place(reference)} no longer has the commit {commit[:12]}: "
            "choose another version, or install from a copy"
        ) from None


def _read(reference: Reference, repository: Path, commit: str, limits: Limits) -> GitTree:
    listing = _git(reference, repository, ["ls-tree", "-r", "-z", "--full-tree", "-l", commit], limits)
    prefix = f"{reference.path}/" if reference.path else ""
    wanted: list[tuple[str, str, bool]] = []
    skipped: list[str] = []
    total = 0
    for row in listing.split(b"\0"):
        if not row:
            continue
        head, _, raw = row.partition(b"\t")
        mode, _, blob, size = head.decode("ascii").split()
        path = raw.decode("utf-8", "surrogateescape")
        if not path.startswith(prefix) or not all(map(belongs_to_skill, path.split("/"))):
            continue
        below = path.removeprefix(prefix)
        if mode in (_REGULAR, _EXECUTABLE, "100664"):
            total += int(size)
            wanted.append((safe_path(below), blob, mode == _EXECUTABLE))
        elif mode == _LINK:
            skipped.append(below)
    wanted, total = _of_skills(wanted, total, listing, prefix)
    if not wanted:
        where = f" below {shown(reference.path)}" if reference.path else ""
        raise SourceError(f"{_shown_place(reference)} has no skill{where}: no SKILL.md is there")
    if total > limits.repository_bytes:
        raise LimitExceeded(
            f"the skills of {_shown_place(reference)} have {total:,} bytes, "
            f"at most {limits.repository_bytes:,} are read: name a folder of it"
        )
    contents = _blobs(reference, repository, [blob for _, blob, _ in wanted], limits)
    files = tuple(
        ArchiveFile(path, data, executable)
        for (path, _, executable), data in zip(wanted, contents, strict=True)
    )
    folders = {path.rpartition("/")[0] for path, _, _ in wanted}
    inside = tuple(path for path in skipped if any(path.startswith(f"{one}/") for one in folders if one))
    return GitTree(commit, files, inside)


def _of_skills(
    rows: list[tuple[str, str, bool]], total: int, listing: bytes, prefix: str
) -> tuple[list[tuple[str, str, bool]], int]:
    """The files inside skills; a repository may contain much else."""
    roots = {path.removesuffix("SKILL.md") for path, _, _ in rows if f"/{path}".endswith("/SKILL.md")}
    kept = [row for row in rows if any(row[0].startswith(root) for root in roots)]
    if len(kept) == len(rows):
        return rows, total
    sizes = {
        row.partition(b"\t")[2]: int(row.partition(b"\t")[0].split()[3])
        for row in listing.split(b"\0")
        if row and row.partition(b"\t")[0].split()[3].isdigit()
    }
    return kept, sum(sizes.get(os.fsencode(prefix + path), 0) for path, _, _ in kept)


def _blobs(reference: Reference, repository: Path, blobs: Sequence[str], limits: Limits) -> Iterator[bytes]:
    """The content of objects, in order, with one `git cat-file`."""
    said = _git(
        reference, repository, ["cat-file", "--batch"], limits, given="\n".join(blobs).encode() + b"\n"
    )
    at = 0
    for blob in blobs:
        end = said.index(b"\n", at)
        name, kind, size = said[at:end].decode("ascii").split()
        if name != blob or kind != "blob":
            raise SourceError(f"{_shown_place(reference)} has a damaged object: fetch it again")
        start = end + 1
        yield said[start : start + int(size)]
        at = start + int(size) + 1


@contextmanager
def _repository(reference: Reference, limits: Limits) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="skillwire-git-") as folder:
        repository = Path(folder) / "repository"
        _git(reference, None, ["init", "--quiet", "--bare", "--template=", str(repository)], limits)
        yield repository


def _git(
    reference: Reference,
    repository: Path | None,
    words: Sequence[str],
    limits: Limits,
    *,
    given: bytes = b"",
) -> bytes:
    scheme = urlsplit(reference.place).scheme
    if scheme not in GIT_SCHEMES:
        # Some of git's transports run a command, such as `ext::`.
        raise SourceError(f"{shown(reference.place, 200)} is not the URL of a git repository")
    settings = [*_SETTINGS, f"protocol.{scheme}.allow=always"]
    command = ["git", *(part for setting in settings for part in ("-c", setting))]
    if repository is not None:
        command += ["--git-dir", str(repository)]
    try:
        process = subprocess.Popen(  # noqa: S603 - no shell; every word is ours or follows `--`
            [*command, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=git_environment(os.environ),
            start_new_session=True,  # End its helpers too, because they would keep the pipes open.
        )
    except FileNotFoundError:
        raise SourceError("git is not installed: install it to use skills of a git repository") from None
    watch = _Watch(process, repository, limits)
    watch.start()
    try:
        out, errors = process.communicate(given)
    finally:
        watch.stop()
        if process.poll() is None:
            _end(process)
            process.wait()
    if watch.reason:
        raise LimitExceeded(f"{_shown_place(reference)} {watch.reason}")
    if process.returncode:
        # The remote's own words are cleaned and shown as the reason.
        raise SourceError(
            f"git could not read {_shown_place(reference)}",
            said=_last_words(errors.decode("utf-8", "replace"), reference),
        )
    return out


def git_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of `git`, without anything that could make it run, ask or read something else."""
    return {
        **{name: environment[name] for name in _PASSED_ON if name in environment},
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "LC_ALL": "C",
    }


class _Watch(threading.Thread):
    """Ends a `git` that takes too long or too much space."""

    def __init__(self, process: subprocess.Popen[bytes], repository: Path | None, limits: Limits) -> None:
        super().__init__(daemon=True)
        self.reason = ""
        self._process = process
        self._repository = repository
        self._limits = limits
        self._ended = threading.Event()

    def stop(self) -> None:
        self._ended.set()
        self.join()

    def run(self) -> None:
        end = time.monotonic() + self._limits.git_seconds
        while not self._ended.wait(_POLL_SECONDS):
            if time.monotonic() > end:
                self.reason = f"took more than {self._limits.git_seconds:.0f} seconds: try again later"
            elif (
                self._repository is not None and _size(self._repository) > self._limits.repository_fetch_bytes
            ):
                self.reason = f"sent more than {self._limits.repository_fetch_bytes:,} bytes: it was stopped"
            if self.reason:
                _end(self._process)
                return


def _end(process: subprocess.Popen[bytes]) -> None:
    """End `git` and everything that it started."""
    if os.name == "posix":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _size(folder: Path) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(where) / name).lstat().st_size
            except OSError:
                continue
    return total


def _shown_place(reference: Reference) -> str:
    """A repository for a message: a path on this machine as it is, a URL without secrets."""
    place = reference.place
    return shown(place, 200) if place.startswith("file:///") else redact_url(place)


_NO_PASSWORD: Final = ("could not read Username", "could not read Password", "Authentication failed")


def _last_words(text: str, reference: Reference) -> str:
    if any(words in text for words in _NO_PASSWORD):
        return "a password is missing or not accepted: put the name and the password into ~/.netrc"
    said = text.replace(reference.place, _shown_place(reference))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    return "; ".join(line.removeprefix("fatal: ") for line in fatal or lines[-1:])[:_SAID]
