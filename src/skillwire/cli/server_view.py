"""Output of `servers list`, `show` and `import`. It never contains a secret of a server."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from skillwire.cli.host_options import HostOptions, file_above, with_host
from skillwire.cli.output import Screen, counted, padded, printable, show_json
from skillwire.cli.trust import HINT
from skillwire.errors import SkillNotFound, SourceError

if TYPE_CHECKING:
    from skillwire.catalog import SkillKey
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host import (
        ClientFile,
        ConfiguredServer,
        FoundServer,
        HostConfig,
        ServedTemplate,
        ServerAddress,
        ServerState,
        SkillHost,
    )

_FILES_SHOWN: Final = 20


def show_servers(
    settings: HostConfig,
    logins: Container[str],
    states: Mapping[str, ServerState] | None = None,
    counts: Mapping[str, int] | None = None,
    *,
    as_json: bool,
) -> None:
    """The configured servers, and those among them that the user is signed in to.

    With `states`, the status of each.
    """
    states, counts = states or {}, counts or {}
    if as_json:
        show_json({"servers": [_json(server, logins, states, counts) for server in settings.configured]})
        return
    screen = Screen()
    if not settings.configured:
        screen.wrapped(
            "No servers yet. Add one with `skillwire servers add NAME URL`, or see what your other clients "
            "have with `skillwire servers import`."
        )
        if above := file_above():
            screen.wrapped(above)
        return
    rows = [("NAME", "WHERE", "APPROVAL", "STATUS")]
    for server in settings.configured:
        status = _status(server, states, counts, {one.label: one.reason for one in settings.unusable})
        parts = [*(["signed in"] if server.label in logins else []), *([status] if status else [])]
        rows.append((server.label, server.place.shown, server.approval_mode.value, ", ".join(parts)))
    screen.table(rows)
    if settings.untrusted:
        screen.line()
        screen.line(HINT)


def show_import(
    found: Sequence[FoundServer],
    new: Sequence[FoundServer],
    known: Mapping[str, str],
    file: Path,
    searched: Sequence[ClientFile],
    *,
    written: bool,
    as_json: bool,
) -> None:
    """Print what was found, what is or would be written, what is left out, and which restrictions are kept.

    `known` has our names for servers that are already configured, `searched` the files that were read.
    """
    if as_json:
        show_json(
            {
                "file": str(file),
                "written": written and bool(new),
                "servers": [
                    {
                        "label": server.label,
                        "name": server.name,
                        "clients": list(server.clients),
                        "file": str(server.file),
                        "place": server.place.shown if server.place else None,
                        "new": server in new,
                        "known_as": known.get(server.label),
                        "also": list(server.also),
                        "skipped": server.skipped or None,
                        "switches": list(server.switches),
                        "login": server.login or None,
                    }
                    for server in found
                ],
                "searched": [
                    {"client": one.client, "path": str(one.path), "exists": one.path.exists()}
                    for one in searched
                ],
            }
        )
        return
    screen = Screen()
    if not found:
        screen.line("No servers were found in the configuration of other MCP clients.")
        _show_searched(screen, searched)
        return
    widest = max(cell_len(server.label) for server in found)
    for server in found:
        who = f"{', '.join(server.clients)}, {printable(str(server.file))}"
        if server.place is None:
            screen.line(("skip  ", "yellow"), padded(server.label, widest), f"  {printable(server.skipped)}")
        elif server in new:
            screen.line(("new   ", "green"), padded(server.label, widest), f"  {_outline(server.place)}")
        else:
            name = known.get(server.label, server.label)
            own = f", here as {name}" if name != server.label else ""
            screen.line(("known ", "dim"), padded(server.label, widest), f"  {server.place.shown}{own}")
        margin = " " * (widest + 8)
        if server.also:
            screen.line(margin, f"also called {printable(', '.join(server.also))}")
        for switch in server.switches if server.place is not None else ():
            screen.hanging(f"{margin}as in that client: ", printable(switch))
        if server.login:
            screen.line(margin, "it requires a login: ", (printable(server.login), "bold"))
        screen.line(margin, (who, "dim"))
    screen.line()
    if not new:
        screen.line("There is nothing to add.")
    elif written:
        screen.line(f"Wrote {counted(len(new), 'server')} to {printable(str(file))}.")
    else:
        screen.line(f"--write would add {counted(len(new), 'server')} to {printable(str(file))}.")


def _show_searched(screen: Screen, searched: Sequence[ClientFile]) -> None:
    """The files that were searched, by client."""
    screen.line("Looked at:")
    clients = dict.fromkeys(file.client for file in searched)
    screen.pairs(
        (client, ", ".join(_short(file.path) for file in searched if file.client == client))
        for client in clients
    )


def _short(path: Path) -> str:
    """A path as people write it: from the working directory, or from home."""
    for root, start in ((Path.cwd(), ""), (Path.home(), "~/")):
        if path.is_relative_to(root):
            return printable(f"{start}{path.relative_to(root)}")
    return printable(str(path))


def _outline(place: ServerAddress) -> str:
    """Return the entry that would be written, without values: any of them may be a secret."""
    parts = [place.shown]
    if len(place.command) > 1:
        parts.append(counted(len(place.command) - 1, "argument"))
    for noun, names in (("env", place.env), ("headers", place.headers)):
        if names:
            parts.append(f"{noun} {printable(' '.join(names))}")
    if place.token_env:
        parts.append(f"token from {printable(place.token_env)}")
    return ", ".join(parts)


def _status(
    server: ConfiguredServer,
    states: Mapping[str, ServerState],
    counts: Mapping[str, int],
    unusable: Mapping[str, str],
) -> str:
    if not server.skills:
        return "off (skills = false)"
    if not server.used:
        return "not in this profile"
    if not server.trusted:
        return "not trusted"
    if server.label in unusable:
        return printable(unusable[server.label])
    state = states.get(server.label)
    if state is None:
        return "not checked (--check connects)"
    if state.reason:
        return f"{state.status.value}: {printable(state.reason)}"
    told = ", ".join(dialect.meaning for dialect in state.dialects)
    skills = counted(counts.get(server.label, 0), "skill")
    return f"{state.status.value}, {skills}{f', {told}' if told else ''}, protocol {state.era}"


def _json(
    server: ConfiguredServer,
    logins: Container[str],
    states: Mapping[str, ServerState],
    counts: Mapping[str, int],
) -> dict[str, object]:
    state = states.get(server.label)
    return {
        "label": server.label,
        "place": server.place.shown,
        "file": str(server.file),
        "approval": server.approval_mode.value,
        "skills": server.skills,
        "used": server.used,
        "trusted": server.trusted,
        "login": server.label in logins,
        "status": state.status.value if state else None,
        "reason": (state.reason or None) if state else None,
        "protocol": (state.era or None) if state else None,
        "era": (state.era or None) if state else None,
        "dialects": [dialect.value for dialect in state.dialects] if state else None,
        "skill_count": counts.get(server.label) if state else None,
    }


def show_server(*, name: str, options: HostOptions, as_json: bool) -> int:
    """Connect to one server and show all that is known about it; fail if it cannot be reached."""
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host import ConnectionStatus

    settings = options.settings()
    labels = [*(one.label for one in settings.configured), *settings.servers]
    label = next((one for one in labels if one.casefold() == name.casefold()), name)
    configured = next((one for one in settings.configured if one.label == label), None)
    _refuse_unused(settings, configured, label)

    async def action(host: SkillHost) -> bool:
        (state,) = host.places.servers()
        rows = [
            SkillRow(skill, host.decide.status(skill))
            for skill in host.skills(disabled=True)
            if not skill.origin.is_local
        ]
        events = (*host.log.failures(), *host.log.left_out())
        page = _Page(
            state=state,
            configured=configured,
            rows=rows,
            templates=host.places.templates(),
            files={row.skill.key: host.files.paths(row.skill) for row in rows},
            problems=[one.message for one in events if one.origin == state.origin],
        )
        if as_json:
            show_json({"server": page.document()})
        else:
            page.show(Screen())
        return state.status is ConnectionStatus.FAILED

    failed = with_host(
        replace(options, directories=()),
        action,
        settings=replace(
            settings,
            servers={label: settings.servers[label]},
            directories=(),
            project_directories=(),
            default_directories=False,
            untrusted=(),
            unusable=(),
        ),
        failures=False,
        cached=False,
    )
    return SourceError.exit_code if failed else 0


def _refuse_unused(settings: HostConfig, configured: ConfiguredServer | None, label: str) -> None:
    """Raise an error if a server is not used, with the reason."""

    if label in settings.servers:
        return
    if configured is None:
        known = ", ".join([*(one.label for one in settings.configured), *settings.servers]) or "none"
        raise SkillNotFound(f"no server is called {printable(label)}; known: {known}")
    for left in settings.skipped:
        if left.label == label:
            raise SourceError(f"{label} {left.reason}")
    reason = "skills = false" if not configured.skills else "it is not in this profile"
    raise SourceError(f"{label} is not used: {reason}; change that in {configured.file}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    """The page of one server; `files` are the supporting files of its skills."""

    state: ServerState
    configured: ConfiguredServer | None
    rows: list[SkillRow]
    templates: tuple[ServedTemplate, ...]
    files: Mapping[SkillKey, tuple[str, ...]]
    problems: list[str]

    def document(self) -> dict[str, object]:
        """As JSON; fields may be added, none changes its meaning."""
        from skillwire.cli.skill_view import server_json, skill_json, template_json

        state = self.state
        return {
            **server_json(state),
            "file": str(self.configured.file) if self.configured else None,
            "declared_in": state.declared_in or None,
            "directory_read": state.directory_read,
            "capabilities": list(state.capabilities),
            "revisions": list(state.revisions),
            "explanation": state.explanation or None,
            "skills": [
                {**skill_json(row), "supporting_files": list(self.files[row.skill.key])} for row in self.rows
            ],
            "templates": [template_json(one) for one in self.templates],
            "problems": self.problems,
        }

    def show(self, screen: Screen) -> None:
        """For a person."""
        from skillwire.cli.output import cut
        from skillwire.cli.skill_view import show_templates
        from skillwire.trust import shown_path

        state = self.state
        screen.line((state.label, "bold"))
        screen.pairs(
            [
                ("where", state.place),
                ("file", printable(str(self.configured.file)) if self.configured else ""),
                ("approval", state.approval_mode.value),
                ("status", state.status.value + (f": {printable(state.reason)}" if state.reason else "")),
                ("protocol", _protocol(state)),
                ("declares", _declaration(state)),
                ("offers", printable(", ".join(state.capabilities))),
                ("dialect", ", ".join(one.meaning for one in state.dialects)),
                ("because", state.explanation),
            ]
        )
        screen.line()
        screen.line(("Skills", "bold"), f"  {counted(len(self.rows), 'skill')}")
        widest = max((len(row.skill.handle) for row in self.rows), default=0)
        for row in self.rows:
            said = cut(row.skill.entry.description, max(screen.width - widest - len(row.remarks) - 8, 20))
            screen.line("  ", (padded(row.skill.handle, widest), "bold"), f"  {row.remarks}  {said}".rstrip())
            files = self.files[row.skill.key]
            for path in files[:_FILES_SHOWN]:
                screen.line("    ", (shown_path(path), "dim"))
            if len(files) > _FILES_SHOWN:
                screen.line("    ", (f"and {counted(len(files) - _FILES_SHOWN, 'more file')}", "dim"))
        if self.templates:
            screen.line()
            show_templates(screen, self.templates)
        if self.problems:
            screen.line()
            screen.line(("Problems", "bold"), f"  {len(self.problems)}")
            for problem in self.problems:
                screen.wrapped(printable(problem), indent=2, style="yellow")


def _protocol(state: ServerState) -> str:
    others = ", ".join(revision for revision in state.revisions if revision != state.era)
    return f"{state.era} (it also supports {others})" if others else state.era


def _declaration(state: ServerState) -> str:
    if state.status != "ready":
        return ""
    if not state.declares_skills:
        return "no skills extension"
    reads = ", with directory reads" if state.directory_read else ""
    return f"the skills extension, under {state.declared_in}{reads}"
