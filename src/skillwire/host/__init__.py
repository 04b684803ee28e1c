"""Use skills: connections, listings, approval, loading, and the tools that a model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.host.admin import HostAdmin as HostAdmin
    from skillwire.host.approvals.asking import Answer as Answer
    from skillwire.host.approvals.asking import ApprovalCallback as ApprovalCallback
    from skillwire.host.approvals.asking import ApprovalRequest as ApprovalRequest
    from skillwire.host.approvals.asking import Once as Once
    from skillwire.host.approvals.database import ApprovalBackend as ApprovalBackend
    from skillwire.host.approvals.schema import Decision as Decision
    from skillwire.host.approvals.schema import Row as Row
    from skillwire.host.approvals.status import ApprovalStatus as ApprovalStatus
    from skillwire.host.approvals.status import State as State
    from skillwire.host.approvals.store import ApprovalStore as ApprovalStore
    from skillwire.host.approvals.store import Identify as Identify
    from skillwire.host.approvals.stored import StoredApproval as StoredApproval
    from skillwire.host.cache import CachedFile as CachedFile
    from skillwire.host.cache import SkillCache as SkillCache
    from skillwire.host.config.server import Era as Era
    from skillwire.host.config.server import ServerConfig as ServerConfig
    from skillwire.host.config.trust import UntrustedServer as UntrustedServer
    from skillwire.host.directories import LocalDirectory as LocalDirectory
    from skillwire.host.events import Event as Event
    from skillwire.host.events import EventKind as EventKind
    from skillwire.host.events import EventLog as EventLog
    from skillwire.host.events import Failure as Failure
    from skillwire.host.events import LeftOut as LeftOut
    from skillwire.host.fetcher import OnPreview as OnPreview
    from skillwire.host.fetcher import SkillFiles as SkillFiles
    from skillwire.host.host import SkillHost as SkillHost
    from skillwire.host.loaded import LoadedSkill as LoadedSkill
    from skillwire.host.loaded import SlashCommand as SlashCommand
    from skillwire.host.reader import ReadCallback as ReadCallback
    from skillwire.host.reader import ReadRequest as ReadRequest
    from skillwire.host.review import FileComparison as FileComparison
    from skillwire.host.review import SkillReview as SkillReview
    from skillwire.host.search import FoundSkill as FoundSkill
    from skillwire.host.state import ServerState as ServerState
    from skillwire.host.state import Status as Status
    from skillwire.host.state import Switches as Switches
    from skillwire.host.styles.base import Actions as Actions
    from skillwire.host.styles.base import Question as Question
    from skillwire.host.styles.base import RenderContext as RenderContext
    from skillwire.host.styles.base import Style as Style
    from skillwire.host.styles.base import ToolAction as ToolAction
    from skillwire.host.styles.base import ToolSpec as ToolSpec
    from skillwire.host.styles.fields import SkillFields as SkillFields
    from skillwire.host.styles.ranks import KeeperOf as KeeperOf
    from skillwire.host.styles.ranks import Layer as Layer
    from skillwire.host.styles.ranks import Rank as Rank
    from skillwire.host.styles.ranks import Ranks as Ranks
    from skillwire.host.styles.ranks import local_keeps as local_keeps
    from skillwire.host.styles.spec import SPEC_TOOLS as SPEC_TOOLS
    from skillwire.host.templates import ServedTemplate as ServedTemplate
    from skillwire.host.threads import open_in_thread as open_in_thread
    from skillwire.host.threads import run_sync as run_sync
    from skillwire.host.tools import Handler as Handler
    from skillwire.host.tools import Tool as Tool
    from skillwire.host.tools import ToolResult as ToolResult

export(
    __name__,
    {
        "admin": "HostAdmin",
        "approvals.asking": "Answer ApprovalCallback ApprovalRequest Once",
        "approvals.status": "ApprovalStatus State",
        "approvals.database": "ApprovalBackend",
        "approvals.schema": "Decision Row",
        "approvals.store": "ApprovalStore Identify",
        "approvals.stored": "StoredApproval",
        "cache": "CachedFile SkillCache",
        "config.server": "Era ServerConfig",
        "config.trust": "UntrustedServer",
        "directories": "LocalDirectory",
        "events": "Event EventKind EventLog Failure LeftOut",
        "fetcher": "OnPreview SkillFiles",
        "host": "SkillHost",
        "loaded": "LoadedSkill SlashCommand",
        "reader": "ReadCallback ReadRequest",
        "review": "FileComparison SkillReview",
        "search": "FoundSkill",
        "state": "ServerState Status Switches",
        "styles.base": "Actions Question RenderContext Style ToolAction ToolSpec",
        "styles.fields": "SkillFields",
        "styles.ranks": "KeeperOf Layer Rank Ranks local_keeps",
        "styles.spec": "SPEC_TOOLS",
        "templates": "ServedTemplate",
        "threads": "open_in_thread run_sync",
        "tools": "Handler Tool ToolResult",
    },
)
