"""`skillwire doctor`: what does not work, and what to do about it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillwire.errors import SkillwireError, SourceError
from skillwire.version import pip_command

if TYPE_CHECKING:
    from skillwire.host import HostConfig, SkillHost
    from skillwire.trust import Policy

_LEVELS: Final = {"ok": ("ok     ", "green"), "note": ("note   ", "yellow"), "problem": ("problem", "red")}
_NEEDED: Final = (
    *("anyio", "cryptography", "httpx2", "mcp", "mcp_types", "platformdirs", "pydantic", "rich", "tomlkit"),
    *("uvicorn", "watchfiles", "yaml"),
)


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One thing that was checked.

    `level` is `ok`, `note` or `problem`. `advice` is what to do about it; only a note or a problem has some.
    """

    area: str
    level: str
    message: str
    advice: str = ""


def doctor(*, no_servers: bool, timeout: float, as_json: bool) -> int:
    """Check everything, print each finding with what to do, and fail if there is a problem."""
    from skillwire.cli.output import Screen, counted, printable, show_json

    findings = list(_all(connect=not no_servers, timeout=timeout))
    problems = sum(finding.level == "problem" for finding in findings)
    notes = sum(finding.level == "note" for finding in findings)
    if as_json:
        show_json({"findings": [asdict(finding) for finding in findings], "problems": problems})
        return SourceError.exit_code if problems else 0
    screen = Screen()
    for finding in findings:
        title, style = _LEVELS[finding.level]
        screen.hanging(title, f"{finding.area}: {printable(finding.message)}", style=style)
        if finding.advice:
            screen.hanging(" " * len(title), f"→ {printable(finding.advice)}")
    screen.line()
    screen.line(f"{counted(problems, 'problem')}, {counted(notes, 'note')}.")
    return SourceError.exit_code if problems else 0


def _all(*, connect: bool, timeout: float) -> Iterator[DoctorCheck]:
    yield from _installation()
    yield from _stored_files()
    settings: HostConfig | None = None
    for finding in _configuration():
        if isinstance(finding, DoctorCheck):
            yield finding
        else:
            settings = finding
    yield from _guarded("clients", _clients)
    yield from _guarded("agents", _agents)
    yield from _guarded("approvals", _approvals)
    yield from _guarded("policy", _refused)
    yield from _sandbox()
    if connect and settings is not None and settings.servers:
        yield from _guarded("servers", lambda: _servers(settings, timeout))


def _guarded(area: str, check: Callable[[], Iterator[DoctorCheck]]) -> Iterator[DoctorCheck]:
    """A check that fails is a finding; the others continue."""
    try:
        yield from check()
    except* SkillwireError as failed:
        advice = "fix what it names, then run `skillwire doctor` again"
        yield DoctorCheck(area, "problem", str(_first(failed)), advice)
    except* ImportError as missing:
        # Servers are connected in tasks, whose errors come in groups.
        advice = f"reinstall Skillwire: {pip_command()}"
        reason = _first(missing)
        yield DoctorCheck(area, "problem", f"not checked, because a package is missing: {reason}", advice)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error


def _installation() -> Iterator[DoctorCheck]:
    import shutil

    from skillwire.version import VERSION

    python = ".".join(map(str, sys.version_info[:3]))
    yield DoctorCheck("installation", "ok", f"Skillwire {VERSION}, Python {python}, {sys.prefix}")
    for name in _NEEDED:
        try:
            import_module(name)
        except ImportError as error:
            advice = f"reinstall Skillwire: {pip_command()}"
            yield DoctorCheck(
                "installation", "problem", f"the package {name} cannot be imported: {error}", advice
            )
    try:
        version = metadata.version("mcp")
    except metadata.PackageNotFoundError:
        version = ""
    if version and not version.startswith("2."):
        advice = f"install Skillwire in an environment of its own: {pip_command()}"
        yield DoctorCheck(
            "installation", "problem", f"mcp {version} is installed, and Skillwire needs mcp 2", advice
        )
    if shutil.which("skillwire") is None:
        advice = "clients need an absolute path: `skillwire serve PATH --print-config CLIENT` prints one"
        yield DoctorCheck("installation", "note", "the command skillwire is not on the PATH", advice)


def _agents() -> Iterator[DoctorCheck]:
    """Whether an agent runs this, and what agents may do. Only a person approves."""
    from skillwire.clients import running_agent
    from skillwire.host import agents_may_install

    if agents_may_install():
        advice = "to end that, set agents_may_install = false in your own skillwire.toml"
        yield DoctorCheck("agents", "note", "agents may install skills that ask for no tools or code", advice)
    else:
        yield DoctorCheck("agents", "ok", "agents may not install skills or approve them")
    agent = running_agent(os.environ)
    if agent is not None:
        advice = "approve skills in a terminal of your own, or on the review page"
        yield DoctorCheck(
            "agent", "note", f"this command runs inside {agent}: nothing is approved here", advice
        )


def _sandbox() -> Iterator[DoctorCheck]:
    """Whether scripts of skills can run here, which is tried."""
    from skillwire.errors import SandboxUnavailable
    from skillwire.limits import DEFAULT_LIMITS

    try:
        if sys.platform != "linux":
            raise SandboxUnavailable("scripts run in a sandbox on Linux alone")
        from skillwire.sandbox import try_sandbox

        how = try_sandbox(DEFAULT_LIMITS)
    except SandboxUnavailable as error:
        advice = "`skillwire run` refuses until then; everything else works"
        yield DoctorCheck("sandbox", "note", f"scripts of skills cannot run here: {error}", advice)
    else:
        yield DoctorCheck("sandbox", "ok", f"scripts of skills run in bubblewrap; {how} holds their limits")


def _stored_files() -> Iterator[DoctorCheck]:
    from skillwire.host import state_paths

    places = state_paths()
    for name, path in {
        "configuration": places.config,
        "approvals": places.approvals,
        "trust": places.trusted,
        "cache": places.cache,
    }.items():
        yield from _stored(name, path)


def _stored(name: str, path: Path) -> Iterator[DoctorCheck]:
    """Whether a file or directory of ours can be used, and only by its user."""
    there = next(parent for parent in (path, *path.parents) if parent.exists())
    if there != path and not os.access(there, os.W_OK | os.X_OK):
        advice = f"make {there} writable; until then nothing of this kind is stored"
        yield DoctorCheck("stored files", "problem", f"{name}: {path} cannot be created", advice)
        return
    if there == path and not os.access(path, os.R_OK | os.W_OK):
        advice = f"give yourself access: chmod u+rw {path}"
        yield DoctorCheck("stored files", "problem", f"{name}: {path} cannot be read and written", advice)
        return
    if there == path and hasattr(os, "getuid"):
        status = path.stat()
        if status.st_uid != os.getuid():
            advice = f"change its owner, or delete it: chown {os.getuid()} {path}"
            yield DoctorCheck("stored files", "problem", f"{name}: {path} belongs to another user", advice)
            return
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            advice = f"remove that permission: chmod go-w {path}"
            yield DoctorCheck("stored files", "problem", f"{name}: other users can change {path}", advice)
            return
    yield DoctorCheck("stored files", "ok", f"{name}: {path}{'' if there == path else ' (not created yet)'}")


def _configuration() -> Iterator[DoctorCheck | HostConfig]:
    from skillwire.host import load_config

    try:
        shown = load_config(fill=False)
    except SkillwireError as error:
        yield DoctorCheck("configuration", "problem", str(error), "fix the file; the message names the place")
        return
    count = len(shown.configured)
    files = ", ".join(map(str, shown.files))
    there = (
        f"{count} server{'' if count == 1 else 's'} in {files}" if files else "there is no skillwire.toml yet"
    )
    yield DoctorCheck("configuration", "ok", there)
    for server in shown.untrusted:
        advice = "review and trust it: skillwire trust"
        message = f"server {server.label} of {server.file} is not started: the file is not trusted"
        yield DoctorCheck("configuration", "note", message, advice)
    try:
        filled = load_config()
        for problem in filled.problems:
            yield DoctorCheck("configuration", "problem", problem, "fix it in the file, or remove it")
        for server in filled.unusable:
            advice = f"do what it says, or run: skillwire servers disable {server.label}"
            yield DoctorCheck("configuration", "problem", f"server {server.label} {server.reason}", advice)
        yield filled
    except SkillwireError as error:
        advice = "set the variable in this shell, or remove the server"
        yield DoctorCheck("configuration", "problem", str(error), advice)


def _clients() -> Iterator[DoctorCheck]:
    from skillwire.cli.trust import found_servers

    found = found_servers()
    clients = sorted({client for server in found for client in server.clients})
    if not found:
        yield DoctorCheck("clients", "ok", "no other MCP client has servers configured")
        return
    yield DoctorCheck("clients", "ok", f"{len(found)} servers in {', '.join(clients)}")
    for server in found:
        if server.place is None:
            who = ", ".join(server.clients)
            advice = f"see {server.file}; the other servers are not affected"
            yield DoctorCheck(
                "clients", "note", f"{server.name} of {who} is skipped: {server.skipped}", advice
            )


def _approvals() -> Iterator[DoctorCheck]:
    import asyncio

    from skillwire.consent import ConsentStore
    from skillwire.host import state_paths

    store = ConsentStore(state_paths().approvals)
    asyncio.run(store.open())
    count = len(store.approved())
    if store.remark:
        advice = f"approve the skills again; the previous file is saved beside {state_paths().approvals}"
        yield DoctorCheck("approvals", "problem", store.remark, advice)
    yield DoctorCheck("approvals", "ok", f"{count} approved skill{'' if count == 1 else 's'}")


def _refused() -> Iterator[DoctorCheck]:
    """Skills that are installed or pinned, and that the policy refuses now, such as revoked ones."""
    from skillwire.clients import Scope
    from skillwire.host import PolicyFiles
    from skillwire.install import InstallRules, Workspace

    policy_files = PolicyFiles()
    if not policy_files.current().policy.given:
        return
    count = 0
    for scope in (Scope.PROJECT, Scope.USER):
        work = Workspace.open(scope)
        lock = work.read_lock()
        rules = InstallRules(work.places.project, policy_files=policy_files)
        for skill in lock.skills if lock is not None else ():
            if words := rules.locked_words(skill):
                count += 1
                name = f"{skill.name}{work.option}"
                advice = (
                    f"run `skillwire remove {name}`, or `skillwire update {name}` if its source has another"
                )
                yield DoctorCheck("policy", "problem", f"{skill.name} of {work.lock_file}: {words}", advice)
    yield from _revoked_approvals(policy_files.current().policy)
    if not count:
        yield DoctorCheck("policy", "ok", "the policy refuses nothing that is installed")


def _revoked_approvals(policy: Policy) -> Iterator[DoctorCheck]:
    """Approved skills, whose files may be cached, that are revoked. They are not loaded."""
    import asyncio

    from skillwire.consent import ConsentStore
    from skillwire.host import state_paths
    from skillwire.trust import AdmissionRequest, Denied, Purpose, admit

    store = ConsentStore(state_paths().approvals)
    asyncio.run(store.open())
    for record in store.approved():
        approval, entry = record.approval(), record.shown
        if approval is None or entry is None:
            continue
        candidate = AdmissionRequest(origin=approval.origin, entry=entry, policy=policy)
        decision = admit(candidate.before_scan, Purpose.INSTALL)
        if isinstance(decision, Denied) and decision.refusal and decision.refusal.rule == "revoked":
            advice = f"it is not loaded; run `skillwire revoke {approval.uri}` to take the approval back"
            message = f"{approval.uri} from {approval.origin} is approved: {decision.refusal.message}"
            yield DoctorCheck("policy", "note", message, advice)


def _servers(settings: HostConfig, timeout: float) -> Iterator[DoctorCheck]:
    from dataclasses import replace

    from skillwire.cli.host_options import HostOptions, with_host
    from skillwire.host import ConnectionStatus

    limited = {
        label: replace(server, connect_seconds=timeout, call_seconds=timeout)
        for label, server in settings.servers.items()
    }
    findings: list[DoctorCheck] = []

    async def action(host: SkillHost) -> None:
        for state in host.places.servers():
            count = sum(
                not skill.origin.is_local and skill.origin.label == state.label for skill in host.skills()
            )
            if state.status is ConnectionStatus.FAILED:
                advice = f"check {state.place}, or run: skillwire servers show {state.label}"
                findings.append(DoctorCheck("servers", "problem", f"{state.label}: {state.reason}", advice))
            elif not count:
                advice = "it may not support skills: `skillwire verify` says what it declares"
                findings.append(DoctorCheck("servers", "note", f"{state.label} has no skills", advice))
            else:
                skills = f"{count} skill{'' if count == 1 else 's'}"
                findings.append(
                    DoctorCheck("servers", "ok", f"{state.label}: {skills}, protocol {state.era}")
                )

    with_host(
        HostOptions(),
        action,
        settings=replace(settings, servers=limited, default_directories=False),
        failures=False,
        cached=False,  # Check the servers themselves, not a cached listing.
    )
    yield from findings
