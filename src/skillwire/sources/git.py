"""Skills of a git repository at a commit, read from its objects: nothing is checked out.

So no hook, filter, attribute or submodule of the repository can run. `git` gets a clean environment and may
only use the requested protocol. A password comes from `.netrc`, a key from ssh.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, NamedTuple
from urllib.parse import urlsplit

from skillwire.errors import LimitExceeded, SourceError
from skillwire.limits import DEFAULT_LIMITS, MIB, Limits
from skillwire.net import ArchiveFile
from skillwire.skill import SKILL_FILE, belongs_to_skill, check_files, folders_of, safe_path
from skillwire.sources.reference import GIT_SCHEMES, SourceReference, is_commit
from skillwire.text import redact_url, shown

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
    "http.followRedirects=false",
    "maintenance.auto=false",
    "protocol.allow=never",
    "submodule.recurse=false",
)
_POLL_SECONDS: Final = 0.2
_SAID: Final = 400
_MOST_SAID: Final = 1024 * 1024
_CHUNK: Final = 64 * 1024
_BYTES_PER_PATH: Final = 120
# Skills may unpack to three times what was sent, and to this many bytes.
_UNPACKED_TIMES: Final = 3
_UNPACKED_BYTES: Final = 32 * MIB
_REDIRECTED: Final = re.compile("returned error: 30[1-8]")
_REGULAR, _EXECUTABLE, _LINK = "100644", "100755", "120000"


@dataclass(frozen=True, slots=True)
class GitTree:
    """The files below a path of a repository at a commit. `skipped` has links, which are not read."""

    commit: str
    files: tuple[ArchiveFile, ...]
    skipped: tuple[str, ...] = ()


def resolve_commit(reference: SourceReference, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """The commit that a reference points to now, or `SourceError`. Only fetches refs."""
    if is_commit(reference.ref):
        return reference.ref
    names = [reference.ref, f"{reference.ref}^{{}}"] if reference.ref else ["HEAD"]
    said = _remote(reference, None, ["ls-remote"], names, limits).decode("utf-8", "replace")
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


def fetch_tree(reference: SourceReference, *, limits: Limits = DEFAULT_LIMITS) -> GitTree:
    """The files that a reference points to, with their commit."""
    commit = resolve_commit(reference, limits=limits)
    with _repository(reference, limits) as repository:
        _fetch(reference, repository, commit, limits)
        files, skipped = _files_of_skills(reference, repository, commit, limits)
        contents = _blobs(reference, repository, files, limits)
        return GitTree(
            commit,
            tuple(ArchiveFile(file.path, contents[file.blob], file.executable) for file in files),
            skipped,
        )


def _fetch(reference: SourceReference, repository: Path, commit: str, limits: Limits) -> None:
    options = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"]
    try:
        _remote(reference, repository, [*options, "--depth=1"], [commit], limits)
        return
    except SourceError:
        # Some servers do not send single commits: fetch branches and tags, and look for it there.
        specs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        _remote(reference, repository, options, specs, limits)
    try:
        _git(reference, repository, ["cat-file", "-e", f"{commit}^{{commit}}"], limits)
    except SourceError:
        raise SourceError(
            f"{_shown_place(reference)} no longer has the commit {commit[:12]}: "
            "choose another version, or install from a copy"
        ) from None


def _remote(
    reference: SourceReference,
    repository: Path | None,
    words: Sequence[str],
    more: Sequence[str],
    limits: Limits,
) -> bytes:
    """The output of a `git` that talks to the repository's server, which may not send it elsewhere.

    Some servers redirect to the address that ends with `.git`, so that one is tried then.
    """
    place = reference.place
    try:
        return _git(reference, repository, [*words, "--", place, *more], limits)
    except SourceError as error:
        if not _REDIRECTED.search(error.said):
            raise
        if place.startswith(("https://", "http://")) and not place.endswith(".git"):
            with suppress(SourceError):
                return _git(reference, repository, [*words, "--", f"{place}.git", *more], limits)
    raise SourceError(
        f"{_shown_place(reference)} redirects to another address, which is not followed: name that one if "
        "you trust it"
    )


class _TreeFile(NamedTuple):
    """A file of a commit. `path` is below the folder that the reference names."""

    path: str
    blob: str
    size: int
    executable: bool


def _files_of_skills(
    reference: SourceReference, repository: Path, commit: str, limits: Limits
) -> tuple[list[_TreeFile], tuple[str, ...]]:
    """The files inside skills, and the links among them; a repository may contain much else."""
    prefix = f"{reference.path}/" if reference.path else ""
    rows = _tree(reference, repository, commit, prefix, limits)
    ends = (f"/{SKILL_FILE}".encode(), f"\t{SKILL_FILE}".encode())
    # As text once: a small repository can have many files.
    names = [row.partition(b"\t")[2].decode("utf-8", "surrogateescape")[len(prefix) :] for row in rows]
    roots = {
        name[: -len(SKILL_FILE)].rstrip("/")
        for row, name in zip(rows, names, strict=True)
        if row.endswith(ends)
    }
    files: list[_TreeFile] = []
    links: list[str] = []
    total = 0
    for row, name in zip(rows, names, strict=True):
        if roots.isdisjoint(folders_of(name)) or not all(map(belongs_to_skill, name.split("/"))):
            continue
        mode, _, blob, size = row.partition(b"\t")[0].decode("ascii").split()
        if mode == _LINK:
            links.append(name)
        elif mode in (_REGULAR, _EXECUTABLE, "100664"):
            total += int(size)
            files.append(_TreeFile(safe_path(name, limits=limits), blob, int(size), mode == _EXECUTABLE))
    if not files:
        where = f" below {shown(reference.path)}" if reference.path else ""
        raise SourceError(f"{_shown_place(reference)} has no skill{where}: no SKILL.md is there")
    # What was sent is on disk: content that unpacks to far more was made to fill the memory.
    most = min(limits.repository_bytes, _UNPACKED_TIMES * _size(repository) + _UNPACKED_BYTES)
    if total > most or len(files) > limits.repository_files:
        raise LimitExceeded(
            f"the skills of {_shown_place(reference)} have {len(files):,} files and {total:,} bytes, at most "
            f"{limits.repository_files:,} files and {most:,} bytes are read: name a folder of it"
        )
    check_files(file.path for file in files)
    return files, tuple(links)


def _tree(
    reference: SourceReference, repository: Path, commit: str, prefix: str, limits: Limits
) -> list[bytes]:
    """The rows of a commit's tree as `git ls-tree` writes them, cut off at the limits while they arrive."""
    words = ["ls-tree", "-r", "-z", "--full-tree", "-l", commit, *(("--", prefix) if prefix else ())]
    rows: list[bytes] = []
    rest = b""
    taken = 0
    with _running(reference, repository, words, limits) as output:
        while chunk := output.read(_CHUNK):
            taken += len(chunk)
            *whole, rest = (rest + chunk).split(b"\0")
            rows += whole
            if len(rows) > limits.repository_paths or taken > _BYTES_PER_PATH * limits.repository_paths:
                raise LimitExceeded(
                    f"{_shown_place(reference)} has more than {limits.repository_paths:,} paths, or very "
                    "long ones: name a folder of it"
                )
    return rows


def _blobs(
    reference: SourceReference, repository: Path, files: Sequence[_TreeFile], limits: Limits
) -> dict[str, bytes]:
    """The content of files by its object, each read once, with one `git cat-file`."""
    sizes = {file.blob: file.size for file in files}
    contents: dict[str, bytes] = {}
    given = "\n".join(sizes).encode() + b"\n"
    with _running(reference, repository, ["cat-file", "--batch"], limits, given=given) as output:
        for blob, size in sizes.items():
            head = output.readline(_CHUNK)
            content = output.read(size) if head == b"%s blob %d\n" % (blob.encode(), size) else b""
            if len(content) != size or output.read(1) != b"\n":
                raise SourceError(f"{_shown_place(reference)} has a damaged object: fetch it again")
            contents[blob] = content
    return contents


@contextmanager
def _repository(reference: SourceReference, limits: Limits) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="skillwire-git-") as folder:
        repository = Path(folder) / "repository"
        _git(reference, None, ["init", "--quiet", "--bare", "--template=", str(repository)], limits)
        yield repository


def _git(reference: SourceReference, repository: Path | None, words: Sequence[str], limits: Limits) -> bytes:
    """The output of a `git` that says little."""
    with _running(reference, repository, words, limits) as output:
        said = output.read(_MOST_SAID + 1)
        if len(said) > _MOST_SAID:
            raise LimitExceeded(f"{_shown_place(reference)} has too many branches and tags: name a commit")
        return said


@contextmanager
def _running(
    reference: SourceReference,
    repository: Path | None,
    words: Sequence[str],
    limits: Limits,
    *,
    given: bytes = b"",
) -> Generator[IO[bytes]]:
    """The output of a `git` as a stream. It is ended with the block, or when it takes too long."""
    scheme = urlsplit(reference.place).scheme
    if scheme not in GIT_SCHEMES:
        # Some of git's transports run a command, such as `ext::`.
        raise SourceError(f"{shown(reference.place, 200)} is not the URL of a git repository")
    settings = [*_SETTINGS, f"protocol.{scheme}.allow=always"]
    command = ["git", *(part for setting in settings for part in ("-c", setting))]
    if repository is not None:
        command += ["--git-dir", str(repository)]
    with tempfile.TemporaryFile() as standard_input:
        # A file, because `git` may write before it has read everything.
        standard_input.write(given)
        standard_input.seek(0)
        try:
            process = subprocess.Popen(  # noqa: S603 - no shell; every word is ours or follows `--`
                [*command, *words],
                stdin=standard_input,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=git_environment(os.environ),
                start_new_session=True,  # End its helpers too, because they would keep the pipes open.
            )
        except FileNotFoundError:
            raise SourceError("git is not installed: install it to use skills of a git repository") from None
    if process.stdout is None or process.stderr is None:
        raise AssertionError("the process was started with pipes")
    watch, errors = _Watch(process, repository, limits), _LastBytes(process.stderr)
    watch.start()
    errors.start()
    is_done = False
    try:
        yield process.stdout
        is_done = not process.stdout.read(1)
    finally:
        if not is_done:
            _end(process)
        process.stdout.close()
        process.wait()
        watch.stop()
        errors.join()
        process.stderr.close()
        if watch.reason:
            raise LimitExceeded(f"{_shown_place(reference)} {watch.reason}")
    if process.returncode:
        # The remote's own words are cleaned and shown as the reason.
        raise SourceError(
            f"git could not read {_shown_place(reference)}",
            said=_last_words(errors.text, reference),
        )


class _LastBytes(threading.Thread):
    """Reads what a `git` says about errors, and keeps the end of it."""

    def __init__(self, stream: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._bytes = b""

    @property
    def text(self) -> str:
        return self._bytes.decode("utf-8", "replace")

    def run(self) -> None:
        while chunk := os.read(self._stream.fileno(), _CHUNK):
            self._bytes = (self._bytes + chunk)[-_CHUNK:]


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
            self._check_size()
            if self.reason:
                _end(self._process)
                return
        self._check_size()  # It may have grown since the last look.

    def _check_size(self) -> None:
        limit = self._limits.repository_fetch_bytes
        if self._repository is not None and _size(self._repository) > limit:
            self.reason = f"sent more than {limit:,} bytes: it was stopped"


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


def _shown_place(reference: SourceReference) -> str:
    """A repository for a message: a path on this machine as it is, a URL without secrets."""
    place = reference.place
    return shown(place, 200) if place.startswith("file:///") else redact_url(place)


_NO_PASSWORD: Final = ("could not read Username", "could not read Password", "Authentication failed")


def _last_words(text: str, reference: SourceReference) -> str:
    if any(words in text for words in _NO_PASSWORD):
        return "a password is missing or not accepted: put the name and the password into ~/.netrc"
    said = text.replace(reference.place, _shown_place(reference))
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "remote:", "ssh:"))]
    return "; ".join(line.removeprefix("fatal: ") for line in fatal or lines[-1:])[:_SAID]
