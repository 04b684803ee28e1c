"""Skills on disk, for tests that serve them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from skillwire.skill import DYNAMIC, SkillEntry, digest_of, parse_uri
from skillwire.sources import DirectorySource, Problem, Root, Source


def skill_md(
    name: str, description: str = "Does a thing. Use when a thing is to be done.", body: str = ""
) -> bytes:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body or f'# {name}'}\n".encode()


def write_skill(folder: str | Path, files: Mapping[str, bytes] | None = None, **fields: str) -> Path:
    """Write a valid skill named like its folder, and further files by their relative path."""
    folder = Path(folder)
    write(folder / "SKILL.md", skill_md(folder.name, **fields))
    for path, content in (files or {}).items():
        write(folder / path, content)
    return folder


def write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def paths_of(entry: SkillEntry) -> list[str]:
    """The files of an entry, as paths below its directory."""
    assert entry.resources is not DYNAMIC
    root = entry.uri.removesuffix("SKILL.md")
    return [file.uri.removeprefix(root) for file in entry.resources]


def rules_of(problems: Iterable[Problem]) -> list[str]:
    return [issue.rule for problem in problems for issue in problem.issues]


def scanned(roots: str | Path | Root | Iterable[str | Path | Root], **options: Any) -> DirectorySource:
    """A source whose directories have been scanned."""
    source = DirectorySource(roots, **options)
    source.scan()
    return source


async def assert_serves_what_it_lists(source: Source) -> None:
    """Every file that an entry lists can be read, and has the digest and size that the entry says."""
    for entry in await source.list_entries():
        assert entry.resources is not DYNAMIC
        for file in entry.resources:
            data = (await source.read(parse_uri(file.uri))).data
            assert (digest_of(data), len(data)) == (file.digest, file.size), file.uri
