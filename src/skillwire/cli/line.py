"""A whole command line: the command, its values, running it, and help.

Help is generated from the tables of commands: complete at every width, in the order of the tables.
"""

from __future__ import annotations

import gc
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

from skillwire.cli.command import GLOBAL_OPTIONS, HOST_OPTIONS, Command, Option, closest, read_words
from skillwire.cli.commands import SECTIONS, commands_of, group_of, meant, names
from skillwire.cli.output import write
from skillwire.errors import UsageError

_NARROWEST: Final = 50
_WIDEST: Final = 100
_BESIDE: Final = 30
_BESIDE_WIDTH: Final = 36
_BELOW: Final = 4
_USAGE: Final = "Usage: "
TAGLINE: Final = "Publish Agent Skills over MCP, and use them safely from any MCP server."
_START: Final = (
    ("skillwire new skills/pdf", "write a skill"),
    ("skillwire serve skills", "offer a folder of skills to MCP clients"),
    ("skillwire servers import", "find the servers of your MCP clients"),
    ("skillwire list", "see the skills that you can use"),
)
_MORE: Final = (
    ("skillwire help --all", "every command, with a line about it"),
    ("skillwire COMMAND --help", "one command: options and examples"),
)


def show_help(topic: str, *, in_full: bool = False) -> None:
    """Print the help of a command or a group; with an empty topic, the first screen, or every command."""
    write(help_text(topic, width=_terminal_width(), in_full=in_full))


def help_text(topic: str, *, width: int, in_full: bool = False) -> str:
    """The help of a command or a group; with an empty topic, the first screen, or every command."""
    width = min(max(width, _NARROWEST), _WIDEST)
    if not topic:
        return "\n".join(_every_command(width) if in_full else _first_screen(width))
    word = topic.partition(" ")[0]
    command = next((one for one in commands_of(word) if one.name == topic), None)
    return "\n".join(_command(command, width, in_full=in_full) if command else _group(word, width))


def spelled(option: Option) -> str:
    """An option as help writes it: its spellings and its value."""
    names = [*reversed(option.names), *([option.off] if option.off else [])]
    return ", ".join(names) + (f" {option.metavar}" if option.metavar else "")


def explained(option: Option) -> str:
    """Return the help of an option, with its default."""
    if option.limit:
        from skillwire.limits import DEFAULT_LIMITS

        return f"{option.help} Default: {_number(getattr(DEFAULT_LIMITS, option.limit))}."
    if option.kind in ("choice", "integer", "number") and option.default is not None:
        spelling = {value: name for name, value in option.choices.items()}.get(option.default)
        return f"{option.help} Default: {spelling or _number(option.default)}."
    return f"{option.help} On by default." if option.off else option.help


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most this width; options, file names and comments with hyphens stay whole."""
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _usage(line: str, width: int) -> list[str]:
    first, *others = _wrapped(line, width - len(_USAGE))
    return [f"{_USAGE}{first}", *(" " * len(_USAGE) + other for other in others)]


def _first_screen(width: int) -> list[str]:
    """The first screen: the words by what people want to do, and where to start. It reads no table."""
    words = [(title.lower(), ", ".join(some)) for title, some in SECTIONS.items()]
    return [
        *_wrapped(TAGLINE, width),
        "",
        "Usage: skillwire COMMAND [OPTIONS] [ARGUMENTS]",
        "",
        *_columns(words, width),
        "",
        "Start with:",
        *_columns(_START, width),
        "",
        "Read more:",
        *_columns(_MORE, width),
    ]


def _every_command(width: int) -> list[str]:
    lines = [*_wrapped(TAGLINE, width), "", "Usage: skillwire COMMAND [OPTIONS] [ARGUMENTS]"]
    rows = {
        title: [(one.name, one.summary) for word in words for one in commands_of(word)]
        for title, words in SECTIONS.items()
    }
    column = max(len(name) for some in rows.values() for name, _ in some)
    for title, some in rows.items():
        lines += ["", f"{title}:", *_columns(some, width, column)]
    options = [(spelled(option), option.help) for option in GLOBAL_OPTIONS]
    return [
        *lines,
        "",
        "Options:",
        *_columns([*options, ("-V, --version", "Show the version and exit.")], width),
    ]


def _group(word: str, width: int) -> list[str]:
    group = group_of(word)
    summary = group.summary if group else ""
    commands = commands_of(word)
    usage = _usage(f"skillwire {word} COMMAND [OPTIONS] [ARGUMENTS]", width)
    lines = [f"{summary}.", "", *usage, "", "Commands:"]
    lines += _columns([(one.name, one.summary) for one in commands], width)
    if group:
        lines += ["", *_wrapped(f"`skillwire {word}` alone is `skillwire {group.default}`.", width)]
    lines += [
        "",
        "Examples:",
        *_columns([example for one in commands for example in one.examples[:1]], width),
    ]
    return [*lines, "", f"More: skillwire {commands[0].name} --help"]


def _command(command: Command, width: int, *, in_full: bool) -> list[str]:
    lines = [*_wrapped(f"{command.summary}.", width)]
    if command.about:
        lines += ["", *_wrapped(command.about, width)]
    lines += ["", *_usage(command.usage, width)]
    if command.arguments:
        rows = [(argument.metavar, argument.help) for argument in command.arguments]
        lines += ["", "Arguments:", *_columns(rows, width)]
    parts = {"Options": command.options, "Where skills come from": HOST_OPTIONS if command.host else ()}
    for title, options in (*parts.items(), ("General", GLOBAL_OPTIONS)):
        shown = [option for option in options if in_full or not option.seldom]
        if shown:
            rows = [(spelled(option), explained(option)) for option in shown]
            lines += ["", f"{title}:", *_columns(rows, width)]
    if command.examples:
        lines += ["", "Examples:", *_columns(command.examples, width)]
    if not in_full and any(option.seldom for option in command.options):
        lines += ["", f"More: skillwire help {command.name} --all"]
    return lines


def _columns(rows: Iterable[tuple[str, str]], width: int, column: int | None = None) -> list[str]:
    """Two columns; beside a left one that is too wide, the right one starts a line below."""
    rows = list(rows)
    fitting = [len(left) for left, _ in rows if len(left) <= _BESIDE]
    column = column or max(fitting, default=_BESIDE // 2)
    if width - column < _BESIDE_WIDTH:
        column = _BELOW
    lines: list[str] = []
    for left, right in rows:
        if not right:
            lines.append(f"  {left}")
            continue
        wrapped = _wrapped(right, width - column - 4)
        if len(left) <= column:
            first, *wrapped = wrapped
            lines.append(f"  {left:<{column}}  {first}")
        else:
            lines += _choices(left, width)
        lines += [" " * (column + 4) + line for line in wrapped]
    return lines


def _choices(option: str, width: int) -> list[str]:
    """An option on lines of its own. If its choices do not fit into one, each line ends after one of them."""
    lines = ["  "]
    for part in option.split("|"):
        if len(lines[-1]) + len(part) >= width and len(lines[-1]) > 2:
            lines.append(" " * (option.index(" ") + 3) if " " in option else "  ")
        lines[-1] += f"{part}|"
    lines[-1] = lines[-1].removesuffix("|")
    return lines


def _terminal_width() -> int:
    """The width of the terminal; 80 where there is none. `shutil` knows it too, but imports a lot."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns if sys.__stdout__ else 80
    except (OSError, ValueError):
        return 80


def _number(value: object) -> str:
    return (
        f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
    )


COMPLETE: Final = "__complete"
_VERSION: Final = ("--version", "-V")
_HELP: Final = GLOBAL_OPTIONS[-1].names
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
    wants_help = any(word in _HELP for word in (*before, *_until_dashes(rest)))
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
    from skillwire.cli.host_options import HostOptions

    fields = {option.field for option in HOST_OPTIONS}
    shared = {name: value for name, value in values.items() if name in fields}
    return {
        **{name: value for name, value in values.items() if name not in fields},
        "options": HostOptions(**shared),
    }
