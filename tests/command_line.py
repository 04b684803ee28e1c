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


def approved(run: Run, name: str, *options: str) -> Ended:
    """Approve a skill as it is shown, by its digest, as a script does."""
    where = [option for option in options if option not in ("--allow-tools", "--allow-code", "--json")]
    digest = run("show", name, "--json", *where).document["digest"]
    return run("approve", name, "--digest", digest, *options)
