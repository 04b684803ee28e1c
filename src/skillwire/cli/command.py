"""Command, Argument and Option: what the command line accepts, as values.

The tables in `commands/` are made of these. Parsing, help, documentation and shell completion all read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["flag", "text", "path", "choice", "integer", "number"]
Completion: TypeAlias = Literal["", "file", "directory", "skill", "server", "agent", "command"]
"""What a shell offers for a value; `skill`, `server` and `agent` are names that Skillwire knows."""
_YEAR: Final = 365 * 24 * 3600


class Option(NamedTuple):
    """One option of a command."""

    names: tuple[str, ...]
    """Its spellings, the long one first."""
    help: str
    kind: Kind
    field: str
    """The parameter of the command's function that gets its value."""
    metavar: str = ""
    """The placeholder of its value in help. A flag has none."""
    default: Any = None
    limit: str = ""
    """The field of `Limits` that it sets. The default is the one of that field, and the value is `None`."""
    many: bool = False
    """Whether it can be repeated. The value is then a tuple."""
    choices: Mapping[str, str] = {}
    """The words that can be given, and the value of each."""
    least: float | None = None
    most: float | None = None
    """The bounds of a number, both included."""
    off: str = ""
    """The spelling that turns a flag off."""
    completion: Completion = ""
    seldom: bool = False
    """Whether few people need it: `help COMMAND --all` shows it, `COMMAND --help` does not."""

    @property
    def name(self) -> str:
        return self.names[0]


class Argument(NamedTuple):
    """One positional argument of a command."""

    field: str
    """The parameter of the command's function that gets its value."""
    metavar: str
    help: str
    kind: Kind = "text"
    required: bool = True
    many: bool = False
    """Whether it takes all the words that are left. The value is then a tuple."""
    choices: tuple[str, ...] = ()
    """The values that it can have, if not any text."""
    completion: Completion = ""
    marked: str = ""
    """The parameter that says whether `--` was written before its words, if the function needs it."""

    @property
    def usage(self) -> str:
        text = f"{self.metavar}..." if self.many and not self.metavar.endswith("...") else self.metavar
        return text if self.required else f"[{text}]"


class Command(NamedTuple):
    """One command. `run` is where its function is, as `module:function` of `skillwire.cli`."""

    name: str
    """With its group, if it has one: `servers add`."""
    summary: str
    """One line for the list of commands."""
    run: str
    about: str = ""
    """More paragraphs for its own help."""
    arguments: tuple[Argument, ...] = ()
    options: tuple[Option, ...] = ()
    host: bool = False
    """Whether it has the options that say where skills come from. They are passed on as one `HostOptions`."""
    examples: tuple[tuple[str, str], ...] = ()
    """Command lines, each with what it does."""

    @property
    def all_options(self) -> tuple[Option, ...]:
        return (*self.options, *(HOST_OPTIONS if self.host else ()))

    @property
    def takes_command(self) -> bool:
        """Whether its last argument may be a command with options of its own."""
        return bool(self.arguments) and self.arguments[-1].completion == "command"

    @property
    def usage(self) -> str:
        options = ["[OPTIONS]"] if self.all_options else []
        return " ".join(["skillwire", self.name, *options, *(one.usage for one in self.arguments)])


class Group(NamedTuple):
    """Commands with a common noun. The noun alone runs `default`."""

    name: str
    summary: str
    default: str


def command(
    name: str,
    run: str,
    help: str,
    *takes: Argument | Option,
    host: bool = False,
    json: bool = True,
    examples: Mapping[str, str],
) -> Command:
    """A command with its arguments and options; almost every command has `--json` as well.

    The first line of `help` is the summary, and the paragraphs below it are for the command's own help.
    """
    summary, _, about = help.partition("\n\n")
    return Command(
        name,
        summary,
        run,
        about,
        arguments=tuple(one for one in takes if isinstance(one, Argument)),
        options=(*(one for one in takes if isinstance(one, Option)), *((JSON,) if json else ())),
        host=host,
        examples=tuple(examples.items()),
    )


def seldom(*options: Option) -> tuple[Option, ...]:
    """Options that few people need."""
    return tuple(option._replace(seldom=True) for option in options)


def flag(spec: str, help: str, *, field: str = "", default: bool = False) -> Option:
    """An option without a value. One that is on by default has a `--no-` spelling, and so has its field."""
    option = _option("flag", spec, help, field=field, default=default)
    return option._replace(off=f"--no-{option.name.removeprefix('--')}") if default else option


def text(spec: str, help: str, *, field: str = "", completion: Completion = "") -> Option:
    return _option("text", spec, help, field=field, default=None, completion=completion)


def texts(spec: str, help: str, *, field: str = "", completion: Completion = "") -> Option:
    """An option that can be repeated; its value is a tuple."""
    help = f"{help} Repeatable."
    return _option("text", spec, help, field=field, many=True, default=(), completion=completion)


def path(spec: str, help: str, *, field: str = "", many: bool = False) -> Option:
    option = _option("path", spec, help, field=field, many=many, default=() if many else None)
    return option._replace(completion="directory" if option.metavar.startswith("DIR") else "file")


def choice(
    spec: str,
    help: str,
    *,
    choices: Mapping[str, str] | None = None,
    field: str = "",
    default: str | None = None,
) -> Option:
    """One of several words, as in `--log text|json`; `choices` maps words to values that differ from them."""
    option = _option("choice", spec, help, field=field, default=default)
    values = choices or {one: one for one in option.metavar.split("|")}
    return option._replace(metavar="|".join(values), choices=values)


def integer(
    spec: str,
    help: str,
    *,
    default: int | None = None,
    limit: str = "",
    least: int = 0,
    most: int | None = None,
) -> Option:
    return _option("integer", spec, help, default=default, limit=limit, least=least, most=most)


def seconds(
    spec: str,
    help: str,
    *,
    default: float | None = None,
    limit: str = "",
    least: float = 0.1,
    most: float = _YEAR,
) -> Option:
    return _option("number", spec, help, default=default, limit=limit, least=least, most=most)


def timeout(help: str, *, default: float | None = None, least: float = 0.1) -> Option:
    return seconds("--timeout SECONDS", help, default=default, least=least, most=3600)


def _option(kind: Kind, spec: str, help: str, *, field: str = "", **values: Any) -> Option:
    """An option from its names and its placeholder, as help shows them: `--output -o FILE`."""
    words = spec.split(" ")
    names = tuple(word for word in words if word.startswith("-"))
    return Option(
        names=names,
        help=help,
        kind=kind,
        field=field or names[0].removeprefix("--").replace("-", "_"),
        metavar=" ".join(words[len(names) :]),
        **values,
    )


JSON: Final = flag("--json", "Print one JSON document.", field="as_json")
ON_SERVER: Final = text(
    "--on SERVER", "The server to take the skill from. No other server is contacted.", completion="server"
)
HOST_OPTIONS: Final = (
    texts(
        "--server NAME=PLACE", "Also use this MCP server: NAME=URL or 'NAME=command args'.", field="servers"
    ),
    texts(
        "--dir [NAME=]PATH",
        "Also use this directory of skills, shown under NAME.",
        field="directories",
        completion="directory",
    ),
    flag(
        "--no-default-directories",
        "Leave out the default directories, such as .agents/skills and .claude/skills.",
    ),
    path("--config FILE", "Read this file instead of the user's and the project's skillwire.toml."),
    flag("--no-config", "Read no configuration file."),
    text("--profile NAME", "Use this profile of the configuration."),
    path("--policy FILE", "Also obey this policy, which can only narrow. Repeatable.", many=True),
    text("--style STYLE", "Emulate another host: claude, codex, gemini, goose or wayland."),
    timeout("Wait this long for each server."),
)
"""The options of every command that uses skills: where the skills come from."""

GLOBAL_OPTIONS: Final = (
    flag("--quiet -q", "Print results and errors only."),
    flag("--verbose -v", "Print what is going on, and warnings from libraries."),
    flag("--help -h", "Show the help and exit.", field="wants_help"),
)
"""The options of every command."""
HELP_NAMES: Final = GLOBAL_OPTIONS[-1].names
