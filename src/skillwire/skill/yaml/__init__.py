"""YAML 1.2 core schema as JSON values. `load_mapping` is the only entry point."""

from __future__ import annotations

from typing import Final

from skillwire.documents import JsonObject
from skillwire.limits import Limits
from skillwire.skill.yaml.scalars import plain_lines

__all__ = ["load_mapping"]

# A nested mapping.
_PLAIN_DEPTH: Final = 2


def load_mapping(
    text: str, *, file: str, first_line: int, limits: Limits
) -> tuple[JsonObject, dict[str, int]]:
    """The mapping in a YAML text, and the line of each of its keys, or a `FormatError`.

    `first_line` is the line of the file that the text starts on. Raises a `SourceError` if PyYAML has no C
    parser.
    """
    if len(text) <= limits.frontmatter_bytes and limits.frontmatter_depth >= _PLAIN_DEPTH:
        found = plain_lines(text, first_line=first_line)
        if found is not None:
            return found
    # Imported on demand: simple frontmatter does not need PyYAML.
    from skillwire.skill.yaml.core import load_events

    return load_events(text, file=file, first_line=first_line, limits=limits)
