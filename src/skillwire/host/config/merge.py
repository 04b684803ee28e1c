"""HostConfig: what the user's and the project's files say together, for one profile.

A project's file may come from somebody else, with a repository. It adds servers and narrows; it never widens
what the user's own file says, and it never sends a secret of the user's server to another place. What it adds
is left out until the user trusts it; what it narrows is narrow at once. Where two files speak of one thing,
includes intersect, excludes unite, and the stricter policy holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from skillwire.catalog.selection import EVERYTHING, Selection
from skillwire.errors import FormatError, SkillwireError
from skillwire.host.config.server import ServerConfig
from skillwire.host.config.table import near
from skillwire.host.config.text import ConfigText, Place, ProfileText, PublisherText, ServerText
from skillwire.host.config.trust import UntrustedServer
from skillwire.host.config.variables import Variables
from skillwire.issues import Issue, shown
from skillwire.limits import DEFAULT_LIMITS
from skillwire.trust.approval import Policy

_STRICTEST_FIRST: Final = (Policy.NEVER, Policy.PINNED, Policy.PROMPT, Policy.ALWAYS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredServer:
    """A server as the files say it, with no variable filled in.

    `used` is whether it is wanted; a host connects to it when it is `trusted` as well.
    """

    label: str
    file: Path
    place: Place
    policy: Policy
    skills: bool
    selection: Selection
    accept_drafts: bool
    bare_scan: bool
    connect_seconds: float
    call_seconds: float
    used: bool
    trusted: bool
    require: tuple[str, ...] = ()


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
    directories: tuple[Path, ...] = ()
    usual: bool = True
    disabled: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    publishers: tuple[ConfiguredPublisher, ...] = ()


def combine(
    user: ConfigText | None,
    project: ConfigText | None = None,
    *,
    profile: str | None = None,
    environment: Mapping[str, str] | None,
    trusted: bool = False,
) -> HostConfig:
    """Put the files together, or raise a `FormatError` with every mistake.

    `trusted` is whether the user agreed to the servers of the project's file.
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
    for server in configured:
        for name in server.require:
            if name not in known:
                message = f"servers.{server.label}.require names {shown(name)}, which is no publisher here"
                fix = near(name, known) or "add it as [publishers.NAME] to your own file"
                issues.append(Issue(rule="config", file=str(server.file), message=message, fix=fix))
    issues += _strangers_in_profiles(files, [label for file in files for label in file.servers])
    servers: dict[str, ServerConfig] = {}
    directories: list[Path] = []
    if environment is not None:
        for server in configured:
            # What is not trusted is not even filled in: it costs only itself.
            wanted = server.used and server.trusted
            if wanted and (config := _filled_in(server, environment, issues)) is not None:
                servers[server.label] = config
        directories = [path for file in files for path in _directories(file, environment, issues)]
    if issues:
        raise FormatError(issues)
    parts = (*files, *profiles)
    return HostConfig(
        servers=servers,
        configured=tuple(configured),
        untrusted=tuple(
            UntrustedServer(label=server.label, file=server.file)
            for server in configured
            if server.used and not server.trusted
        ),
        directories=tuple(dict.fromkeys(directories)),
        usual=all(part.usual is not False for part in parts),
        disabled=tuple(dict.fromkeys(name for part in parts for name in part.disabled)),
        files=tuple(file.file for file in files),
        publishers=publishers,
    )


def _together(
    label: str,
    user: ConfigText | None,
    project: ConfigText | None,
    profiles: list[ProfileText],
    issues: list[Issue],
    trusted: bool,
) -> ConfiguredServer | None:
    """One server out of what each file says about it."""
    texts = [file.servers[label] for file in (user, project) if file is not None and label in file.servers]
    located = _located(label, user, project, issues)
    if located is None:
        return None
    file, place = located
    if project is not None and label in project.servers and project.servers[label].approval is Policy.ALWAYS:
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
    policies = [text.approval for text in texts if text.approval is not None]
    skills = all(text.skills is not False for text in texts)
    return ConfiguredServer(
        label=label,
        file=file.file,
        place=place,
        policy=min(policies, key=_STRICTEST_FIRST.index, default=Policy.PROMPT),
        skills=skills,
        selection=selection,
        accept_drafts=_agreed(text.accept_drafts for text in texts),
        bare_scan=_agreed(text.bare_scan for text in texts),
        connect_seconds=_last([text.connect_seconds for text in texts], DEFAULT_LIMITS.connect_seconds),
        call_seconds=_last([text.call_seconds for text in texts], DEFAULT_LIMITS.call_seconds),
        used=skills and all(_in_profile(label, profile) for profile in profiles),
        trusted=trusted or file is user,
        # Each file can require a publisher: all of them must have signed.
        require=tuple(dict.fromkeys(text.require for text in texts if text.require)),
    )


def _located(
    label: str, user: ConfigText | None, project: ConfigText | None, issues: list[Issue]
) -> tuple[ConfigText, Place] | None:
    """The file that says where a server is, and what it says."""
    users = _text(user, label).place
    projects = _text(project, label).place
    if users is not None and projects is not None and users != projects and project is not None:
        # A project must not send a token of the user's server to a place of its own.
        issues.append(
            _issue(
                project,
                f"servers.{label} is another server in your own file",
                "give one of them another name, or leave out its place here, to narrow yours",
            )
        )
        return None
    if user is not None and users is not None:
        return user, users
    if project is not None and projects is not None:
        return project, projects
    if project is not None and label in project.servers:
        issues.append(_issue(project, f"servers.{label} has neither url nor command", "add one of them"))
    # The user may narrow a server that only some project has.
    return None


def _filled_in(
    server: ConfiguredServer, environment: Mapping[str, str], issues: list[Issue]
) -> ServerConfig | None:
    before = len(issues)
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
    if len(issues) > before:
        return None
    try:
        return ServerConfig(
            url=url,
            command=command,
            env=env,
            headers=headers,
            token=token,
            directory=str(server.file.parent / Path(directory).expanduser()) if directory else "",
            approval=server.policy,
            skills=server.skills,
            selection=server.selection,
            accept_drafts=server.accept_drafts,
            bare_scan=server.bare_scan,
            connect_seconds=server.connect_seconds,
            call_seconds=server.call_seconds,
            require=server.require,
        )
    except SkillwireError as error:
        issues.append(Issue(rule="config", file=file, message=f"{key}: {error}", fix="check its place"))
        return None


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


def _profiles(files: list[ConfigText], name: str | None, issues: list[Issue]) -> list[ProfileText]:
    """What each file says about the wanted profile."""
    if name is None:
        return []
    found = [file.profiles[name] for file in files if name in file.profiles]
    if not found:
        known = [known for file in files for known in file.profiles]
        there = f"there is {', '.join(known)}" if known else "there are no profiles in your files"
        message = f"no profile is called {shown(name)}"
        issues.append(Issue(rule="config", message=message, fix=near(name, known) or there))
    return found


def _strangers_in_profiles(files: list[ConfigText], labels: list[str]) -> Iterable[Issue]:
    folded = {label.casefold() for label in labels}
    for file in files:
        for profile, text in file.profiles.items():
            for name in text.servers or ():
                if name.casefold() not in folded:
                    yield _issue(
                        file,
                        f"profiles.{profile}.servers names {shown(name)}, which is no server here",
                        near(name, labels) or "add the server, or leave it out",
                    )


def _twins(label: str, user: ConfigText, project: ConfigText) -> Iterable[Issue]:
    for other in user.servers:
        if other.casefold() == label.casefold():
            yield _issue(
                project,
                f"servers.{label} is called {other} in your own file",
                "spell them alike, or differently",
            )


def _directories(file: ConfigText, environment: Mapping[str, str], issues: list[Issue]) -> Iterable[Path]:
    variables = Variables(environment, file=str(file.file), issues=issues)
    for text in file.directories:
        yield file.file.parent / Path(variables.fill(text, "directories")).expanduser()


def _in_profile(label: str, profile: ProfileText) -> bool:
    return profile.servers is None or label.casefold() in {name.casefold() for name in profile.servers}


def _text(file: ConfigText | None, label: str) -> ServerText:
    return file.servers.get(label, ServerText()) if file is not None else ServerText()


def _agreed(answers: Iterable[bool | None]) -> bool:
    """Yes, when somebody says so and nobody says no."""
    said = [answer for answer in answers if answer is not None]
    return bool(said) and all(said)


def _last(values: list[float | None], default: float) -> float:
    return next((value for value in reversed(values) if value is not None), default)


def _issue(file: ConfigText, message: str, fix: str) -> Issue:
    return Issue(rule="config", file=str(file.file), message=shown(message, 300), fix=fix)
