"""Use skills: connections, listings, approval, loading, and the tools that a model calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.host.config.config import ConfiguredPublisher as ConfiguredPublisher
    from skillwire.host.config.config import ConfiguredServer as ConfiguredServer
    from skillwire.host.config.config import HostConfig as HostConfig
    from skillwire.host.config.config import load_publishers as load_publishers
    from skillwire.host.config.file import OWN_REGISTRY as OWN_REGISTRY
    from skillwire.host.config.file import ConfigWatch as ConfigWatch
    from skillwire.host.config.file import PolicyFile as PolicyFile
    from skillwire.host.config.file import Stamp as Stamp
    from skillwire.host.config.file import agents_may_install as agents_may_install
    from skillwire.host.config.file import chat_model as chat_model
    from skillwire.host.config.file import is_trusted as is_trusted
    from skillwire.host.config.file import load_approvers as load_approvers
    from skillwire.host.config.file import load_config as load_config
    from skillwire.host.config.file import load_settings as load_settings
    from skillwire.host.config.file import parse_policy as parse_policy
    from skillwire.host.config.file import project_file as project_file
    from skillwire.host.config.file import read_config as read_config
    from skillwire.host.config.file import repository_host as repository_host
    from skillwire.host.config.file import site_tokens as site_tokens
    from skillwire.host.config.server import ConfigTable as ConfigTable
    from skillwire.host.config.server import Era as Era
    from skillwire.host.config.server import SeenFile as SeenFile
    from skillwire.host.config.server import ServerConfig as ServerConfig
    from skillwire.host.config.server import TrustedFiles as TrustedFiles
    from skillwire.host.config.server import UntrustedServer as UntrustedServer
    from skillwire.host.config.server import parse_server as parse_server
    from skillwire.host.config.server import seen_digest as seen_digest
    from skillwire.host.config.text import ConfigText as ConfigText
    from skillwire.host.config.text import ProfileText as ProfileText
    from skillwire.host.config.text import PublisherText as PublisherText
    from skillwire.host.config.text import ServerAddress as ServerAddress
    from skillwire.host.config.text import ServerText as ServerText
    from skillwire.host.config.text import SourceText as SourceText
    from skillwire.host.config.text import with_disabled as with_disabled
    from skillwire.host.config.text import write_config as write_config
    from skillwire.host.decide import Case as Case
    from skillwire.host.decide import Decider as Decider
    from skillwire.host.directories import DEFAULT_FOLDERS as DEFAULT_FOLDERS
    from skillwire.host.directories import HostOrigins as HostOrigins
    from skillwire.host.directories import LocalDirectory as LocalDirectory
    from skillwire.host.directories import StatePaths as StatePaths
    from skillwire.host.directories import default_directories as default_directories
    from skillwire.host.directories import label_directories as label_directories
    from skillwire.host.directories import origin_identities as origin_identities
    from skillwire.host.directories import project_directory as project_directory
    from skillwire.host.directories import state_paths as state_paths
    from skillwire.host.events import Event as Event
    from skillwire.host.events import EventKind as EventKind
    from skillwire.host.events import EventLog as EventLog
    from skillwire.host.events import EventRecorder as EventRecorder
    from skillwire.host.events import Failure as Failure
    from skillwire.host.events import LeftOut as LeftOut
    from skillwire.host.files import OnPreview as OnPreview
    from skillwire.host.files import SkillFiles as SkillFiles
    from skillwire.host.files import SkillReader as SkillReader
    from skillwire.host.files import VerifiedRead as VerifiedRead
    from skillwire.host.following import Following as Following
    from skillwire.host.held import Held as Held
    from skillwire.host.held import HeldSkills as HeldSkills
    from skillwire.host.host import LoadedSkill as LoadedSkill
    from skillwire.host.host import SkillHost as SkillHost
    from skillwire.host.host import SlashCommand as SlashCommand
    from skillwire.host.host import open_in_thread as open_in_thread
    from skillwire.host.host import run_sync as run_sync
    from skillwire.host.importers.base import ClientFile as ClientFile
    from skillwire.host.importers.base import FileContents as FileContents
    from skillwire.host.importers.base import ImportedServer as ImportedServer
    from skillwire.host.importers.base import Reader as Reader
    from skillwire.host.importers.readers import FoundServer as FoundServer
    from skillwire.host.importers.readers import client_files as client_files
    from skillwire.host.importers.readers import find_servers as find_servers
    from skillwire.host.login_flow import LoginTokens as LoginTokens
    from skillwire.host.logins import Keyring as Keyring
    from skillwire.host.logins import Login as Login
    from skillwire.host.logins import LoginStore as LoginStore
    from skillwire.host.model import Handler as Handler
    from skillwire.host.model import Tool as Tool
    from skillwire.host.model import ToolResult as ToolResult
    from skillwire.host.places import Places as Places
    from skillwire.host.policies import LoadedPolicy as LoadedPolicy
    from skillwire.host.policies import PolicyFiles as PolicyFiles
    from skillwire.host.policies import SignedApproval as SignedApproval
    from skillwire.host.policies import log_decision as log_decision
    from skillwire.host.policies import policy_log as policy_log
    from skillwire.host.policies import store_signed_approvals as store_signed_approvals
    from skillwire.host.questions import ReadCallback as ReadCallback
    from skillwire.host.questions import ReadRequest as ReadRequest
    from skillwire.host.questions import ScriptCallback as ScriptCallback
    from skillwire.host.questions import ScriptRequest as ScriptRequest
    from skillwire.host.questions import ScriptRunner as ScriptRunner
    from skillwire.host.questions import ToolCallback as ToolCallback
    from skillwire.host.questions import ToolRequest as ToolRequest
    from skillwire.host.registration import Registration as Registration
    from skillwire.host.resolve import Resolver as Resolver
    from skillwire.host.review import FileComparison as FileComparison
    from skillwire.host.review import SkillReview as SkillReview
    from skillwire.host.rules import OriginFacts as OriginFacts
    from skillwire.host.rules import Rules as Rules
    from skillwire.host.scanners import Fetch as Fetch
    from skillwire.host.scanners import Scans as Scans
    from skillwire.host.scripts import ScriptResult as ScriptResult
    from skillwire.host.search import SearchMatch as SearchMatch
    from skillwire.host.server_tools import ServerTool as ServerTool
    from skillwire.host.settings import HostKeywords as HostKeywords
    from skillwire.host.settings import HostSettings as HostSettings
    from skillwire.host.signatures import Signatures as Signatures
    from skillwire.host.state import ConnectionStatus as ConnectionStatus
    from skillwire.host.state import ServedTemplate as ServedTemplate
    from skillwire.host.state import ServerState as ServerState
    from skillwire.host.state import Switches as Switches
    from skillwire.host.state import find_template as find_template
    from skillwire.host.state import is_template as is_template
    from skillwire.host.storage import CachedFile as CachedFile
    from skillwire.host.storage import SkillCache as SkillCache
    from skillwire.host.storage import SkillUsage as SkillUsage
    from skillwire.host.storage import SkillUse as SkillUse
    from skillwire.host.storage import Usage as Usage
    from skillwire.host.storage import UsageFile as UsageFile
    from skillwire.host.storage import UsageRecorder as UsageRecorder
    from skillwire.host.storage import UseKind as UseKind
    from skillwire.host.styles import all_styles as all_styles
    from skillwire.host.styles import find_style as find_style
    from skillwire.host.styles.base import Actions as Actions
    from skillwire.host.styles.base import KeeperOf as KeeperOf
    from skillwire.host.styles.base import Layer as Layer
    from skillwire.host.styles.base import Question as Question
    from skillwire.host.styles.base import Rank as Rank
    from skillwire.host.styles.base import Ranks as Ranks
    from skillwire.host.styles.base import RenderContext as RenderContext
    from skillwire.host.styles.base import SkillFields as SkillFields
    from skillwire.host.styles.base import Style as Style
    from skillwire.host.styles.base import ToolAction as ToolAction
    from skillwire.host.styles.base import ToolSpec as ToolSpec
    from skillwire.host.styles.base import local_keeps as local_keeps
    from skillwire.host.styles.spec import SPEC_TOOLS as SPEC_TOOLS

export(
    __name__,
    {
        "config.config": "ConfiguredPublisher ConfiguredServer HostConfig load_publishers",
        "config.file": (
            "ConfigWatch Stamp OWN_REGISTRY PolicyFile agents_may_install chat_model is_trusted "
            "load_approvers load_config load_settings parse_policy project_file read_config "
            "repository_host site_tokens"
        ),
        "config.server": (
            "ConfigTable Era SeenFile ServerConfig TrustedFiles UntrustedServer parse_server seen_digest"
        ),
        "config.text": (
            "ConfigText ProfileText PublisherText ServerAddress ServerText SourceText with_disabled "
            "write_config"
        ),
        "decide": "Case Decider",
        "directories": (
            "DEFAULT_FOLDERS HostOrigins LocalDirectory StatePaths default_directories "
            "label_directories origin_identities project_directory state_paths"
        ),
        "events": "Event EventKind EventLog EventRecorder Failure LeftOut",
        "files": "OnPreview SkillFiles SkillReader VerifiedRead",
        "following": "Following",
        "held": "Held HeldSkills",
        "host": "LoadedSkill SkillHost SlashCommand open_in_thread run_sync",
        "importers.base": "ClientFile FileContents ImportedServer Reader",
        "importers.readers": "FoundServer client_files find_servers",
        "login_flow": "LoginTokens",
        "logins": "Keyring Login LoginStore",
        "model": "Handler Tool ToolResult",
        "places": "Places",
        "policies": "LoadedPolicy PolicyFiles SignedApproval log_decision policy_log store_signed_approvals",
        "questions": (
            "ReadCallback ReadRequest ScriptCallback ScriptRequest ScriptRunner ToolCallback ToolRequest"
        ),
        "registration": "Registration",
        "resolve": "Resolver",
        "review": "FileComparison SkillReview",
        "rules": "OriginFacts Rules",
        "scanners": "Fetch Scans",
        "scripts": "ScriptResult",
        "search": "SearchMatch",
        "server_tools": "ServerTool",
        "settings": "HostKeywords HostSettings",
        "signatures": "Signatures",
        "state": "ConnectionStatus ServedTemplate ServerState Switches find_template is_template",
        "storage": "CachedFile SkillCache SkillUsage SkillUse Usage UsageFile UsageRecorder UseKind",
        "styles": "all_styles find_style",
        "styles.base": (
            "Actions KeeperOf Layer Question Rank Ranks RenderContext SkillFields Style ToolAction "
            "ToolSpec local_keeps"
        ),
        "styles.spec": "SPEC_TOOLS",
    },
)
