"""JSON values as Python types, and type guards for what a parser returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, TypeGuard

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = "dict[str, JsonValue]"


def is_object(value: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is a JSON object."""
    # `dict` first: parsed JSON is always one, and the check against the abstract type is slower.
    return isinstance(value, (dict, Mapping))


def is_list(value: object) -> TypeGuard[list[object]]:
    """Whether a value is a JSON array."""
    return isinstance(value, list)
