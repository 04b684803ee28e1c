"""Installing skills: pinned by a lock file, planned, and written to the folders that agents read."""

from skillwire.install.agents import Agent, Places, Scope, agents, detect_agents
from skillwire.install.apply import Outcome, apply
from skillwire.install.disk import lock_folder, look_at_all
from skillwire.install.lock import Extra, Lock, LockedFile, LockedSkill, Pin
from skillwire.install.lock_format import format_lock, parse_lock
from skillwire.install.plan import (
    Act,
    FileDifference,
    Found,
    Link,
    Nothing,
    Other,
    Placed,
    Plan,
    Step,
    Tree,
    plan,
)
from skillwire.install.powers import Powers

__all__ = [
    "Act",
    "Agent",
    "Extra",
    "FileDifference",
    "Found",
    "Link",
    "Lock",
    "LockedFile",
    "LockedSkill",
    "Nothing",
    "Other",
    "Outcome",
    "Pin",
    "Placed",
    "Places",
    "Plan",
    "Powers",
    "Scope",
    "Step",
    "Tree",
    "agents",
    "apply",
    "detect_agents",
    "format_lock",
    "lock_folder",
    "look_at_all",
    "parse_lock",
    "plan",
]
