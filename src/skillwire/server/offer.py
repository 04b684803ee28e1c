"""Offer: what a server gives out of its skills, before any SDK comes into it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.server.legacy.features import LegacyFeatures
from skillwire.server.legacy.resources import LegacyResources
from skillwire.server.library import SkillLibrary
from skillwire.server.results import CacheAdvice, SkillResults
from skillwire.server.watcher import Watch
from skillwire.sources.base import Source
from skillwire.sources.directory.roots import Root
from skillwire.sources.directory.source import DirectorySource


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
        legacy_features: LegacyFeatures | None = None,
        watch: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.legacy_features = legacy_features or LegacyFeatures()
        self.limits = limits
        self.cache = CacheAdvice(ttl_ms, cache_scope)
        self.library = _library(sources, page_size=page_size, unlisted=unlisted)
        self.legacy_resources = LegacyResources(self.legacy_features, limits=limits)
        self.answers = SkillResults(self.library, self.cache, self.legacy_resources)
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
