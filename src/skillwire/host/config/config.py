"""HostConfig: what the user's and the project's files say together, for one profile.

A project's file may come from somebody else, with a repository. It adds servers and restricts; it never
grants more than the user's own file, and it never sends a secret of the user's server to another place. What
it adds is left out until the user trusts it; what it restricts is restricted at once. Where two files set the
same thing, includes are intersected, excludes are united, and the stricter approval mode applies.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillwire.catalog import EVERYTHING, Selection
from skillwire.errors import FormatError, Issue, SkillwireError
from skillwire.files import expand_user
from skillwire.host.config.server import ServerConfig, UntrustedServer, did_you_mean
from skillwire.host.config.text import (
    ConfigText,
    ProfileText,
    PublisherText,
    ServerAddress,
    ServerText,
    Variables,
)
from skillwire.host.directories import LocalDirectory, bundled_directory, project_directory, state_paths
from skillwire.host.state import ServerState
from skillwire.limits import DEFAULT_LIMITS
from skillwire.sources import anchored_program
from skillwire.text import shown
from skillwire.trust import ApprovalMode, Publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredServer:
    """A server as the files say it, with no variable filled in.

    `used` is whether it is wanted; a host connects to it when it is `trusted` as well.
    """

    label: str
    file: Path
    place: ServerAddress
    approval_mode: ApprovalMode
    skills: bool
    selection: Selection
    accept_drafts: bool
    bare_scan: bool
    connect_seconds: float
    call_seconds: float
    used: bool
    trusted: bool
    require: tuple[str, ...] = ()
    of_project: bool = False
    """Whether a project's file says where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredPublisher:
    """A publisher of the user's file. Paths in it are relative to `directory`."""

    name: str
    directory: Path
    text: PublisherText


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """Everything that a host is opened with. `servers` are those that it connects to."""

    servers: Mapping[str, ServerConfig] = field(default_factory=dict[str, ServerConfig])
    configured: tuple[ConfiguredServer, ...] = ()
    untrusted: tuple[UntrustedServer, ...] = ()
    """Those that it would connect to, if the user trusted the files that name them."""
    unusable: tuple[UntrustedServer, ...] = ()
    """Those that cannot be connected to, such as one that needs a variable that is not set."""
    directories: tuple[Path, ...] = ()
    """The directories of the user's own file."""
    bundled: tuple[Path, ...] = ()
    """Those of the user's file whose skills are part of the agent, and take precedence where a style has it
    so."""
    project_directories: tuple[Path, ...] = ()
    """Those of a trusted project's file: their skills are the project's, not the user's."""
    problems: tuple[str, ...] = ()
    """Settings left out of the files, and why, where everything else still works."""
    style: str = ""
    default_directories: bool = True
    disabled: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    publishers: tuple[ConfiguredPublisher, ...] = ()
    required_sources: tuple[tuple[str, str], ...] = ()
    """Patterns of sources, each with the publisher who must have signed what comes from there."""

    usage: bool = False
    """Whether the use of skills is counted on this machine."""
    semantic: bool = False
    """Whether searches also find skills by the meaning of their descriptions."""

    @property
    def usage_file(self) -> Path | None:
        """Where the use of skills is counted; `None` if it is not."""
        return state_paths().usage if self.usage else None

    @property
    def local_directories(self) -> tuple[LocalDirectory | Path, ...]:
        """The directories of skills: those that are part of the agent, the user's own and the project's."""
        return (
            *map(bundled_directory, self.bundled),
            *self.directories,
            *map(project_directory, self.project_directories),
        )

    def hidden(self, servers: Iterable[ServerState], label: str | None = None) -> list[str]:
        """Why no skills are left, of all servers or of one, where that is by the user's own rules: a sentence
        for each server, which says how to change that."""
        files = " or ".join(str(file) for file in self.files) or "skillwire.toml"
        said: list[str] = []
        for server in servers:
            if server.excluded and label in (None, server.label):
                count = "The only skill" if server.excluded == 1 else f"All {server.excluded:,} skills"
                verb = "is" if server.excluded == 1 else "are"
                said.append(
                    f"{count} of {server.label} {verb} hidden by the include and exclude rules of your "
                    f"configuration: change them in {files}."
                )
        for unused in (one for one in self.configured if not one.used and label in (None, one.label)):
            whose = f"The skills of {unused.label} are hidden by"
            if unused.skills:
                how = "choose another with --profile"
                said.append(f"{whose} the profile, which does not name it: change that in {files}, or {how}.")
            else:
                enable = f"`skillwire servers enable {unused.label}`"
                said.append(f"{whose} skills = false: {enable} changes that.")
        return said

    @property
    def skipped(self) -> tuple[UntrustedServer, ...]:
        """Every requested server that is left out, each with the reason."""
        return (*self.untrusted, *self.unusable)


def load_publishers(configured: Iterable[ConfiguredPublisher]) -> list[Publisher]:
    """Each publisher with its keys; `SourceError` or `FormatError` names a file that cannot be used."""
    return [_load(one) for one in configured]


def _load(configured: ConfiguredPublisher) -> Publisher:
    # It is with what signs and checks folders, which few commands need.
    from skillwire.sources import read_pem

    text = configured.text

    def pem(path: str) -> bytes | None:
        return read_pem(configured.directory / expand_user(path)) if path else None

    return Publisher.from_pem(
        configured.name,
        key=pem(text.key),
        root=pem(text.root),
        timestamp_root=pem(text.timestamp_root),
        identity=text.identity,
        issuer=text.issuer,
    )


_DEFAULT: Final = "default"
"""The profile that applies when none is named."""

_STRICTEST_FIRST: Final = (ApprovalMode.NEVER, ApprovalMode.PINNED, ApprovalMode.PROMPT, ApprovalMode.ALWAYS)


def combine(
    user: ConfigText | None,
    project: ConfigText | None = None,
    *,
    profile: str | None = None,
    environment: Mapping[str, str] | None,
    trusted: bool = False,
    named: bool = False,
) -> HostConfig:
    """Put the files together, or raise a `FormatError` with every mistake.

    `trusted` is whether the user agreed to the servers of the project's file, `named` whether the user named
    this one file: its commands are started in its directory, then.
    Without an environment nothing is filled in: there are no `servers` and no `directories` then.
    """
    issues: list[Issue] = []
    files = [file for file in (user, project) if file is not None]
    profiles = _profiles(files, profile, issues)
    configured: list[ConfiguredServer] = []
    for label in dict.fromkeys(label for file in files for label in file.servers):
        if user is not None and project is not None and label not in user.servers:
            issues += _twins(label, user, project)
        server = _together(label, user, project, profiles, issues, trusted)
        if server is not None:
            configured.append(server)
    publishers = _publishers(user, project, issues)
    known = {publisher.name for publisher in publishers}
    # Each file can require publishers: what both say holds.
    sources = [
        (file, pattern, text.require)
        for file in files
        for pattern, text in file.sources.items()
        if text.require
    ]
    required = [
        (server.file, f"servers.{server.label}", name) for server in configured for name in server.require
    ]
    required += [(file.file, f'sources."{shown(pattern)}"', name) for file, pattern, name in sources]
    for path, key, name in required:
        if name not in known:
            message = f"{key}.require names {shown(name)}, which is not a publisher here"
            fix = did_you_mean(name, known) or "add it as [publishers.NAME] to your own file"
            issues.append(Issue(rule="config", file=str(path), message=message, fix=fix))
    issues += _of_the_user_alone(user, project, known)
    issues += _strangers_in_profiles(files, [label for file in files for label in file.servers])
    if issues:
        raise FormatError(issues)
    servers: dict[str, ServerConfig] = {}
    unusable: list[UntrustedServer] = []
    own: list[Path] = []
    bundled: list[Path] = []
    projects: list[Path] = []
    problems: list[str] = []
    if environment is not None:
        for server in configured:
            # What is not trusted is not even filled in.
            if not (server.used and server.trusted):
                continue
            config = _filled_in(server, environment, start_in_folder=server.of_project or named)
            if isinstance(config, ServerConfig):
                servers[server.label] = config
            else:  # A server with a variable that is not set costs only itself.
                unusable.append(UntrustedServer(label=server.label, file=server.file, problem=config))
        if user is not None:
            own = _directories(user, user.directories, environment, problems)
            bundled = _directories(user, user.bundled, environment, problems)
        if project is not None and project.directories:
            if trusted:
                projects = _inside(
                    project, _directories(project, project.directories, environment, problems), problems
                )
            else:
                problems.append(
                    f"{project.file} names directories of skills, which are not read until you run "
                    "`skillwire trust` there"
                )
    semantic = user is not None and user.semantic is True
    if semantic and environment is not None:
        from skillwire.host.semantic import missing_package

        if missing := missing_package():
            semantic = False
            problems.append(f"semantic = true has no effect: {missing}")
    parts = (*files, *profiles)
    return HostConfig(
        servers=servers,
        configured=tuple(configured),
        untrusted=tuple(
            UntrustedServer(label=server.label, file=server.file)
            for server in configured
            if server.used and not server.trusted
        ),
        unusable=tuple(unusable),
        directories=tuple(dict.fromkeys(own)),
        bundled=tuple(dict.fromkeys(bundled)),
        project_directories=tuple(dict.fromkeys(projects)),
        problems=tuple(problems),
        style=next((part.style for part in (*profiles, *files) if part.style), ""),
        default_directories=all(part.default_directories is not False for part in parts),
        disabled=tuple(dict.fromkeys(name for part in parts for name in part.disabled)),
        files=tuple(file.file for file in files),
        publishers=publishers,
        usage=user is not None and user.usage is True,
        semantic=semantic,
        required_sources=tuple(dict.fromkeys((pattern, name) for _, pattern, name in sources)),
    )


def _together(
    label: str,
    user: ConfigText | None,
    project: ConfigText | None,
    profiles: list[ProfileText],
    issues: list[Issue],
    trusted: bool,
) -> ConfiguredServer | None:
    """One server, from what each file says about it."""
    texts = [file.servers[label] for file in (user, project) if file is not None and label in file.servers]
    located = _located(label, user, project, issues)
    if located is None:
        return None
    file, place = located
    if (
        project is not None
        and label in project.servers
        and project.servers[label].approval is ApprovalMode.ALWAYS
    ):
        issues.append(
            _issue(
                project,
                f'servers.{label}.approval is "always", which a project cannot say for its user',
                "leave it out here, and say it in your own file",
            )
        )
    selection = EVERYTHING
    for part in (*texts, *profiles):
        selection = selection.narrowed(include=part.include, exclude=part.exclude)
    modes = [text.approval for text in texts if text.approval is not None]
    skills = all(text.skills is not False for text in texts)
    # S10: only the user's own file or a trusted one can grant a user's server more.
    widening = texts if trusted or file is not user or user is None else [_text(user, label)]
    narrow = [text for text in texts if text not in widening]
    return ConfiguredServer(
        label=label,
        file=file.file,
        place=place,
        approval_mode=min(modes, key=_STRICTEST_FIRST.index, default=ApprovalMode.PROMPT),
        skills=skills,
        selection=selection,
        accept_drafts=_agreed(text.accept_drafts for text in widening)
        and all(text.accept_drafts is not False for text in narrow),
        bare_scan=_agreed(text.bare_scan for text in widening)
        and all(text.bare_scan is not False for text in narrow),
        connect_seconds=_last([text.connect_seconds for text in widening], DEFAULT_LIMITS.connect_seconds),
        call_seconds=_last([text.call_seconds for text in widening], DEFAULT_LIMITS.call_seconds),
        of_project=file is project,
        used=skills and all(_in_profile(label, profile) for profile in profiles),
        trusted=trusted or file is user,
        # Each file can require a publisher: all of them must have signed.
        require=tuple(dict.fromkeys(text.require for text in texts if text.require)),
    )


def _located(
    label: str, user: ConfigText | None, project: ConfigText | None, issues: list[Issue]
) -> tuple[ConfigText, ServerAddress] | None:
    """The file that says where a server is, and what it says."""
    users = _text(user, label).place
    projects = _text(project, label).place
    if users is not None and projects is not None and users != projects and project is not None:
        # A project must not send a token of the user's server to a place of its own.
        issues.append(
            _issue(
                project,
                f"servers.{label} is another server in your own file",
                "give one of them another name, or leave out its place here, to restrict yours",
            )
        )
        return None
    if user is not None and users is not None:
        return user, users
    if project is not None and projects is not None:
        return project, projects
    if project is not None and label in project.servers:
        issues.append(_issue(project, f"servers.{label} has neither url nor command", "add one of them"))
    # The user may restrict a server that only some project has.
    return None


def _filled_in(
    server: ConfiguredServer, environment: Mapping[str, str], *, start_in_folder: bool
) -> ServerConfig | str:
    """The server with its variables filled in, or why it cannot be used."""
    issues: list[Issue] = []
    file, key, place = str(server.file), f"servers.{server.label}", server.place
    variables = Variables(environment, file=file, issues=issues)
    url = variables.fill(place.url, f"{key}.url")
    command = tuple(variables.fill(word, f"{key}.command") for word in place.command)
    env = variables.fill_map(place.env, f"{key}.env")
    headers = variables.fill_map(place.headers, f"{key}.headers")
    token = variables.fill(place.token, f"{key}.token")
    if place.token_env:
        token = variables.get(place.token_env, f"{key}.token_env")
    directory = variables.fill(place.directory, f"{key}.directory")
    if issues:
        return f"cannot be used: {'; '.join(str(issue) for issue in issues)}"
    folder = server.file.parent
    if directory:
        directory = str(folder / expand_user(directory))
    elif command and start_in_folder:
        # S1: a trusted project's server belongs there. A server of the user's never starts where we are.
        directory = str(folder)
    try:
        return ServerConfig(
            url=url,
            command=_anchored(command, folder),
            env=env,
            headers=headers,
            token=token,
            directory=directory,
            approval=server.approval_mode,
            skills=server.skills,
            selection=server.selection,
            accept_drafts=server.accept_drafts,
            bare_scan=server.bare_scan,
            connect_seconds=server.connect_seconds,
            call_seconds=server.call_seconds,
            require=server.require,
        )
    except SkillwireError as error:
        return f"cannot be used: {file}: {key}: {error}"


def _anchored(command: tuple[str, ...], folder: Path) -> tuple[str, ...]:
    """The command of a file in this folder: a path in a file means the same from everywhere."""
    if not command:
        return command
    program = os.path.expanduser(command[0])  # noqa: PTH111 - a `Path` would drop the `./` in front of it.
    return (anchored_program(program, str(folder), windows=os.name == "nt"), *command[1:])


def _publishers(
    user: ConfigText | None, project: ConfigText | None, issues: list[Issue]
) -> tuple[ConfiguredPublisher, ...]:
    """The publishers that the user recognizes: no project adds one."""
    if project is not None:
        for name in project.publishers:
            message = f"publishers.{name}: a project cannot add a publisher for its user"
            issues.append(_issue(project, message, "leave it out here, and add it to your own file"))
    if user is None:
        return ()
    return tuple(
        ConfiguredPublisher(name=name, directory=user.file.parent, text=text)
        for name, text in user.publishers.items()
    )


def _of_the_user_alone(
    user: ConfigText | None, project: ConfigText | None, known: Collection[str]
) -> Iterator[Issue]:
    """Mistakes in what a user says for themselves: who may act for them, where names lead, where a token is
    sent. No project does."""
    if project is not None:
        for key, is_set in (
            ("agents_may_install", project.agents_may_install is not None),
            ("approvers", bool(project.approvers)),
            ("bundled", bool(project.bundled)),
            ("model", bool(project.model)),
            ("repository_host", bool(project.repository_host)),
            ("semantic", project.semantic is not None),
            ("usage", project.usage is not None),
            *((f"sources.{name}.token_env", bool(one.token_env)) for name, one in project.sources.items()),
        ):
            if is_set:
                message = f"{key}: a project cannot say this for its user"
                yield _issue(project, message, "leave it out here, and add it to your own file")
    if user is None:
        return
    for name in user.approvers:
        if name not in known:
            message = f"approvers names {shown(name)}, which is not a publisher here"
            yield _issue(user, message, did_you_mean(name, known) or "add it as [publishers.NAME]")


def _profiles(files: list[ConfigText], name: str | None, issues: list[Issue]) -> list[ProfileText]:
    """Return what each file says about the selected profile."""
    if name is None:
        return [file.profiles[_DEFAULT] for file in files if _DEFAULT in file.profiles]
    found = [file.profiles[name] for file in files if name in file.profiles]
    if not found:
        known = [known for file in files for known in file.profiles]
        there = f"known: {', '.join(known)}" if known else "there are no profiles in your files"
        message = f"no profile is called {shown(name)}"
        issues.append(Issue(rule="config", message=message, fix=did_you_mean(name, known) or there))
    return found


def _strangers_in_profiles(files: list[ConfigText], labels: list[str]) -> Iterable[Issue]:
    folded = {label.casefold() for label in labels}
    for file in files:
        for profile, text in file.profiles.items():
            for name in text.servers or ():
                if name.casefold() not in folded:
                    yield _issue(
                        file,
                        f"profiles.{profile}.servers names {shown(name)}, which is not a server here",
                        did_you_mean(name, labels) or "add the server, or leave it out",
                    )


def _twins(label: str, user: ConfigText, project: ConfigText) -> Iterable[Issue]:
    for other in user.servers:
        if other.casefold() == label.casefold():
            yield _issue(
                project,
                f"servers.{label} is called {other} in your own file",
                "spell them alike, or differently",
            )


def _directories(
    file: ConfigText, texts: Iterable[str], environment: Mapping[str, str], problems: list[str]
) -> list[Path]:
    found: list[Path] = []
    for text in texts:
        issues: list[Issue] = []
        filled = Variables(environment, file=str(file.file), issues=issues).fill(text, "directories")
        if issues:
            problems += [str(issue) for issue in issues]
        else:
            found.append(file.file.parent / expand_user(filled))
    return found


def _inside(project: ConfigText, directories: list[Path], problems: list[str]) -> list[Path]:
    """The directories inside the project; a project cannot declare others to be its skills."""
    root = project.file.parent.resolve()
    inside: list[Path] = []
    for directory in directories:
        if directory.resolve().is_relative_to(root):
            inside.append(directory)
        else:
            problems.append(
                f"{project.file} names a directory outside the project, which is not read: "
                "name it in your own file if you want its skills"
            )
    return inside


def _in_profile(label: str, profile: ProfileText) -> bool:
    return profile.servers is None or label.casefold() in {name.casefold() for name in profile.servers}


def _text(file: ConfigText | None, label: str) -> ServerText:
    return file.servers.get(label, ServerText()) if file is not None else ServerText()


def _agreed(answers: Iterable[bool | None]) -> bool:
    """True if at least one says yes and none says no."""
    said = [answer for answer in answers if answer is not None]
    return bool(said) and all(said)


def _last(values: list[float | None], default: float) -> float:
    return next((value for value in reversed(values) if value is not None), default)


def _issue(file: ConfigText, message: str, fix: str) -> Issue:
    return Issue(rule="config", file=str(file.file), message=shown(message, 300), fix=fix)
