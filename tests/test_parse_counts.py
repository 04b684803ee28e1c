"""A skill is parsed and hashed once at each boundary that it crosses, and handed on as a value."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from install.workspaces import Machine
from skillwire import SkillHost
from skillwire.install import Proposal
from skillwire.registry import Publishing, Store, publish_each, publish_to_store
from skillwire.skill import files as frontmatter
from skillwire.trust import Grants

SKILL_MD = b"""---
name: pdf
description: Fills forms. Use it for PDF files.
metadata:
  version: "1.0.0"
---
Read the form first.
"""


@dataclass(slots=True)
class Counts:
    """What was done with one file so far."""

    parses: int = 0
    hashes: int = 0


@contextmanager
def counting(skill_md: bytes) -> Iterator[Counts]:
    """Count, inside the block, what this process does with a `SKILL.md` of these bytes."""
    counts = Counts()
    block, _, _ = frontmatter.split_skill_md(skill_md, "SKILL.md")
    parse: Callable[..., Any] = frontmatter.load_mapping
    sha256: Callable[..., Any] = hashlib.sha256

    def parse_and_count(text: str, **options: Any) -> Any:
        counts.parses += text == block
        return parse(text, **options)

    def hash_and_count(data: bytes = b"", **options: Any) -> Any:
        counts.hashes += bytes(data) == skill_md
        return sha256(data, **options)

    with (
        patch.object(frontmatter, "load_mapping", parse_and_count),
        patch.object(hashlib, "sha256", hash_and_count),
    ):
        yield counts


@pytest.fixture
def skills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one skill, on a machine where nothing else is."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "user" / name.lower()))
    folder = tmp_path / "skills" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_bytes(SKILL_MD)
    return folder.parent


def test_publishing_parses_a_skill_once_on_each_side_and_hashes_it_where_its_bytes_are_read(
    skills: Path, tmp_path: Path
) -> None:
    store = Store(f"sqlite:///{tmp_path / 'registry.db'}")
    store.create()
    Publishing(store).set_namespace("acme", by="test")
    with counting(SKILL_MD) as counts:
        [result] = publish_each(
            [skills], lambda skill: publish_to_store(skill, store, namespace="acme", by="test")
        )
    store.close()
    assert result.error is None
    # Parsed by the publisher, for the linter and for the scan of a server, which decides what is left out;
    # and by the registry, which believes no publisher. Hashed by the scan; when it is read again to be sent,
    # as it may have changed since; and by the registry.
    assert counts == Counts(parses=2, hashes=3)


@pytest.mark.anyio
async def test_a_host_parses_once_to_list_and_once_to_load(skills: Path) -> None:
    with counting(SKILL_MD) as counts:
        async with SkillHost(directories=[skills], watch=False) as host:
            assert counts == Counts(parses=1, hashes=1)
            await host.load("pdf")
            # VER-1, VER-2: the bytes that are loaded are compared with the entry. The source has hashed them
            # too: a file that changed since the scan is not what was listed.
            assert counts == Counts(parses=2, hashes=3)
            host.catalog()
            await host.load("pdf")
            assert counts.parses <= 3


@pytest.mark.anyio
async def test_adding_a_skill_parses_it_once_and_a_sync_parses_nothing(skills: Path, tmp_path: Path) -> None:
    async def decide(proposal: Proposal) -> dict[str, Grants]:
        return {candidate.name: Grants() for candidate in proposal.candidates}

    installer = Machine.make(tmp_path).installer()
    with counting(SKILL_MD) as counts:
        report = await installer.add([str(skills)], decide)
    assert report.installed == ("pdf",)
    # Hashed for the lock, and handed on with its digest; before it is written, and as it is on disk.
    assert counts == Counts(parses=1, hashes=3)
    with counting(SKILL_MD) as counts:
        assert (await installer.sync()).is_whole
    assert counts == Counts(parses=0, hashes=1)
