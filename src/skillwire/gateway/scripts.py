"""Scripts for the callers of a gateway: `gateway --run`.

1. The script's skill passes the steps of every read: permission, offer, approval, verification (`view`).
2. Its grants. Over stdio there is one caller, the user: what they granted with `skillwire run` holds, for
   exactly these files. Over HTTP only what the callers file grants, such as
   `run = ["docs/pdf/scripts/*.py net:api.example.org"]`. Nobody is asked here, and nothing is installed.
3. It runs in the sandbox, in a folder of its own with the files of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from skillwire.errors import ApprovalRequired, SkillwireError
from skillwire.gateway.approvals import Unapproved
from skillwire.gateway.upstreams import Offer
from skillwire.gateway.view import CallerSource
from skillwire.host.model import error_words
from skillwire.host.policies import log_decision
from skillwire.host.scripts import (
    RUN_TOOL,
    SCRIPT_ABOUT,
    SCRIPT_SCHEMA,
    ScriptRequest,
    ScriptResult,
    ScriptRunner,
    fenced_result,
    make_plan,
    run_plan,
    script_arguments,
)
from skillwire.limits import Limits
from skillwire.sandbox import Grant, parse_grant
from skillwire.sandbox.plan import given
from skillwire.server.legacy.tools import ExtraTool, skill_path
from skillwire.skill import DYNAMIC, SkillEntry
from skillwire.trust import Reason, admit_script, check_entry, require, verify_file
from skillwire.trust.admission import Allowed, Purpose, admit
from skillwire.trust.approval import shown_digest


class CallerScripts:
    """The scripts that one caller may run."""

    def __init__(
        self,
        source: CallerSource,
        *,
        is_local: bool,
        limits: Limits,
        record: Callable[..., None],
        salt: bytes,
    ) -> None:
        self._source, self._is_local, self._limits = source, is_local, limits
        self._record, self._salt = record, salt
        self._runner = ScriptRunner(folder=Path("/"))

    def tool(self) -> ExtraTool:
        """The tool, as clients are told about it."""
        return ExtraTool(
            {
                "name": RUN_TOOL,
                "title": "Run a script of a skill",
                "description": SCRIPT_ABOUT,
                "inputSchema": SCRIPT_SCHEMA,
            },
            self._act,
        )

    async def _act(self, entry: SkillEntry, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        try:
            return await self._run(entry, arguments)
        except Unapproved:
            raise  # The caller is asked, if they can be.
        except SkillwireError as error:
            return error_words(error), True

    async def _run(self, entry: SkillEntry, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        path, words, files = script_arguments(arguments)
        offer = self._source.known_owner(entry.uri)
        digest = shown_digest(entry)
        if offer is None or digest is None or entry.resources is DYNAMIC:
            raise self._refused(entry, "lists no digests: a grant cannot be bound to its scripts")
        # 1. Every file, as for any read of this caller.
        checked = check_entry(entry, limits=self._limits)
        contents = [
            verify_file(checked, file.uri, (await self._source.read(file.uri)).data, offer.skill.origin)
            for file in entry.resources
        ]
        if path not in (file.path for file in contents):
            raise self._refused(entry, "has no such script")
        # 2. What was granted before.
        facts = self._source.approvals.candidate(self._source.caller, offer)
        decision, skill = admit_script(facts, path), offer.skill
        log = partial(log_decision, decision, skill=skill.uri, origin=skill.origin, act="run")
        await anyio.to_thread.run_sync(log)
        require(decision, skill.uri, skill.origin)
        granted = self._granted(offer, entry, path)
        if granted is None:
            raise self._refused(entry, f"may not run {path}: its user, or the operator, has not granted that")
        request = ScriptRequest(
            skill=offer.skill,
            script=path,
            digest=digest,
            grants=tuple(sorted(granted)),
            new=(),
            is_first=False,
        )
        plan = await anyio.to_thread.run_sync(
            make_plan, self._runner, request, contents, tuple(words), "", self._limits
        )
        if plan.packages and not await anyio.Path(plan.packages).exists():
            raise self._refused(entry, f"needs packages for {path}, which its user has not installed")
        # 3.
        outcome, written = await run_plan(plan, contents, files)
        result = ScriptResult(
            skill=offer.skill, script=path, outcome=outcome, grants=plan.grants, files=written
        )
        self._record("run", offer, **result.audit_fields())
        return fenced_result(result, self._limits, self._salt), bool(outcome.exit_code or outcome.ended)

    def _granted(self, offer: Offer, entry: SkillEntry, path: str) -> frozenset[Grant] | None:
        if self._is_local:
            decision = admit(self._source.approvals.candidate(self._source.caller, offer), Purpose.LOAD)
            if not isinstance(decision, Allowed):
                return None
            found = given(path, decision.grants.scripts)
            return frozenset() if found is None and decision.grants.execute_code else found
        name = f"{skill_path(entry)}/{path}"
        lines = [line.split() for line in self._source.caller.run]
        fitting = [words[1:] for words in lines if words and fnmatchcase(name, words[0])]
        if not fitting:
            return None
        return frozenset(parse_grant(text, "/") for words in fitting for text in words)

    def _refused(self, entry: SkillEntry, why: str) -> ApprovalRequired:
        return ApprovalRequired(f"{entry.name} {why}", reason=Reason.DENIED, origin="", uri=entry.uri)
