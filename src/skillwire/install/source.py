"""Source: where skills are installed from, parsed once, and what is wanted of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from skillwire.files import expand_user
from skillwire.skill import SetDigest
from skillwire.sources import SourceKind, SourceReference, parse_reference

INSTALLED: Final = "--installed"
"""How the lock names the skills of installed Python packages as a source."""


@dataclass(frozen=True, slots=True)
class Source:
    """A place, and which of its skills are meant."""

    reference: SourceReference
    names: frozenset[str] | None = None
    """Only the skills of these names; `None` for all."""
    digest: SetDigest | None = None
    """The digest that a lock file of another tool has of the skill: other files are refused."""

    @classmethod
    def parse(cls, text: str) -> Source:
        """The source that a user or a lock file names, or a `FormatError` that says how to write it."""
        if text == INSTALLED:
            return cls(SourceReference(kind=SourceKind.PACKAGE, text=text, place=""))
        return cls(parse_reference(text))

    @property
    def text(self) -> str:
        """As the lock has it."""
        return self.reference.text

    def only(self, names: Iterable[str]) -> Source:
        return replace(self, names=frozenset(names))

    def from_root(self, base: Path) -> Source:
        """The source with its path written from the root, so that it means the same in every folder."""
        reference = self.reference
        is_path = reference.kind in (SourceKind.FOLDER, SourceKind.ARCHIVE)
        if not is_path or expand_user(reference.place).is_absolute():
            return self
        path = os.path.normpath(base / reference.place)
        return replace(self, reference=replace(reference, text=path, place=path))
