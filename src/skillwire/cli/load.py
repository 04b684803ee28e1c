"""`skillwire load` and `skillwire read`: what a model would get, printed."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from skillwire.cli.host_options import HostOptions, with_host
from skillwire.cli.parser import UsageError
from skillwire.cli.skills import file_of, template_values
from skillwire.errors import ApprovalRequired, SourceError

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.host.loaded import LoadedSkill


def load(
    *,
    name: str,
    value: tuple[str, ...],
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Load a skill and print exactly what a model would get.

    On a terminal you are asked about a skill that you have not approved. Otherwise the command exits with 7.
    """
    from skillwire.cli.output import write
    from skillwire.cli.screen import show_json

    values = template_values(value)

    async def action(host: SkillHost) -> None:
        loaded = await _load(host, name, values, on, options)
        if as_json:
            show_json({**_loaded_json(loaded), "text": loaded.text})
        else:
            write(loaded.text)

    _with_person(options, action, name, on)


def read(
    *,
    name: str,
    path: str,
    raw: bool,
    output: Path | None,
    value: tuple[str, ...],
    on: str | None,
    options: HostOptions,
    as_json: bool,
) -> None:
    """Read a file of a skill as a model would get it, or its verified bytes."""
    from skillwire.cli.output import info, write, write_bytes
    from skillwire.cli.screen import show_json

    if output is not None and not raw:
        raise UsageError("--output needs --raw")
    if raw and as_json:
        raise UsageError("--raw and --json exclude each other: leave out one")
    if raw and output is None and sys.stdout.isatty():
        raise UsageError("--raw could send control characters to your terminal: add -o FILE")
    values = template_values(value)

    async def action(host: SkillHost) -> None:
        loaded = await _load(host, name, values, on, options)
        handle = loaded.skill.handle
        if not raw:
            shown = await file_of(loaded.skill, path, host.read(handle, path))
            if as_json:
                show_json({**_loaded_json(loaded), "path": path, "text": shown})
            else:
                write(shown)
            return
        file = await file_of(loaded.skill, path, host.read_bytes(handle, path))
        if output is None:
            write_bytes(file.data)
            return
        try:
            with output.open("xb") as stream:
                stream.write(file.data)
        except FileExistsError:
            raise SourceError(f"{output} already exists: give another name, or delete it") from None
        except OSError as error:
            raise SourceError(f"{output} cannot be written: {error.strerror}") from None
        info(f"Wrote {len(file.data):,} bytes, {file.digest}, to {output}")

    _with_person(options, action, name, on)


def _with_person(
    options: HostOptions, action: Callable[[SkillHost], Awaitable[None]], name: str, on: str | None
) -> None:
    from skillwire.cli.ask import terminal_callback

    with_host(options, action, ask=terminal_callback(), name=name, on=on)


async def _load(
    host: SkillHost, name: str, values: dict[str, str] | None, on: str | None, options: HostOptions
) -> LoadedSkill:
    """Load a skill; if the user cannot be asked, the error names the command to run."""
    from skillwire.cli.ask import terminal_callback

    try:
        return await host.load(name, server=on, values=values)
    except ApprovalRequired as error:
        if error.reason == "denied" or terminal_callback() is not None:
            raise
        # The skill of a template is known by its URI.
        name = f"{error.uri} --on {error.origin}" if values else name
        also = options.style_words
        raise ApprovalRequired(
            f"{error} with `skillwire show {name}{also}`, which prints the `skillwire approve` line to run",
            reason=error.reason,
            origin=error.origin,
            uri=error.uri,
            added=error.added,
            changed=error.changed,
            removed=error.removed,
        ) from None


def _loaded_json(loaded: LoadedSkill) -> dict[str, object]:
    skill = loaded.skill
    return {
        "handle": skill.handle,
        "origin": {"kind": skill.origin.kind.value, "label": skill.origin.label},
        "uri": skill.uri,
        "grants": {
            "allowed_tools": loaded.grants.allowed_tools,
            "execute_code": loaded.grants.execute_code,
        },
    }
