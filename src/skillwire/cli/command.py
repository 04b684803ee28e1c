"""Command, Argument and Option: what the command line accepts, as values, and the words read by them.

The tables in `commands/` are made of these. Parsing, help, documentation and shell completion all read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from skillwire.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

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


def number(
    spec: str,
    help: str,
    *,
    default: float | None = None,
    limit: str = "",
    least: float | None = None,
    most: float | None = None,
) -> Option:
    """A number of seconds if that is its placeholder, as in `--ttl SECONDS`, and otherwise a whole number."""
    kind, low, high = ("number", 0.1, _YEAR) if spec.endswith(" SECONDS") else ("integer", 0, None)
    least, most = low if least is None else least, high if most is None else most
    return _option(kind, spec, help, default=default, limit=limit, least=least, most=most)


def timeout(help: str, *, default: float | None = None, least: float = 0.1) -> Option:
    return number("--timeout SECONDS", help, default=default, least=least, most=3600)


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


_MOST_DIGITS: Final = 40


def read_words(command: Command, words: Sequence[str]) -> dict[str, Any]:
    """A value for every field of the command, from the words after its name; or a `UsageError`."""
    options = (*command.all_options, *GLOBAL_OPTIONS)
    known = {name: option for option in options for name in _spellings(option)}
    values: dict[str, Any] = {option.field: option.default for option in options}
    values |= {argument.marked: False for argument in command.arguments if argument.marked}
    given: set[str] = set()
    positional: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            values |= {argument.marked: True for argument in command.arguments if argument.marked}
            positional += rest
            break
        if not word.startswith("-") or word == "-":
            positional.append(word)
            continue
        if (
            command.takes_command
            and len(positional) >= len(command.arguments)
            and "://" not in positional[-1]
        ):
            # It is ambiguous whose option it is.
            raise UsageError(f"{word} may be an option of {positional[-1]}: put -- before the command")
        name, equals, attached = word.partition("=")
        option = known.get(name)
        if option is None:
            raise UsageError(_unknown_option(name, known))
        if option.kind == "flag":
            if equals:
                raise UsageError(f"{name} takes no value: write {name} alone")
            # Earlier spellings that turn a flag off have the same prefix.
            values[option.field] = not (option.off and name.startswith("--no-"))
            continue
        value = _value(option, attached if equals else next(rest, None), attached=bool(equals))
        if option.many:
            values[option.field] = (*values[option.field], value)
        elif option.field in given:
            raise UsageError(f"{name} was given twice: give it once")
        else:
            values[option.field] = value
        given.add(option.field)
    return values | _arguments(command, positional)


def words_of(command: Command, values: Mapping[str, Any]) -> list[str]:
    """The words that give these values: the inverse of `read_words`."""
    words: list[str] = []
    for option in command.all_options:
        value = values[option.field]
        if value == option.default:
            continue
        if option.kind == "flag":
            words.append(option.off if option.default else option.name)
        else:
            for one in value if option.many else (value,):
                words.append(f"{option.name}={one}")
    arguments: list[str] = []
    for argument in command.arguments:
        value = values[argument.field]
        arguments += map(str, value if argument.many else () if value is None else (value,))
    marked = any(values[argument.marked] for argument in command.arguments if argument.marked)
    dashes = ["--"] if marked or any(word.startswith("-") for word in arguments) else []
    return [*words, *dashes, *arguments]


def closest(word: str, known: Iterable[str]) -> str:
    """A question with the likely spelling; empty if there is none."""
    from difflib import get_close_matches

    # Without the dashes, which every option has in common.
    bare = {one.lstrip("-"): one for one in known}
    matches = get_close_matches(word.lstrip("-"), bare, n=1)
    return f"did you mean {bare[matches[0]]}?" if matches else ""


def _spellings(option: Option) -> list[str]:
    return [*option.names, *([option.off] if option.off else [])]


def _unknown_option(name: str, known: Iterable[str]) -> str:
    hint = closest(name, known)
    return f"there is no option {name}" + (f": {hint}" if hint else "")


def _value(option: Option, word: str | None, *, attached: bool) -> object:
    if word is None or (word.startswith("--") and not attached):
        raise UsageError(f"{option.name} needs a value: {option.name} {option.metavar}")
    if not word.strip():
        raise UsageError(f"{option.name} has an empty value: write {option.name} {option.metavar}")
    if option.kind == "path":
        return _path(word)
    if option.kind == "choice":
        if word in option.choices.values():
            return word
        if word not in option.choices:
            raise UsageError(f"{option.name} must be one of {', '.join(option.choices)}, not {word!r}")
        return option.choices[word]
    if option.kind in ("integer", "number"):
        return _number(option, word)
    return word


def _number(option: Option, word: str) -> float:
    """A plain decimal number in the option's range: not `nan`, `1e9`, `1_0` or digits of other scripts."""
    whole = option.kind == "integer"
    digits = word.removeprefix("-") if whole else word.removeprefix("-").replace(".", "", 1)
    if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS:
        number = int(word) if whole else float(word)
        if (option.least is None or number >= option.least) and (
            option.most is None or number <= option.most
        ):
            return number
    wanted = "a whole number" if whole else "a number"
    if option.most is not None:
        wanted += f" from {option.least:g} to {option.most:,.15g}"
    elif option.least is not None:
        wanted += f" of at least {option.least:g}"
    raise UsageError(f"{option.name} must be {wanted}, not {word!r}")


def _arguments(command: Command, words: list[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    left = list(words)
    for argument in command.arguments:
        count = len(left) if argument.many else 1
        taken, left = left[:count], left[count:]
        if not taken and argument.required:
            raise UsageError(f"{argument.metavar} is missing: write {command.usage}")
        if any(not word.strip() for word in taken):
            raise UsageError(f"{argument.metavar} is empty: write {command.usage}")
        for word in taken if argument.choices else ():
            if word not in argument.choices:
                raise UsageError(
                    f"{argument.metavar} must be one of {', '.join(argument.choices)}, not {word!r}"
                )
        converted = tuple(_path(word) if argument.kind == "path" else word for word in taken)
        values[argument.field] = converted if argument.many else (converted[0] if converted else None)
    if left:
        raise UsageError(f"unexpected argument {left[0]!r}: write {command.usage}")
    return values


def _path(word: str) -> Path:
    from pathlib import Path

    return Path(word)
