"""Where `skillwire.toml` is, what the files say together, and reading them again when one of them changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from skillwire.errors import Issue, SkillwireError, SourceError
from skillwire.files import read_regular
from skillwire.host.config.config import HostConfig, combine
from skillwire.host.config.server import ConfigTable, SeenFile, TrustedFiles, UntrustedServer, seen_digest
from skillwire.host.config.text import ConfigText, parse_config, read_servers
from skillwire.host.directories import LocalDirectory, state_paths
from skillwire.limits import DEFAULT_LIMITS
from skillwire.sources.reference import DEFAULT_HOST

if TYPE_CHECKING:
    from skillwire.trust import Publisher

CONFIG_NAME: Final = "skillwire.toml"


def load_config(
    directory: Path | None = None,
    *,
    file: Path | None = None,
    profile: str | None = None,
    environment: Mapping[str, str] | None = None,
    fill: bool = True,
    unsafe_trust_project: bool = False,
) -> HostConfig:
    """The user's configuration and that of a directory, the working one by default, put together.

    With `file`, that file alone. No parent directory is searched: its files may belong to anyone. Without
    `fill`, no variable is filled in and `servers` is empty: enough to show what is configured.

    Servers of the directory's file are left out, as `untrusted`, unless the user trusts it as it is now. With
    `unsafe_trust_project` the user is not asked: the commands in that file are started.
    """
    if file is not None:
        user, project = read_config(file), None
        if user is None:
            raise SourceError(f"there is no {file}: check the path")
    else:
        user = read_config(state_paths().config)
        project = read_config(project_file(directory))
    known = os.environ if environment is None else environment
    return combine(
        user,
        project,
        profile=profile,
        environment=known if fill else None,
        trusted=unsafe_trust_project or (project is not None and is_trusted(project)),
        named=file is not None,
    )


def load_settings(table: ConfigTable, file: Path, issues: list[Issue]) -> HostConfig:
    """The servers, directories and style in a file that the user named and that has other keys too.

    Its commands are started in its directory. Mistakes are added to the issues; then there are no settings.
    """
    text = ConfigText(
        file=file,
        servers=read_servers(table, file, issues),
        directories=table.strings("directories") or (),
        style=table.string("style"),
    )
    return HostConfig() if issues else combine(text, environment=os.environ, named=True)


def config_above(directory: Path | None = None) -> Path | None:
    """The nearest `skillwire.toml` above a directory, which is not read: its files may belong to anyone."""
    for folder in (directory or Path.cwd()).resolve().parents:
        if (folder / CONFIG_NAME).is_file():
            return folder / CONFIG_NAME
    return None


def agents_may_install() -> bool:
    """Whether the user lets agents install skills. Their own file says so: no project, and no other file."""
    user = read_config(state_paths().config)
    return user is not None and user.agents_may_install is True


def chat_model() -> str:
    """The model that the user's own file names for `skillwire chat`; empty if it names none."""
    user = read_config(state_paths().config)
    return user.model if user is not None else ""


def repository_host() -> str:
    """Where the repository `OWNER/NAME` is, by the user's own file or by default."""
    user = read_config(state_paths().config)
    return (user.repository_host if user is not None else "") or DEFAULT_HOST


def site_tokens(environment: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Patterns of sites, each with the token that the user's own file has for them, where it is set."""
    user = read_config(state_paths().config)
    known = os.environ if environment is None else environment
    if user is None:
        return []
    return [(name, known[one.token_env]) for name, one in user.sources.items() if known.get(one.token_env)]


def load_approvers() -> list[Publisher]:
    """The publishers whose signed approvals the user takes over unread, by the user's own file."""
    from skillwire.host.config.config import load_publishers

    user = read_config(state_paths().config)
    if user is None or not user.approvers:
        return []
    publishers = combine(user, environment=None).publishers
    return load_publishers(one for one in publishers if one.name in user.approvers)


def is_trusted(project: ConfigText) -> bool:
    """Whether the user trusts the servers of a project's file as it was read."""
    return TrustedFiles(state_paths().trusted).trusts(SeenFile(project.file, project.digest))


def is_trusted_now(path: Path) -> bool:
    """Whether the user trusts a project's file with the bytes that it has now, whatever they mean."""
    digest = seen_digest(path)
    return digest is not None and TrustedFiles(state_paths().trusted).trusts(SeenFile(path, digest))


def project_file(directory: Path | None = None) -> Path:
    """The file of a project, there or not."""
    # One name for one place, for trust goes by it. The file itself may be a link: its own path counts, or a
    # link to a trusted file would be trusted elsewhere.
    return (directory or Path.cwd()).resolve() / CONFIG_NAME


def read_config(file: Path) -> ConfigText | None:
    """One file, or `None` when there is none."""
    try:
        data = read_regular(file, DEFAULT_LIMITS.document_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceError(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > DEFAULT_LIMITS.document_bytes:
        raise SourceError(
            f"{file} has more than {DEFAULT_LIMITS.document_bytes:,} bytes: that is not a configuration"
        )
    try:
        return parse_config(data.decode("utf-8"), file)
    except UnicodeDecodeError:
        raise SourceError(f"{file} is not UTF-8 text: save it as UTF-8") from None


Stamp: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigWatch:
    """Where the configuration of a host comes from. Its methods use files: call them in a thread."""

    loaded: HostConfig
    """The configuration when the host was made, at `loaded_stamp`."""
    loaded_stamp: Stamp
    load: Callable[[], HostConfig]
    """Everything that the files say now; a `SkillwireError` when they cannot be read."""
    files: tuple[Path, ...]
    """The files that it depends on, there or not."""
    project: Path | None = None
    """The project's file, which has to be trusted as it is; `None` when there is none, or no need."""
    directories: tuple[str | Path | LocalDirectory, ...] = field(default=())
    """Directories that were given beside the files."""
    default_directories: bool = True
    """Whether those where agents keep skills are used, unless a file says not to."""

    def stamp(self) -> Stamp:
        """Return a stamp that differs for each state of the files, without reading them."""
        return _stamp(self.files)

    def without_project(self, before: HostConfig) -> HostConfig | None:
        """Return what stays of an earlier configuration when the files cannot be read: nothing of a project
        whose file is not the trusted one any more. `None` when everything stays.
        """
        if self.project is None or is_trusted_now(self.project):
            return None
        of_project = {server.label for server in before.configured if server.of_project}
        if not of_project and not before.project_directories:
            return None
        closed = [label for label in before.servers if label in of_project]
        return replace(
            before,
            servers={label: server for label, server in before.servers.items() if label not in of_project},
            untrusted=tuple(UntrustedServer(label=label, file=self.project) for label in closed),
            project_directories=(),
        )


def watch_config(
    directory: Path | None = None,
    *,
    file: Path | None = None,
    profile: str | None = None,
    unsafe_trust_project: bool = False,
) -> ConfigWatch:
    """Return the configuration that `load_config` gives with the same arguments, now and later. The record of
    the user's trust is among the files.
    """

    def load() -> HostConfig:
        return load_config(directory, file=file, profile=profile, unsafe_trust_project=unsafe_trust_project)

    if file is not None:
        files, project = (file,), None
    else:
        project = project_file(directory)
        files = (state_paths().config, project, TrustedFiles(state_paths().trusted).record(project))
    stamp = _stamp(files)  # Before the files are read: a later change is noticed.
    return ConfigWatch(
        loaded=load(),
        loaded_stamp=stamp,
        load=load,
        files=files,
        project=None if unsafe_trust_project else project,
    )


def _stamp(files: Iterable[Path]) -> Stamp:
    return tuple(map(_file_stamp, files))


def _file_stamp(path: Path) -> tuple[int, ...]:
    try:
        found = path.stat()
    except (OSError, SkillwireError):
        return ()
    return found.st_mtime_ns, found.st_size, found.st_ino
