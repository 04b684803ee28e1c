"""A command of `skillwire`, run in this process, and how it ended."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Ended:
    code: int | str | None
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Ended]
