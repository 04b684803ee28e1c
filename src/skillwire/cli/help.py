"""Help, generated from the tables of commands: complete at every width, in the order of the tables."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable
from typing import Final

from skillwire.cli.command import GLOBAL_OPTIONS, HOST_OPTIONS, Command, Option
from skillwire.cli.commands import SECTIONS, commands_of, group_of
from skillwire.cli.output import write

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
