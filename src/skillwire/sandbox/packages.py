"""Python packages that a script lists, in its inline metadata (PEP 723) or a `requirements.txt` beside it.

They are installed in a step of its own, in a sandbox that reaches the package index alone, as wheels, so that
nothing of them runs. The folder is kept under the digest of the list.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from skillwire.documents import DocumentError, read_toml
from skillwire.errors import FormatError, SourceError
from skillwire.files import make_folder
from skillwire.limits import MIB, Limits
from skillwire.sandbox.bubblewrap import find_program, make_private, run, system_folders
from skillwire.sandbox.plan import WORK, Grant, GrantKind, SandboxPlan
from skillwire.text import redact_url, safe_line

_BLOCK: Final = re.compile(r"(?m)^# /// script$\s(?P<content>(?:^#(?:| .*)$\s)+)^# ///$")
# A name, extras, versions, a marker. No option, no path and no URL: these would leave the index.
_REQUIREMENT: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._, -]*\])?\s*"
    r"(?:\(?(?:===|[~=!<>]=|[<>])\s*[A-Za-z0-9.*+!_-]+(?:\s*,\s*(?:===|[~=!<>]=|[<>])\s*[A-Za-z0-9.*+!_-]+)*\)?)?"
    r"\s*(?:;[^@]*)?"
)
_PIP_INDEX: Final = "pip._internal.models.index"
_MOST: Final = 200
# Installing takes longer than a script should, and packages are large.
_SECONDS: Final = 600
_BYTES: Final = 2048 * MIB
_FILES: Final = 100_000


def requirements_of(script: str, texts: Mapping[str, str]) -> tuple[str, ...]:
    """The packages that a script lists, sorted; none if it lists none. `texts` are the files of its skill.

    A line that names anything but a package of the index is a `FormatError`.
    """
    if script.endswith(".py") and (match := _BLOCK.search(texts.get(script, ""))):
        lines = [line[2:] if line.startswith("# ") else line[1:] for line in match["content"].splitlines()]
        try:
            document: Any = read_toml("\n".join(lines))
        except DocumentError as error:
            raise _bad(script, str(error)) from None
        found = document.get("dependencies", [])
        if not isinstance(found, list):
            raise _bad(script, "its dependencies are not a list")
        return _checked(script, [str(one) for one in cast("list[object]", found)])
    if script.endswith(".py"):
        for folder in dict.fromkeys([os.path.dirname(script), ""]):
            path = os.path.join(folder, "requirements.txt")
            if path in texts:
                lines = [line.partition(" #")[0].strip() for line in texts[path].splitlines()]
                return _checked(path, [line for line in lines if line and not line.startswith("#")])
    return ()


def _checked(where: str, lines: Sequence[str]) -> tuple[str, ...]:
    if len(lines) > _MOST:
        raise _bad(where, f"it lists more than {_MOST} packages")
    for line in lines:
        if not _REQUIREMENT.fullmatch(line):
            raise _bad(where, f"{safe_line(line, limit=100)!r} is not a package of the index")
    return tuple(sorted(set(lines)))


def packages_folder(cache: Path, requirements: Sequence[str], python: str) -> Path:
    """Where the packages of a list are kept, for one interpreter."""
    digest = hashlib.sha256("\n".join([os.path.realpath(python), *requirements]).encode()).hexdigest()
    return cache / digest


def package_index(environment: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The URL of the package index, and the hosts of it and its files: as the user set it, or pip's."""
    for name in ("UV_INDEX_URL", "UV_DEFAULT_INDEX", "PIP_INDEX_URL"):
        if url := environment.get(name):
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise SourceError(f"{name} is {redact_url(url)}, which is not the URL of an index")
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            return url, (f"{host}:{parts.port}" if parts.port else host,)
    try:
        index: Any = importlib.import_module(_PIP_INDEX).PyPI
    except ImportError:
        raise SourceError("the package index is not known: set PIP_INDEX_URL") from None
    return str(index.simple_url), (str(index.netloc), str(index.file_storage_domain))


def install(
    requirements: Sequence[str], folder: Path, *, limits: Limits, environment: Mapping[str, str]
) -> None:
    """Install packages into a folder, which is there afterwards or not at all; blocks."""
    url, hosts = package_index(environment)
    program, trees = find_program("python3")
    command, more = _installer(program)
    work = make_private("packages")
    try:
        plan = SandboxPlan(
            script="",
            interpreter=(
                *command,
                "--target",
                f"{WORK}/packages",
                "--only-binary",
                ":all:",
                "--index-url",
                url,
            ),
            arguments=("--", *requirements),
            grants=tuple(Grant(GrantKind.NET, host) for host in hosts),
            system=system_folders(),
            trees=(*trees, *more),
            work=work,
            variables={"PYTHONPATH": os.path.dirname(more[0])} if more and command[0] == program else {},
            limits=replace(
                limits,
                script_seconds=_SECONDS,
                script_disk_bytes=_BYTES,
                script_files=_FILES,
                script_memory_bytes=max(limits.script_memory_bytes, 1024 * MIB),
            ),
        )
        outcome = run(plan, any_address=True)
        if outcome.exit_code or outcome.ended:
            lines = (
                outcome.stderr.strip().splitlines() or outcome.stdout.strip().splitlines() or ["no reason"]
            )
            why = outcome.ended or safe_line(lines[-1], limit=300)
            if outcome.refused_hosts:
                why = f"the index leads to {', '.join(outcome.refused_hosts)}, which is another host"
            raise SourceError("the packages of the script could not be installed", said=why)
        make_folder(folder.parent)
        os.makedirs(f"{work}/packages", exist_ok=True)
        if not folder.exists():
            shutil.move(f"{work}/packages", folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _installer(python: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The command that installs, and what is mounted for it: uv where it is installed, otherwise our pip."""
    if uv := shutil.which("uv"):
        real = os.path.realpath(uv)
        return (real, "pip", "install", "--python", python, "--no-cache", "--no-config"), (real,)
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        raise SourceError("there is neither uv nor pip to install the packages of the script: install uv")
    options = ("--isolated", "--no-cache-dir", "--disable-pip-version-check", "--no-input", "--quiet")
    return (python, "-m", "pip", "install", *options), (os.path.dirname(found.origin),)


def _bad(where: str, message: str) -> FormatError:
    text = f"the packages of {safe_line(where, limit=200)} are not installed: {message}"
    return FormatError.of(rule="packages", message=text, fix="list names and versions of packages")
