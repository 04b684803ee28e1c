"""Serve skills: the methods of the extension, on the MCP SDK, over stdio and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.server.app import SkillServer as SkillServer
    from skillwire.server.app import default_instructions as default_instructions
    from skillwire.server.attach import SkillsExtension as SkillsExtension
    from skillwire.server.attach import add_skills as add_skills
    from skillwire.server.fastpath import EntryCache as EntryCache
    from skillwire.server.http.app import McpEndpoint as McpEndpoint
    from skillwire.server.http.asgi import Asgi as Asgi
    from skillwire.server.http.asgi import Headers as Headers
    from skillwire.server.http.asgi import Message as Message
    from skillwire.server.http.asgi import OpenRequest as OpenRequest
    from skillwire.server.http.asgi import Receive as Receive
    from skillwire.server.http.asgi import Request as Request
    from skillwire.server.http.asgi import Scope as Scope
    from skillwire.server.http.asgi import Send as Send
    from skillwire.server.http.asgi import StoppableApp as StoppableApp
    from skillwire.server.http.asgi import Telemetry as Telemetry
    from skillwire.server.http.asgi import parse_json as parse_json
    from skillwire.server.http.asgi import refuse_method as refuse_method
    from skillwire.server.http.asgi import respond as respond
    from skillwire.server.http.frontend import METRICS_PATH as METRICS_PATH
    from skillwire.server.http.frontend import Gauges as Gauges
    from skillwire.server.http.frontend import HostNames as HostNames
    from skillwire.server.http.frontend import HttpFrontend as HttpFrontend
    from skillwire.server.http.frontend import OperatorApp as OperatorApp
    from skillwire.server.http.frontend import Route as Route
    from skillwire.server.http.frontend import ServiceStatus as ServiceStatus
    from skillwire.server.http.frontend import State as State
    from skillwire.server.http.pool import Endpoint as Endpoint
    from skillwire.server.http.pool import K as K
    from skillwire.server.http.pool import PoolFull as PoolFull
    from skillwire.server.http.pool import RunningView as RunningView
    from skillwire.server.http.pool import SharedPool as SharedPool
    from skillwire.server.http.pool import V as V
    from skillwire.server.http.pool import ViewPool as ViewPool
    from skillwire.server.http.server import Address as Address
    from skillwire.server.http.server import HttpServer as HttpServer
    from skillwire.server.http.server import listen as listen
    from skillwire.server.http.server import parse_address as parse_address
    from skillwire.server.library import DEFAULT_OPTIONS as DEFAULT_OPTIONS
    from skillwire.server.library import Catalog as Catalog
    from skillwire.server.library import IndexShape as IndexShape
    from skillwire.server.library import LegacyFeatures as LegacyFeatures
    from skillwire.server.library import Page as Page
    from skillwire.server.library import ServerOptions as ServerOptions
    from skillwire.server.library import SkillLibrary as SkillLibrary
    from skillwire.server.library import T as T
    from skillwire.server.library import ToolsMode as ToolsMode

export(
    __name__,
    {
        "app": "SkillServer default_instructions",
        "attach": "SkillsExtension add_skills",
        "fastpath": "EntryCache",
        "http.app": "McpEndpoint",
        "http.asgi": (
            "Asgi Headers Message OpenRequest Receive Request Scope Send StoppableApp Telemetry "
            "parse_json refuse_method respond"
        ),
        "http.frontend": "METRICS_PATH Gauges HostNames HttpFrontend OperatorApp Route ServiceStatus State",
        "http.pool": "K V Endpoint PoolFull RunningView SharedPool ViewPool",
        "http.server": "Address HttpServer listen parse_address",
        "library": (
            "DEFAULT_OPTIONS T Catalog IndexShape LegacyFeatures Page ServerOptions SkillLibrary ToolsMode"
        ),
    },
)
