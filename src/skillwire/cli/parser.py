"""The words after a command's name, read according to its table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from skillwire.cli.command import GLOBAL_OPTIONS, Command, Option
from skillwire.errors import SkillwireError

if TYPE_CHECKING:
    from pathlib import Path

_MOST_DIGITS: Final = 40


class UsageError(SkillwireError):
    """The command line is wrong. `command` is the one whose help says more."""

    exit_code = 2

    def __init__(self, message: str, *, command: str = "") -> None:
        super().__init__(message)
        self.command = command


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
