"""Installing skills: pinned by a lock file, planned, and written to the folders that agents read.

    installer = Installer(Workspace.open(), SkillFetcher(Path.cwd()))
    report = await installer.add(["./skills"], decide)

`decide` is given a `Proposal` and answers with the grants of each skill that the user wants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.install.apply import InstallReport as InstallReport
    from skillwire.install.apply import StepResult as StepResult
    from skillwire.install.apply import merge_reports as merge_reports
    from skillwire.install.approvals import HostApprovals as HostApprovals
    from skillwire.install.candidates import Candidate as Candidate
    from skillwire.install.candidates import Check as Check
    from skillwire.install.candidates import FetchFailure as FetchFailure
    from skillwire.install.candidates import FetchResult as FetchResult
    from skillwire.install.candidates import Freshness as Freshness
    from skillwire.install.candidates import OnCandidate as OnCandidate
    from skillwire.install.candidates import Proposal as Proposal
    from skillwire.install.candidates import not_what_is_pinned as not_what_is_pinned
    from skillwire.install.decide import InstallRules as InstallRules
    from skillwire.install.fetcher import SkillFetcher as SkillFetcher
    from skillwire.install.foreign import ForeignSkill as ForeignSkill
    from skillwire.install.foreign import is_foreign_lock as is_foreign_lock
    from skillwire.install.foreign import parse_foreign_lock as parse_foreign_lock
    from skillwire.install.installer import Decide as Decide
    from skillwire.install.installer import Installer as Installer
    from skillwire.install.installer import RecordApprovals as RecordApprovals
    from skillwire.install.lock import LOCK_NAME as LOCK_NAME
    from skillwire.install.lock import Extra as Extra
    from skillwire.install.lock import Lock as Lock
    from skillwire.install.lock import LockedFile as LockedFile
    from skillwire.install.lock import LockedSkill as LockedSkill
    from skillwire.install.lock import Pin as Pin
    from skillwire.install.lock import Powers as Powers
    from skillwire.install.lock import format_lock as format_lock
    from skillwire.install.lock import parse_lock as parse_lock
    from skillwire.install.plan import DiskState as DiskState
    from skillwire.install.plan import FileDifference as FileDifference
    from skillwire.install.plan import Installation as Installation
    from skillwire.install.plan import Link as Link
    from skillwire.install.plan import Missing as Missing
    from skillwire.install.plan import Obstacle as Obstacle
    from skillwire.install.plan import Plan as Plan
    from skillwire.install.plan import Step as Step
    from skillwire.install.plan import StepKind as StepKind
    from skillwire.install.plan import Tree as Tree
    from skillwire.install.plan import tree_differences as tree_differences
    from skillwire.install.source import INSTALLED as INSTALLED
    from skillwire.install.source import Source as Source
    from skillwire.install.state import Acceptance as Acceptance
    from skillwire.install.state import InstallState as InstallState
    from skillwire.install.state import StateFiles as StateFiles
    from skillwire.install.state import Version as Version
    from skillwire.install.state import VersionStore as VersionStore
    from skillwire.install.state import acceptance_key as acceptance_key
    from skillwire.install.workspace import PlanRun as PlanRun
    from skillwire.install.workspace import Workspace as Workspace
    from skillwire.install.workspace import content_of as content_of
    from skillwire.install.workspace import export_skills as export_skills

export(
    __name__,
    {
        "apply": "InstallReport StepResult merge_reports",
        "approvals": "HostApprovals",
        "candidates": (
            "Candidate Check FetchFailure FetchResult Freshness OnCandidate Proposal not_what_is_pinned"
        ),
        "decide": "InstallRules",
        "fetcher": "SkillFetcher",
        "foreign": "ForeignSkill is_foreign_lock parse_foreign_lock",
        "installer": "Decide Installer RecordApprovals",
        "lock": "LOCK_NAME Extra Lock LockedFile LockedSkill Pin Powers format_lock parse_lock",
        "plan": (
            "DiskState FileDifference Installation Link Missing Obstacle Plan Step StepKind Tree "
            "tree_differences"
        ),
        "source": "INSTALLED Source",
        "state": "Acceptance InstallState StateFiles Version VersionStore acceptance_key",
        "workspace": "PlanRun Workspace content_of export_skills",
    },
)
