"""Installing skills: pinned by a lock file, planned, and put into the folders that agents read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.install.agents import Agent as Agent
    from skillwire.install.agents import Places as Places
    from skillwire.install.agents import Scope as Scope
    from skillwire.install.agents import agents as agents
    from skillwire.install.agents import detect_agents as detect_agents
    from skillwire.install.apply import Outcome as Outcome
    from skillwire.install.apply import apply as apply
    from skillwire.install.disk import look_at_all as look_at_all
    from skillwire.install.lock import Extra as Extra
    from skillwire.install.lock import Lock as Lock
    from skillwire.install.lock import LockedFile as LockedFile
    from skillwire.install.lock import LockedSkill as LockedSkill
    from skillwire.install.lock import Pin as Pin
    from skillwire.install.lock_format import format_lock as format_lock
    from skillwire.install.lock_format import parse_lock as parse_lock
    from skillwire.install.plan import Act as Act
    from skillwire.install.plan import FileDifference as FileDifference
    from skillwire.install.plan import Found as Found
    from skillwire.install.plan import Link as Link
    from skillwire.install.plan import Nothing as Nothing
    from skillwire.install.plan import Other as Other
    from skillwire.install.plan import Placed as Placed
    from skillwire.install.plan import Plan as Plan
    from skillwire.install.plan import Step as Step
    from skillwire.install.plan import Tree as Tree
    from skillwire.install.plan import plan as plan
    from skillwire.install.powers import Powers as Powers

export(
    __name__,
    {
        "agents": "Agent Places Scope agents detect_agents",
        "apply": "Outcome apply",
        "disk": "look_at_all",
        "lock": "Extra Lock LockedFile LockedSkill Pin",
        "lock_format": "format_lock parse_lock",
        "plan": "Act FileDifference Found Link Nothing Other Placed Plan Step Tree plan",
        "powers": "Powers",
    },
)
