"""Serve skills: the methods of the extension, on the MCP SDK, over stdio and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.server.app import SkillServer as SkillServer
    from skillwire.server.attach import add_skills as add_skills
    from skillwire.server.catalog import Catalog as Catalog
    from skillwire.server.catalog import Page as Page
    from skillwire.server.catalog import T as T
    from skillwire.server.extension import SkillsExtension as SkillsExtension
    from skillwire.server.http.app import McpEndpoint as McpEndpoint
    from skillwire.server.http.asgi import Asgi as Asgi
    from skillwire.server.http.asgi import Headers as Headers
    from skillwire.server.http.asgi import Message as Message
    from skillwire.server.http.asgi import OpenRequest as OpenRequest
    from skillwire.server.http.asgi import Receive as Receive
    from skillwire.server.http.asgi import Scope as Scope
    from skillwire.server.http.asgi import Send as Send
    from skillwire.server.http.asgi import StoppableApp as StoppableApp
    from skillwire.server.http.auth import TokenFile as TokenFile
    from skillwire.server.http.auth import Tokens as Tokens
    from skillwire.server.http.server import Address as Address
    from skillwire.server.http.server import HttpServer as HttpServer
    from skillwire.server.http.server import parse_address as parse_address
    from skillwire.server.http.telemetry import ObservedApp as ObservedApp
    from skillwire.server.legacy.features import IndexShape as IndexShape
    from skillwire.server.legacy.features import LegacyFeatures as LegacyFeatures
    from skillwire.server.legacy.features import ToolsMode as ToolsMode
    from skillwire.server.library import SkillLibrary as SkillLibrary
    from skillwire.server.options import ServerOptions as ServerOptions

export(
    __name__,
    {
        "app": "SkillServer",
        "attach": "add_skills",
        "catalog": "Catalog Page T",
        "extension": "SkillsExtension",
        "http.app": "McpEndpoint",
        "http.asgi": "Asgi Headers Message OpenRequest Receive Scope Send StoppableApp",
        "http.auth": "TokenFile Tokens",
        "http.server": "Address HttpServer parse_address",
        "http.telemetry": "ObservedApp",
        "legacy.features": "IndexShape LegacyFeatures ToolsMode",
        "library": "SkillLibrary",
        "options": "ServerOptions",
    },
)
