"""A whole command line: the command, its values, and running it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from skillwire.cli.command import GLOBAL_OPTIONS, HELP_NAMES, Command, closest, read_words
from skillwire.cli.commands import commands_of, group_of, meant, names
from skillwire.errors import UsageError

COMPLETE: Final = "__complete"
_VERSION: Final = ("--version", "-V")
_LEADING: Final = tuple(name for option in GLOBAL_OPTIONS for name in option.names)
_SERVERS: Final = ("serve", "gateway")
"""The modules of commands that run for long: they search for garbage when they are ready, and as usual."""
_SELDOM: Final = 50_000


class CommandLine(NamedTuple):
    """The request: the words of one command, its help, or the version."""

    command: Command | None = None
    words: tuple[str, ...] = ()
    help_on: str = ""
    """The command or group whose help was requested; empty for the first screen."""
    in_full: bool = False
    """Whether everything was requested, with `help --all`."""
    version: bool = False
    completes: bool = False
    """Whether the words are those of a line that a shell completes."""

    @property
    def name(self) -> str:
        return self.command.name if self.command else ""


def parse_line(words: Sequence[str]) -> CommandLine:
    """Find the command that the words after `skillwire` name, or raise a `UsageError`."""
    leading = 0
    while leading < len(words) and words[leading] in _LEADING:
        leading += 1
    first, rest = (words[leading], list(words[leading + 1 :])) if leading < len(words) else ("", [])
    before = list(words[:leading])
    if first in _VERSION:
        return CommandLine(version=True)
    if first == COMPLETE:
        return CommandLine(words=tuple(rest), completes=True)
    if first == "help":
        in_full = "--all" in rest
        return CommandLine(help_on=_topic([word for word in rest if word != "--all"]), in_full=in_full)
    wants_help = any(word in HELP_NAMES for word in (*before, *_until_dashes(rest)))
    if not first:
        return CommandLine(help_on="")
    if first.startswith("-"):
        hint = closest(first, (*_LEADING, *_VERSION)) or "name a command first"
        raise UsageError(f"{first} is not an option of skillwire itself: {hint}")
    if first not in names():
        raise UsageError(_unknown(first, rest))
    command, rest = _find(first, rest, wants_help=wants_help)
    if command is None or wants_help:
        return CommandLine(help_on=command.name if command else first)
    return CommandLine(command=command, words=(*before, *rest))


def run_line(line: CommandLine) -> int:
    """Run the command, and return the exit code."""
    if line.version:
        from skillwire.cli.output import write
        from skillwire.version import VERSION

        write(f"skillwire {VERSION}")
        return 0
    if line.completes:
        from skillwire.cli.config import print_candidates

        print_candidates(line.words)
        return 0
    if line.command is None:
        from skillwire.cli.help import show_help

        show_help(line.help_on, in_full=line.in_full)
        return 0
    from skillwire.cli.output import set_verbosity

    values = read_words(line.command, line.words)
    set_verbosity(quiet=values.pop("quiet"), verbose=values.pop("verbose"))
    del values["wants_help"]
    if line.command.host:
        values = _with_host_options(values)
    module, _, function = line.command.run.partition(":")
    run: Callable[..., int | None] = getattr(import_module(f"skillwire.cli.{module}"), function)
    if module not in _SERVERS:
        # A command that ends soon creates little garbage, and a fifth of its time would go into the search.
        gc.set_threshold(_SELDOM, *gc.get_threshold()[1:])
        gc.enable()
    return run(**values) or 0


def _until_dashes(words: list[str]) -> list[str]:
    """The words before `--`: options after it belong to another command."""
    return words[: words.index("--")] if "--" in words else words


def _find(first: str, rest: list[str], *, wants_help: bool) -> tuple[Command | None, list[str]]:
    """The command, and the words after its name; `None` for a group whose help was requested."""
    commands = {command.name: command for command in commands_of(first)}
    group = group_of(first)
    if group is None:
        longer = commands.get(f"{first} {rest[0]}") if rest else None
        return (commands[first], rest) if longer is None else (longer, rest[1:])
    second = rest[0] if rest and not rest[0].startswith("-") else None
    if second is None:
        return (None if wants_help else commands[group.default]), rest
    command = commands.get(f"{first} {second}")
    if command is None:
        if right := meant(first, second):
            raise UsageError(f"there is no command {second!r}: write skillwire {right}", command=first)
        known = [name.partition(" ")[2] for name in commands]
        hint = closest(second, known) or f"choose from {', '.join(known)}"
        raise UsageError(f"there is no command {second!r}: {hint}", command=first)
    return command, rest[1:]


def _topic(words: list[str]) -> str:
    if not words:
        return ""
    if words[0] == "help":
        return ""
    if words[0] not in names():
        raise UsageError(_unknown(words[0], words[1:]))
    command, _ = _find(words[0], words[1:], wants_help=True)
    return command.name if command else words[0]


def _unknown(word: str, rest: Sequence[str]) -> str:
    if right := meant(word, *rest[:1]) or meant(word):
        return f"there is no command {word!r}: write skillwire {right}"
    hint = closest(word, (*names(), "help"))
    return f"there is no command {word!r}" + (f": {hint}" if hint else "")


def _with_host_options(values: dict[str, Any]) -> dict[str, Any]:
    from skillwire.cli.command import HOST_OPTIONS
    from skillwire.cli.host_options import HostOptions

    fields = {option.field for option in HOST_OPTIONS}
    shared = {name: value for name, value in values.items() if name in fields}
    if shared["policy"]:
        from skillwire.host.policies import set_policy_files

        set_policy_files(shared["policy"])
    return {
        **{name: value for name, value in values.items() if name not in fields},
        "options": HostOptions(**shared),
    }
