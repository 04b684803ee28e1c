"""Offer: what a server gives out of its skills, before any SDK comes into it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.results import CacheAdvice, SkillAnswers
from skillwire.server.legacy.resources import Auxiliaries
from skillwire.server.library import SkillLibrary
from skillwire.server.legacy.features import Surfaces
from skillwire.server.watcher import Watch
from skillwire.sources.base import Source
from skillwire.sources.directory.source import DirectorySource
from skillwire.sources.directory.roots import Root


class Offer:
    """A library, the answers from it, and the watch over it.

    Sources are directories, `prefix=directory` strings or `Source` objects. Without `watch`, changes on disk
    are found only when a file is read.
    """

    def __init__(
        self,
        *sources: Source | Root | str | Path,
        ttl_ms: int = 60_000,
        cache_scope: Literal["public", "private"] = "public",
        page_size: int = 100,
        unlisted: Iterable[str] = (),
        surfaces: Surfaces | None = None,
        watch: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.surfaces = surfaces or Surfaces()
        self.limits = limits
        self.cache = CacheAdvice(ttl_ms, cache_scope)
        self.library = _library(sources, page_size=page_size, unlisted=unlisted)
        self.auxiliaries = Auxiliaries(self.surfaces, limits=limits)
        self.answers = SkillAnswers(self.library, self.cache, self.auxiliaries)
        self.watch = Watch(self.library) if watch else None


def _library(
    sources: Iterable[Source | Root | str | Path], *, page_size: int, unlisted: Iterable[str]
) -> SkillLibrary:
    """Directories are walked together and come first."""
    made: list[Source] = []
    roots: list[Root | str | Path] = []
    for source in sources:
        if isinstance(source, Root | str | Path):
            roots.append(source)
        else:
            made.append(source)
    if roots:
        made.insert(0, DirectorySource(roots))
    return SkillLibrary(made, page_size=page_size, unlisted=unlisted)
