"""Give skills out: the methods of the extension, on the MCP SDK, over stdio and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.server.app import SkillServer as SkillServer
    from skillwire.server.attach import add_skills as add_skills
    from skillwire.server.catalog import Catalog as Catalog
    from skillwire.server.cursors import Page as Page
    from skillwire.server.cursors import T as T
    from skillwire.server.extension import SkillsExtension as SkillsExtension
    from skillwire.server.http.lazy import Asgi as Asgi
    from skillwire.server.http.lazy import Message as Message
    from skillwire.server.http.lazy import Receive as Receive
    from skillwire.server.http.lazy import Scope as Scope
    from skillwire.server.http.lazy import Send as Send
    from skillwire.server.legacy.features import IndexShape as IndexShape
    from skillwire.server.legacy.features import LegacyFeatures as LegacyFeatures
    from skillwire.server.legacy.features import ToolsMode as ToolsMode
    from skillwire.server.library import SkillLibrary as SkillLibrary

export(
    __name__,
    {
        "app": "SkillServer",
        "attach": "add_skills",
        "catalog": "Catalog",
        "cursors": "Page T",
        "extension": "SkillsExtension",
        "http.lazy": "Asgi Message Receive Scope Send",
        "legacy.features": "IndexShape LegacyFeatures ToolsMode",
        "library": "SkillLibrary",
    },
)
