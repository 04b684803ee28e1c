"""Catalog: the text about all skills for a system prompt, written anew only when something changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from skillwire.catalog.registry import RegisteredSkill, Registry
from skillwire.catalog.render import CatalogText
from skillwire.host.styles.base import RenderContext, Style


class Catalog:
    """The catalog as it was last asked for. Agents ask before every turn, and skills seldom change."""

    def __init__(self, registry: Registry, style: Style, showing: RenderContext) -> None:
        self._registry = registry
        self._style = style
        self._showing = showing
        self._budget = showing.limits.catalog_chars
        self._working: tuple[str, ...] = ()
        self._skills: tuple[RegisteredSkill, ...] | None = None
        self._text = CatalogText("")

    def ask(self, budget: int | None, working: Collection[str]) -> CatalogText:
        """The catalog within so many characters, for whoever works on these paths."""
        wanted = self._showing.limits.catalog_chars if budget is None else budget, tuple(working)
        if wanted != (self._budget, self._working):
            self._budget, self._working = wanted
            self._skills = None
        return self.current()

    def current(self) -> CatalogText:
        """The catalog as of now, asked for as the last time."""
        skills = self._registry.skills()
        if skills is not self._skills:  # The registry gives the same tuple while nothing has changed.
            limits = replace(self._showing.limits, catalog_chars=self._budget)
            awake = self._style.awake(skills, self._working)
            self._text = self._style.catalog(awake, replace(self._showing, limits=limits))
            self._skills = skills
        return self._text
