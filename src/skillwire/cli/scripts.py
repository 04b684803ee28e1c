"""`skillwire run`: a script of a skill, in the sandbox."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.parser import UsageError
from skillwire.errors import ApprovalRequired, LimitExceeded, SourceError

if TYPE_CHECKING:
    from skillwire.catalog import HostSkill
    from skillwire.host import ScriptRequest, SkillHost
    from skillwire.sandbox import SandboxPlan
    from skillwire.trust import VerifiedFile

_NO_NETWORK: Final = re.compile(
    r"Name or service not known|name resolution|ENOTFOUND|EAI_AGAIN|Could not resolve|Network is unreachable"
)
_GIVES: Final = {
    "read": "to read",
    "write": "to read and change",
    "net": "to reach over the network",
    "env": "to know this variable of yours",
    "exec": "to start this program",
}


def run(
    *,
    script: str,
    arguments: tuple[str, ...],
    grant: tuple[str, ...],
    explain: bool,
    interpreter: str | None,
    max_seconds: float | None,
    max_memory: int | None,
    max_processes: int | None,
    max_disk: int | None,
    max_output: int | None,
    audit: Path | None,
    unsafe_no_sandbox: bool,
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> int:
    """Run a script of an approved skill, and return its exit code."""
    from dataclasses import replace

    from skillwire.cli.ask import terminal_callback
    from skillwire.cli.output import error, info, verbosity, write_bytes
    from skillwire.cli.screen import Screen, show_json
    from skillwire.consent import require_person
    from skillwire.host import ScriptRunner
    from skillwire.host.scripts import describe, result_json
    from skillwire.limits import DEFAULT_LIMITS

    if "/" not in script.strip("/"):
        raise UsageError(f"{script}: name the script too, as in {script}/scripts/NAME.py")
    if unsafe_no_sandbox:
        require_person("running a script without a sandbox", page=False)
    given = {
        "script_seconds": max_seconds,
        "script_memory_bytes": max_memory,
        "script_processes": max_processes,
        "script_disk_bytes": max_disk,
        "script_output_bytes": max_output,
    }
    limits = replace(DEFAULT_LIMITS, **{name: value for name, value in given.items() if value is not None})
    runner = ScriptRunner(folder=Path.cwd(), ask=None if terminal_callback() is None else ask_script)

    def show_command(command: Sequence[str]) -> None:
        if verbosity() > 0:
            import shlex

            info(shlex.join(command))

    log = None if audit is None or explain else _AuditFile(audit)

    async def action(host: SkillHost) -> int:
        name, path = _split(host, script)
        how: dict[str, Any] = {
            "grants": grant,
            "interpreter": interpreter or "",
            "server": on,
            "limits": limits,
        }
        if explain or unsafe_no_sandbox:
            plan, files, skill = await host.scripts.plan(
                name, path, arguments, ask=False, sandboxed=not unsafe_no_sandbox, **how
            )
            if unsafe_no_sandbox:
                code = await _run_bare(host, plan, files, f"{skill.handle}/{path}")
                if log is not None:
                    log.write(skill, script=path, how="WITHOUT a sandbox", exit_code=code)
                return code
            rows = plan.explanation()
            if as_json:
                show_json(
                    {
                        "script": f"{skill.handle}/{path}",
                        "grants": [str(one) for one in plan.grants],
                        "gets": rows,
                    }
                )
            else:
                Screen().pairs(rows)
            return 0
        result = await host.scripts.run(name, path, arguments, on_command=show_command, **how)
        outcome = result.outcome
        if log is not None:
            log.write(result.skill, **result.audit_fields())
        if as_json:
            show_json(result_json(result))
        else:
            write_bytes(outcome.stdout.encode())
            sys.stderr.write(outcome.stderr)
            sys.stderr.flush()
        for refused in outcome.refused_hosts:
            info(f"It may not reach {refused}: --grant net:{refused} asks for that.")
        if outcome.exit_code and not result.has_network and _NO_NETWORK.search(outcome.stderr):
            info("It has no network: --grant net:HOST asks for a host.")
        if outcome.ended:
            error(describe(result), command="run")
            return LimitExceeded.exit_code
        return outcome.exit_code

    return with_host(options, action, ask=terminal_callback(), runner=runner, name=_name(script), on=on)


class _AuditFile:
    """The file of `--audit`, which can be written before anything runs."""

    def __init__(self, path: Path) -> None:
        from skillwire.gateway import AuditLog

        self._log = AuditLog(path)

    def write(self, skill: HostSkill, **details: object) -> None:
        """Append a line about a run; it is in the file afterwards."""
        import getpass

        from skillwire.trust import shown_digest

        digest = shown_digest(skill.entry)
        origin = skill.origin.label
        self._log.write(
            "run", caller=getpass.getuser(), origin=origin, skill=skill.uri, set=digest, **details
        )
        self._log.close()
        if self._log.problem:
            raise SourceError(self._log.problem)


def _split(host: SkillHost, target: str) -> tuple[str, str]:
    """The skill and the script of `NAME/PATH`: the longest known name counts, as names may have slashes."""
    parts = target.split("/")
    known = {name for skill in host.skills() for name in (skill.handle, skill.uri.removesuffix("/SKILL.md"))}
    for count in range(len(parts) - 1, 0, -1):
        if (name := "/".join(parts[:count])) in known:
            found = next((one for one in host.skills() if one.uri == f"{name}/SKILL.md"), None)
            return (found.handle if found is not None else name), "/".join(parts[count:])
    return parts[0], "/".join(parts[1:])


def _name(target: str) -> str:
    """The skill that a target may be about, to connect to no more servers than needed."""
    return "" if "://" in target else target.partition("/")[0]


async def ask_script(request: ScriptRequest) -> bool:
    """Show what a script asks for on the terminal, and read the answer there. Anything but yes is a no."""
    from skillwire.cli.ask import answer, person_screen
    from skillwire.cli.output import printable
    from skillwire.cli.screen import origin_words

    screen = person_screen()
    what = f"{printable(request.script)} of {request.skill.handle}"
    if request.packages:
        screen.line((what, "bold"), f" from {origin_words(request.skill.origin)} lists packages.")
        screen.pairs([("installs", printable(one)) for one in request.packages])
        screen.line("  They come from the package index as wheels, into a folder of their own.")
        return await answer(screen, "Install them?", "[y]es, or anything else for [N]o") in ("y", "yes")
    asks = "asks to run in the sandbox" if request.is_first else "newly asks for more"
    screen.line((what, "bold"), f" from {origin_words(request.skill.origin)} {asks}.")
    shown = request.grants if request.is_first else request.new
    screen.pairs(
        [
            *((str(one.kind), f"{printable(one.value)}, {_GIVES[one.kind]}") for one in shown),
            ("always", "the files of its skill to read, a scratch folder, and nothing else of this machine"),
            ("digest", request.digest),
        ]
    )
    return await answer(screen, "Allow it?", "[y]es, until the skill changes, or anything else for [N]o") in (
        "y",
        "yes",
    )


async def _run_bare(host: SkillHost, plan: SandboxPlan, files: Sequence[VerifiedFile], what: str) -> int:
    """Run a script as a process of the user, which a person agreed to on their terminal just now."""
    import anyio.to_thread

    from skillwire.cli.ask import answer, person_screen, person_terminal
    from skillwire.consent import NO_TERMINAL
    from skillwire.sandbox.bubblewrap import unsafe_run_bare

    if person_terminal() is None:
        raise ApprovalRequired(f"nothing was run: {NO_TERMINAL}", reason="denied", origin="", uri="")
    screen = person_screen()
    screen.line((what, "bold"), " would run WITHOUT a sandbox, with all of your files, keys and network.")
    if await answer(screen, "Run it?", "type `unsafe` to do so, or anything else for no") != "unsafe":
        raise ApprovalRequired(f"{what} was not run", reason="denied", origin="", uri="")
    host.scripts.note_unsafe(what)
    return await anyio.to_thread.run_sync(unsafe_run_bare, plan, files)
