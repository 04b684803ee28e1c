"""Bounded reading of JSON, TOML and YAML that somebody else wrote (SEC-9), and types of JSON values. Pure.

A parser builds far more than it is given: `{}` takes seventy bytes once parsed, a table of TOML eight
hundred, and a key of TOML with many parts takes time by the square of its length. So size, number of values,
nesting and digits are checked on the text, before anything is built. What is within the limits costs at most
four times its size plus 64 MiB of memory.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard

from skillwire.errors import LimitExceeded
from skillwire.limits import DEFAULT_LIMITS, Limits

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is a JSON object."""
    # `dict` first: parsed JSON is always one, and the check against the abstract type is slower.
    return isinstance(value, (dict, Mapping))


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)


Data = bytes | bytearray | str

# This many values are allowed in any text.
_FREE: Final = 20_000
# A lock file has one value per twelve bytes, an index of skills one per sixteen.
_BYTES_PER_VALUE: Final = 8
# A message of a server has one per thirty. It may be larger than a document, so fewer values are allowed.
_BYTES_PER_JSON_VALUE: Final = 20
# What a list or a mapping takes, in values; and a header of a table, with what the parser notes about it.
_PER_CONTAINER: Final = 3
_PER_TABLE: Final = 12
_MOST_KEY_PARTS: Final = 32
_TOO_DEEP: Final = "its values are nested too deeply"

# A string, or the rest of the text after an unclosed quotation mark. Possessive, so that every byte is read
# once.
_JSON_STRING: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_JSON_MARK: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)
_TOML_STRING: Final = re.compile(
    r'"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""(?:""?)?)?'
    r"|'''(?:[^']++|'(?!''))*+(?:'''(?:''?)?)?"
    r'|"(?:[^"\\\n]++|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|#[^\n]*+",
    re.DOTALL,
)
# It begins where a part begins, so that a long one is read once.
_TOML_KEY: Final = re.compile(rf"(?<![\w\"-])(?:[\w\"-]++[ \t]*+\.[ \t]*+){{{_MOST_KEY_PARTS}}}")
_TOML_TABLE: Final = re.compile(r"^[ \t]*+\[", re.MULTILINE)


class DocumentError(ValueError):
    """A text is not what it should be. The message says why, in our own words and quoting nothing."""


def read_json(
    data: Data, *, what: str = "the JSON", strict: bool = False, limits: Limits = DEFAULT_LIMITS
) -> Any:
    """The value of a JSON text in UTF-8, or a `DocumentError`; a `LimitExceeded` if it is too large.

    `strict` also refuses a byte order mark and a key that is there twice. `what` names the text in messages.
    """
    _check_size(data, what, limits)
    _check_json_depth(data, limits)
    _check_json_values(data, what, _BYTES_PER_VALUE, limits)
    text = _text(data, strict=strict)
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique if strict else None,
            parse_constant=_no_constant,
            **_number_hooks(text, limits),
        )
    except DocumentError:
        raise
    except RecursionError:
        raise DocumentError(_TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise DocumentError(f"it is not JSON: {error.msg} in line {error.lineno}") from None


def check_json(data: Data, *, what: str = "an answer", limits: Limits = DEFAULT_LIMITS) -> None:
    """Raise `LimitExceeded` if a JSON text has far more values than its length justifies.

    For JSON that another parser reads. An object or a list counts as several values.
    """
    _check_json_values(data, what, _BYTES_PER_JSON_VALUE, limits)


def _check_json_values(data: Data, what: str, bytes_per_value: int, limits: Limits) -> None:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    most = _most_values(len(data), bytes_per_value, limits)
    if count_json_values(data, most) > most:
        raise LimitExceeded(f"{what} of {len(data):,} bytes with more than {most:,} values: it is refused")


def count_json_values(data: bytes | bytearray, most: int) -> int:
    """About how many values a JSON text has, at little cost; exact enough to tell whether there are more than
    `most`. An object or a list counts as several values.
    """
    rough = _json_values(data, 0, len(data))
    if rough <= most:
        return rough  # An upper bound: commas in strings count too.
    values = start = 0
    for string in _JSON_STRING.finditer(data):
        values += _json_values(data, start, string.start())
        if values > most:
            return values
        start = string.end()
    return values + _json_values(data, start, len(data))


def read_toml(data: Data, *, what: str = "the file", limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    """The tables of a TOML text in UTF-8, or a `DocumentError`; a `LimitExceeded` if it is too large."""
    import tomllib

    _check_size(data, what, limits)
    text = _text(data, strict=False)
    plain = _without_strings(text)
    most = _most_values(len(text), _BYTES_PER_VALUE, limits)
    values = plain.count(",") + plain.count("=")
    # Each part of a dotted key is a table of its own.
    values += _PER_CONTAINER * (plain.count("[") + plain.count("{") + plain.count("."))
    if values + _PER_TABLE * len(_TOML_TABLE.findall(plain)) > most:
        raise LimitExceeded(f"{what} has {len(text):,} characters and more than {most:,} values: shorten it")
    if key := _TOML_KEY.search(plain):
        line = plain.count("\n", 0, key.start()) + 1
        raise DocumentError(f"a key has more than {_MOST_KEY_PARTS} parts, near line {line}")
    if _digits(plain, limits):
        raise DocumentError("it has a number with too many digits")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(f"it is not TOML: {error}") from None
    except RecursionError:
        raise DocumentError(_TOO_DEEP) from None
    except (ValueError, OverflowError):
        raise DocumentError("it has a number or a date that is out of range") from None


def _without_strings(text: str) -> str:
    """A TOML text without comments, and with a quotation mark for each string, which may be part of a key."""
    plain = io.StringIO()  # `sub` would hold a list of all pieces.
    start = 0
    for match in _TOML_STRING.finditer(text):
        plain.write(text[start : match.start()])
        if text[match.start()] != "#":
            plain.write('"')
        start = match.end()
    plain.write(text[start:])
    return plain.getvalue()


def read_yaml(data: Data, *, what: str = "the file", limits: Limits = DEFAULT_LIMITS) -> Any:
    """The value of a YAML text in UTF-8, every scalar as its text, or a `DocumentError`.

    For files of other programs: `off` is a name to them as often as it is false. Frontmatter is read by
    `skill.yaml`, with its types.
    """
    _check_size(data, what, limits)
    return _YamlReader(what, limits).read(_text(data, strict=False))


def _check_size(data: Data, what: str, limits: Limits) -> None:
    if len(data) > limits.document_bytes:
        raise LimitExceeded(
            f"{what} has {len(data):,} bytes, at most {limits.document_bytes:,} are read: shorten it"
        )


def _text(data: Data, *, strict: bool) -> str:
    if isinstance(data, str):
        return data if strict else data.removeprefix("\ufeff")
    try:
        return data.decode("utf-8" if strict else "utf-8-sig")
    except UnicodeDecodeError:
        raise DocumentError("it is not UTF-8 text") from None


def _most_values(size: int, bytes_per_value: int, limits: Limits) -> int:
    return min(_FREE + size // bytes_per_value, limits.document_values)


def _json_values(data: bytes | bytearray, start: int, end: int) -> int:
    containers = data.count(b"{", start, end) + data.count(b"[", start, end)
    return data.count(b",", start, end) + _PER_CONTAINER * containers


def _check_json_depth(data: Data, limits: Limits) -> None:
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    most = limits.document_depth
    if data.count(b"[") + data.count(b"{") <= most:
        return
    depth = 0
    for mark in _JSON_MARK.finditer(data):
        sign = data[mark.start()]
        if sign in b"[{":
            depth += 1
            if depth > most:
                raise DocumentError(_TOO_DEEP)
        elif sign in b"]}":
            depth -= 1


def _digits(text: str, limits: Limits) -> bool:
    return re.search(rf"[0-9a-fA-FxobE_]{{{limits.number_digits + 1}}}", text) is not None


def _number_hooks(text: str, limits: Limits) -> dict[str, Any]:
    """Hooks of the parser that refuse long numbers; none if there are no such, which is faster."""
    if not re.search(rf"[0-9]{{{limits.number_digits + 1}}}", text):
        return {}

    def checked(kind: type[int] | type[float]) -> Any:
        def read(number: str) -> int | float:
            if len(number) > limits.number_digits:
                raise DocumentError("it has a number with too many digits")
            return kind(number)

        return read

    return {"parse_int": checked(int), "parse_float": checked(float)}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise DocumentError("it names a field twice")
    return table


def _no_constant(name: str) -> NoReturn:
    raise DocumentError(f"it is not JSON: {name} is not a number")


class _YamlReader:
    """Builds values from libyaml's events, with a stack of our own that nesting cannot overflow."""

    def __init__(self, what: str, limits: Limits) -> None:
        self._what = what
        self._limits = limits
        self._values = 0
        self._roots: list[Any] = []
        self._open: list[tuple[bool, list[Any], str | None, int]] = []
        """Open lists and mappings: which it is, its children, its anchor, the values before it."""
        self._anchors: dict[str, tuple[Any, int]] = {}

    def read(self, text: str) -> Any:
        from yaml import YAMLError
        from yaml._yaml import CParser

        try:
            parser = CParser(text)
            while (event := parser.get_event()) is not None:
                self._take(event)
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            raise DocumentError(f"it is not YAML{f' in line {mark.line + 1}' if mark else ''}") from None
        if len(self._roots) > 1:
            raise DocumentError("it has more than one document")
        return self._roots[0] if self._roots else None

    def _take(self, event: Any) -> None:
        # By the names of the classes: importing them would import all of PyYAML's pure parser.
        match type(event).__name__:
            case "ScalarEvent":
                self._count(1)
                self._put(event.value, event.anchor, 1)
            case "AliasEvent":
                if event.anchor not in self._anchors:
                    raise DocumentError("it has an alias of something that is not complete")
                value, size = self._anchors[event.anchor]
                self._count(size)
                self._put(value, None, size)
            case "SequenceStartEvent" | "MappingStartEvent" as kind:
                if len(self._open) >= self._limits.document_depth:
                    raise DocumentError(_TOO_DEEP)
                self._anchors.pop(event.anchor, None)
                self._open.append((kind.startswith("M"), [], event.anchor, self._values))
                self._count(_PER_CONTAINER)
            case "SequenceEndEvent" | "MappingEndEvent":
                is_mapping, children, anchor, before = self._open.pop()
                value = _mapping(children) if is_mapping else children
                self._put(value, anchor, self._values - before)
            case _:
                pass

    def _put(self, value: Any, anchor: str | None, size: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (value, size)
        (self._open[-1][1] if self._open else self._roots).append(value)

    def _count(self, values: int) -> None:
        self._values += values
        if self._values > self._limits.document_values:
            most = self._limits.document_values
            raise LimitExceeded(f"{self._what} has more than {most:,} values: shorten it")


def _mapping(children: list[Any]) -> dict[str, Any]:
    keys = children[::2]
    if not all(isinstance(key, str) for key in keys):
        raise DocumentError("a key is not a text")
    return dict(zip(keys, children[1::2], strict=True))
