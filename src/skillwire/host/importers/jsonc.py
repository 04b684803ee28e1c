"""JSON as people write it: with comments and trailing commas, which several clients allow."""

from __future__ import annotations

import json
import re
from typing import Final

# A string is taken first, so that nothing inside one is taken for anything else.
_TOKENS: Final = re.compile(
    r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL
)


def parse_jsonc(text: str) -> object:
    """The value, or a `ValueError` whose message quotes nothing of the text."""
    plain = _TOKENS.sub(
        lambda match: match[0] if match[0].startswith('"') else " ", text.removeprefix("\ufeff")
    )
    try:
        return json.loads(plain)
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise ValueError("it is not JSON: its values lie too deep inside one another") from None
