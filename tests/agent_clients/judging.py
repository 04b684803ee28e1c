"""What a run of a client showed, as plain answers for the tests, and for the table in docs/clients.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_clients.scenario import (
    ABOUT,
    FIRST,
    GUIDE,
    PATIENT,
    SECOND,
    SKILLS,
    WITH_GATEWAY,
    has_gateway,
)

Runs = Mapping[str, Mapping[str, Any]]


def folder_facts(runs: Runs) -> dict[str, bool]:
    """Of skills that were installed as folders."""
    return {
        "name and description are in the first request": ABOUT in runs["installed"]["first"],
        "its own tool loads the skill": FIRST in runs["installed"]["last"],
        "an update reaches it": SECOND in runs["updated"]["last"] and FIRST not in runs["updated"]["last"],
        "nothing is left after removal": ABOUT not in runs["removed"]["first"],
    }


def gateway_facts(runs: Runs) -> dict[str, bool]:
    """Of the same skill through the gateway."""
    refused, changed, revoked = runs["not approved"], runs["changed"], runs["revoked"]
    return {
        "refused until it is approved": _is_refused(refused) and "approv" in refused["results"][-1],
        "loaded after approval, without a restart of the server": FIRST in runs["approved"]["last"],
        "a file is read": GUIDE in runs["approved"]["last"],
        "refused after a change": _is_refused(changed),
        "loaded from the cache while the server is dead": SECOND in runs["server dead"]["last"],
        "refused after it was revoked": _is_refused(revoked),
        "nothing is left after uninstalling": not has_gateway(runs["uninstalled"]),
    }


def first_requests(runs: Runs) -> tuple[int, int]:
    """In how many runs with the gateway the very first request to the model had its tools or the names of its
    skills, and how many runs there were, with the client as it is."""
    shown = [has_gateway(runs[name]) for name in WITH_GATEWAY]
    return sum(shown), len(shown)


def waits_when_told(runs: Runs) -> bool | None:
    """Whether the first request had them once the client was told to wait longer; `None` if it always
    waits."""
    return has_gateway(runs[PATIENT]) if PATIENT in runs else None


def context_chars(runs: Runs) -> dict[int, int]:
    """How many characters the gateway adds to the first request, by the number of skills behind it."""
    without = len(runs["without"]["first"])
    return {
        int(name.removeprefix(SKILLS)): len(run["first"]) - without
        for name, run in runs.items()
        if name.startswith(SKILLS) and has_gateway(run)
    }


def _is_refused(run: Mapping[str, Any]) -> bool:
    return bool(run["results"]) and FIRST not in run["last"] and SECOND not in run["last"]
