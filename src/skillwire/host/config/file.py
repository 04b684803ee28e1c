"""Where `skillwire.toml` is, and what the files say together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from skillwire.errors import SkillwireError, SourceError
from skillwire.files import read_regular
from skillwire.host.config.configured import HostConfig
from skillwire.host.config.merge import combine
from skillwire.host.config.text import ConfigText, parse_config
from skillwire.host.config.trust import SeenFile, TrustedFiles
from skillwire.host.directories import state_places
from skillwire.limits import DEFAULT_LIMITS

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
        user = read_config(state_places().config)
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


def config_above(directory: Path | None = None) -> Path | None:
    """The nearest `skillwire.toml` above a directory, which is not read: its files may belong to anyone."""
    for folder in (directory or Path.cwd()).resolve().parents:
        if (folder / CONFIG_NAME).is_file():
            return folder / CONFIG_NAME
    return None


def identities_by_label(directory: Path | None = None) -> dict[str, frozenset[str]]:
    """Which servers each label means, in every file of the user's that is known here.

    These are the user's file, that of a directory, and those of all projects that the user trusted.
    """
    trusted = TrustedFiles(state_places().trusted).paths()
    files = [
        state_places().config,
        project_file(directory),
        *(path for path in trusted if path.name == CONFIG_NAME),
    ]
    found: dict[str, set[str]] = {}
    for file in dict.fromkeys(files):
        try:
            text = read_config(file)
            config = combine(text, environment=os.environ) if text is not None else HostConfig()
        except SkillwireError:
            continue  # A file that cannot be read names nothing.
        for label, server in config.servers.items():
            if server.identity:
                found.setdefault(label, set()).add(server.identity)
    return {label: frozenset(identities) for label, identities in found.items()}


def is_trusted(project: ConfigText) -> bool:
    """Whether the user trusts the servers of a project's file as it was read."""
    return TrustedFiles(state_places().trusted).trusts(SeenFile(project.file, project.digest))


def project_file(directory: Path | None = None) -> Path:
    """The file of a project, there or not."""
    # One name for one place, for trust goes by it. The file itself may be a link: its own path counts, or a
    # link to a trusted file would be trusted elsewhere.
    return (directory or Path.cwd()).resolve() / CONFIG_NAME


def read_config(file: Path) -> ConfigText | None:
    """One file, or `None` when there is none."""
    try:
        data = read_regular(file, DEFAULT_LIMITS.config_bytes + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SourceError(f"{file} cannot be read: {error.strerror}") from None
    if len(data) > DEFAULT_LIMITS.config_bytes:
        raise SourceError(
            f"{file} has more than {DEFAULT_LIMITS.config_bytes:,} bytes: that is not a configuration"
        )
    try:
        return parse_config(data.decode("utf-8"), file)
    except UnicodeDecodeError:
        raise SourceError(f"{file} is not UTF-8 text: save it as UTF-8") from None
