"""docs/commands.md, made from the tables: `python -m tools.commands > docs/commands.md`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from skillwire.cli.command import GLOBAL_OPTIONS, HOST_OPTIONS, Command, Option
from skillwire.cli.commands import SECTIONS, commands_of, group_of
from skillwire.cli.line import explained, spelled

EXIT_CODES: Final = {
    0: "Success. For `lint`: no errors. For `verify`: the server conforms. For `list` without "
    "`--fail-on-error`: some servers may have failed; they are named.",
    1: "`lint` found errors, or `verify` found violations.",
    2: "The command line is wrong, or `verify` could not check the server.",
    3: "A skill, an entry, a URI or a configuration file is malformed.",
    4: "A server, a directory, a file or an address cannot be used, or the output cannot be written.",
    5: "Something exceeds the limits.",
    6: "What a server sent does not match what it listed. It is not used.",
    7: "The skill must be approved as it is now.",
    8: "There is no skill or file of that name, or the name is ambiguous; the message lists the candidates.",
    10: "Installed skills differ from the lock file, or a source has a newer version.",
    11: "Some skills were installed or published and others were not; each is named.",
    12: "A policy, or a permission that was not granted, keeps a skill from being installed.",
    13: "`publish`: this version exists with other files, or was withdrawn.",
    14: "`run`: this machine has no sandbox, and the script was not run. Otherwise its code is the script's.",
    15: "The policy of the machine, the organization, the user or the project refuses a skill.",
    130: "Interrupted with Ctrl-C.",
    141: "The output was closed early, as `| head` does.",
}


def reference_page() -> str:
    """The page as it should be, in Markdown."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Commands"
    yield ""
    yield "<!-- Made by `python -m tools.commands > docs/commands.md`. Do not edit. -->"
    yield ""
    yield "`skillwire help COMMAND` prints the same on a terminal. `python -m skillwire` works as well."
    for title, words in SECTIONS.items():
        yield ""
        yield f"## {title}"
        for word in words:
            yield from _word(word)
    yield from _shared(
        "Where skills come from", "All commands that use skills have these options.", HOST_OPTIONS
    )
    yield from _shared("General options", "All commands have these options.", GLOBAL_OPTIONS)
    yield "`skillwire --version` or `-V` prints the version."
    yield ""
    yield "## Exit codes"
    yield ""
    yield "| Code | Meaning |"
    yield "|---|---|"
    for code, meaning in EXIT_CODES.items():
        yield f"| {code} | {meaning} |"


def _word(word: str) -> Iterator[str]:
    group = group_of(word)
    if group is not None:
        yield ""
        yield f"### skillwire {word}"
        yield ""
        yield f"{group.summary}. `skillwire {word}` alone is `skillwire {group.default}`."
    for command in commands_of(word):
        yield from _command(command, "###" if group is None else "####")


def _command(command: Command, level: str) -> Iterator[str]:
    yield ""
    yield f"{level} skillwire {command.name}"
    yield ""
    yield f"{command.summary}." + (f" {command.about}" if command.about else "")
    yield ""
    yield "```text"
    yield command.usage
    yield "```"
    if command.arguments:
        yield ""
        yield "| Argument | |"
        yield "|---|---|"
        for argument in command.arguments:
            yield f"| `{_cell(argument.metavar)}` | {_cell(argument.help)} |"
    if command.options:
        yield ""
        yield from _table(command.options)
    if command.host:
        yield ""
        yield "And the options for [where skills come from](#where-skills-come-from)."
    yield ""
    yield "```sh"
    widest = max(len(line) for line, _ in command.examples)
    for line, what in command.examples:
        yield f"{line:<{widest}}  # {what}" if what else line
    yield "```"


def _shared(title: str, about: str, options: Iterable[Option]) -> Iterator[str]:
    yield ""
    yield f"## {title}"
    yield ""
    yield about
    yield ""
    yield from _table(options)
    yield ""


def _table(options: Iterable[Option]) -> Iterator[str]:
    yield "| Option | |"
    yield "|---|---|"
    for option in options:
        yield f"| `{_cell(spelled(option))}` | {_cell(explained(option))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(reference_page(), end="")
