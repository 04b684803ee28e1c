"""`skillwire servers show`: one server: what it declares, its protocol, its skills and its problems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.errors import SkillNotFound, SourceError

if TYPE_CHECKING:
    from skillwire.catalog.registry import SkillKey
    from skillwire.cli.screen import Screen
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host.config.configured import ConfiguredServer, HostConfig
    from skillwire.host.host import SkillHost
    from skillwire.host.state import ServerState
    from skillwire.host.templates import ServedTemplate

_FILES_SHOWN: Final = 20


def show_server(*, name: str, options: HostOptions, as_json: bool) -> int:
    """Connect to one server and show all that is known about it; fail if it cannot be reached."""
    from skillwire.cli.screen import Screen, show_json
    from skillwire.cli.skill_view import SkillRow
    from skillwire.host.state import Status

    settings = options.settings()
    labels = [*(one.label for one in settings.configured), *settings.servers]
    label = next((one for one in labels if one.casefold() == name.casefold()), name)
    configured = next((one for one in settings.configured if one.label == label), None)
    _refuse_unused(settings, configured, label)

    async def action(host: SkillHost) -> bool:
        (state,) = host.admin.servers()
        rows = [
            SkillRow(skill, host.admin.status(skill))
            for skill in host.skills(disabled=True)
            if not skill.origin.is_local
        ]
        events = (*host.log.failures(), *host.log.left_out())
        page = _Page(
            state=state,
            configured=configured,
            rows=rows,
            templates=host.admin.templates(),
            files={row.skill.key: host.admin.files(row.skill) for row in rows},
            problems=[one.message for one in events if one.origin == state.origin],
        )
        if as_json:
            show_json({"server": page.document()})
        else:
            page.show(Screen())
        return state.status is Status.FAILED

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
    from skillwire.cli.output import printable

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
    """What is shown of one server; `files` are the supporting files of its skills."""

    state: ServerState
    configured: ConfiguredServer | None
    rows: list[SkillRow]
    templates: tuple[ServedTemplate, ...]
    files: Mapping[SkillKey, tuple[str, ...]]
    problems: list[str]

    def document(self) -> dict[str, object]:
        """As JSON; fields may be added, none changes its meaning."""
        from skillwire.cli.skill_view import server_json, skill_json
        from skillwire.cli.template_view import template_json

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
        from skillwire.cli.output import counted, printable
        from skillwire.cli.screen import cut, padded
        from skillwire.cli.template_view import show_templates
        from skillwire.trust.paths import shown_path

        state = self.state
        screen.line((state.label, "bold"))
        screen.pairs(
            [
                ("where", state.place),
                ("file", printable(str(self.configured.file)) if self.configured else ""),
                ("approval", state.policy.value),
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
