"""Many skills together: the registry that names them, and the text that a model sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.catalog.naming import Keeper as Keeper
    from skillwire.catalog.naming import Naming as Naming
    from skillwire.catalog.naming import SkillKey as SkillKey
    from skillwire.catalog.naming import Spellings as Spellings
    from skillwire.catalog.registry import Changes as Changes
    from skillwire.catalog.registry import Collision as Collision
    from skillwire.catalog.registry import RegisteredSkill as RegisteredSkill
    from skillwire.catalog.registry import Registry as Registry
    from skillwire.catalog.render import CatalogText as CatalogText
    from skillwire.catalog.render import render_catalog as render_catalog
    from skillwire.catalog.render import render_file as render_file
    from skillwire.catalog.render import render_skill as render_skill
    from skillwire.catalog.replay import ActiveSkill as ActiveSkill
    from skillwire.catalog.replay import Replay as Replay
    from skillwire.catalog.selection import Selection as Selection
    from skillwire.catalog.tokenize import Query as Query

export(
    __name__,
    {
        "naming": "Keeper Naming SkillKey Spellings",
        "registry": "Changes Collision RegisteredSkill Registry",
        "render": "CatalogText render_catalog render_file render_skill",
        "replay": "ActiveSkill Replay",
        "selection": "Selection",
        "tokenize": "Query",
    },
)
