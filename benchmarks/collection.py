"""The share of a collection that is served: `python -m benchmarks.collection [SKILLS]`.

Writes a collection with the faults of thirteen public ones, in the proportions that were counted there: of
9,276 skills 1,075 have a name that is not their directory's and no other fault, and 58 have a colon without
quotes. The other 663 that were refused were not counted by kind; `FAULTS` says how they are divided here. The
collection is served strictly, which is what version 0.1 did, and by the rules of today.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillwire.skill import DYNAMIC
from skillwire.sources import DirectorySource
from skillwire.trust import check_entry

REAL: Final = 9_276
"""The skills of the public collections."""

# What is in SKILL.md, by fault, and how many of the real skills have it.
FAULTS: Final[Mapping[str, tuple[int, str]]] = {
    "name-not-directory": (1_075, "---\nname: {name}-skill\ndescription: {text}\n---\n"),
    "unquoted-colon": (58, "---\nname: {name}\ndescription: Reviews: {text}\n---\n"),
    # Assumed, beyond the two that were counted: the sum is 663.
    "long-description": (180, "---\nname: {name}\ndescription: {text}{long}\n---\n"),
    "unquoted-brackets": (90, "---\nname: {name}\ndescription: {text}\nargument-hint: [file] [more]\n---\n"),
    "name-not-directory-and-colon": (60, "---\nname: {name}-x\ndescription: It does: {text}\n---\n"),
    "name-characters": (120, "---\nname: My {name}\ndescription: {text}\n---\n"),
    "name-missing": (60, "---\ndescription: {text}\n---\n"),
    "description-missing": (35, "---\nname: {name}\n---\n"),
    "no-frontmatter": (70, "# {name}\n\n{text}\n"),
    "broken-yaml": (48, "---\nname: {name}\ndescription: 'never closed\n---\n"),
}
_GOOD: Final = "---\nname: {name}\ndescription: {text}\n---\n"
_TEXT: Final = "Handles one kind of task from start to end. Use when such a task comes up."
_GROUP: Final = 50


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the skills of a collection were served."""

    skills: int
    strict: int
    served: int
    invalid: int
    """Entries that a host refuses. There must be none."""

    def __str__(self) -> str:
        return (
            f"{self.skills:,} skills: {self.strict:,} served strictly ({self.strict / self.skills:.1%}), "
            f"{self.served:,} by default ({self.served / self.skills:.1%}), {self.invalid} invalid entries"
        )


def write_collection(root: Path, skills: int) -> None:
    """A collection of this size, with every fault in its proportion."""
    for number, text in enumerate(_texts(skills)):
        name = f"skill-{number:05}"
        folder = root / f"group-{number // _GROUP:03}" / name
        folder.mkdir(parents=True)
        body = text.format(name=name, text=_TEXT, long=" More." * 170)
        (folder / "SKILL.md").write_text(f"{body}\n# {name}\n\nDo it.\n", "utf-8")
        if number % 3 == 0:
            (folder / "notes.md").write_text("Notes.\n", "utf-8")


def measure(root: Path) -> Share:
    """Serve a collection both ways and check every entry as a host does."""
    strict, default = (DirectorySource([root], strict=strict) for strict in (True, False))
    strict.scan()
    default.scan()
    invalid = 0
    for entry in default.snapshot.entries:
        try:
            check_entry(entry)
        except Exception:
            invalid += 1
        assert entry.resources is not DYNAMIC
    found = len(list(root.rglob("SKILL.md")))
    return Share(found, len(strict.snapshot.entries), len(default.snapshot.entries), invalid)


def _texts(skills: int) -> Iterator[str]:
    """What each SKILL.md starts with; the faults are spread over the whole collection."""
    faulty: list[str] = []
    for count, text in FAULTS.values():
        faulty += [text] * round(count * skills / REAL)
    step = skills / len(faulty)
    places = {int(at * step): text for at, text in enumerate(faulty)}
    for number in range(skills):
        yield places.get(number, _GOOD)


def main(arguments: list[str]) -> None:
    """Write, serve and print."""
    skills = int(arguments[0]) if arguments else REAL
    with tempfile.TemporaryDirectory() as folder:
        write_collection(Path(folder), skills)
        print(measure(Path(folder)))


if __name__ == "__main__":
    main(sys.argv[1:])
