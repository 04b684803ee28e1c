"""How many examples a property is tried with: a few in `make quick`, as many as it needs otherwise."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import settings

QUICK_EXAMPLES: Final = 20


def examples(count: int) -> settings:
    """A decorator: try this many examples. `make quick` tries no more than twenty."""
    return settings(max_examples=min(count, QUICK_EXAMPLES) if os.environ.get("QUICK") else count)
