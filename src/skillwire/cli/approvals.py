"""`skillwire approve` and `skillwire revoke`: the user's word on a skill."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.errors import SourceError

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost


def approve(
    *,
    name: str,
    allow_tools: bool,
    allow_code: bool,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Approve a skill of a server, as it is now. Any change of its files takes the approval back."""
    from skillwire.cli.output import counted, printable
    from skillwire.cli.screen import Screen, origin_words, show_json
    from skillwire.cli.skill_view import SkillRow, skill_json
    from skillwire.trust.approval import Grants
    from skillwire.trust.guards import requested_tools

    async def action(host: SkillHost) -> None:
        skill = await host.find(name, server=on)
        if skill.origin.is_local:
            raise SourceError(f"{skill.handle} is one of your own files: it needs no approval")
        grants = Grants(allowed_tools=allow_tools, execute_code=allow_code)
        approval = await host.admin.approve(skill, grants=grants)
        if as_json:
            show_json(skill_json(SkillRow(skill, host.admin.status(skill))))
            return
        screen = Screen()
        files = counted(len(approval.resources), "file")
        screen.line(
            ("Approved ", "green"), f"{skill.handle} from {origin_words(skill.origin)} as it is now, {files}."
        )
        asked = requested_tools(skill.entry.frontmatter.get("allowed-tools"))
        if asked and not allow_tools:
            tools = printable(" ".join(asked))
            screen.wrapped(f"It asks for tools, which are not granted: {tools} (--allow-tools grants them)")

    with_host(options, action, name=name, on=on)


def revoke(
    *,
    name: str,
    as_json: bool,
) -> None:
    """Take an approval back. No server is asked for that."""
    import asyncio

    from skillwire.catalog.naming import SPEC_NAMING, SkillKey
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, origin_words, show_json
    from skillwire.errors import AmbiguousName, SkillNotFound
    from skillwire.host.approvals.store import ApprovalStore
    from skillwire.host.directories import state_places

    store = ApprovalStore(state_places().approvals)
    asyncio.run(store.open())
    found = {
        SkillKey(stored.approval.origin, stored.approval.uri): stored.entry
        for stored in store.all()
        if name == stored.approval.uri
        or name in SPEC_NAMING.handles(SkillKey(stored.approval.origin, stored.approval.uri), stored.entry)
    }
    if not found:
        raise SkillNotFound(
            f"no skill called {printable(name)} is approved: `skillwire list` shows which are"
        )
    if len(found) > 1:
        raise AmbiguousName(
            printable(name), [SPEC_NAMING.handles(key, entry)[1] for key, entry in found.items()]
        )
    [(key, _)] = found.items()
    asyncio.run(store.remove(key.origin, key.uri))
    if as_json:
        show_json({"revoked": {"server": key.origin.label, "uri": key.uri}})
        return
    Screen().line(f"{printable(key.uri)} from {origin_words(key.origin)} is no longer approved.")
