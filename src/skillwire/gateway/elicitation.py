"""What a person reads and answers about a skill: the question, the form of a client, and the refusal."""

from __future__ import annotations

from typing import Any, Final

import mcp_types as types

from skillwire.gateway.approvals import Question, Unapproved
from skillwire.gateway.callers import Caller
from skillwire.server.handlers import Context
from skillwire.skill.entries import DYNAMIC
from skillwire.skill.uris import path_below, skill_root
from skillwire.text import safe_line
from skillwire.trust.guards import requested_tools

_FILES_SHOWN: Final = 8
_FIELD: Final = "approve"
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        _FIELD: {
            "type": "boolean",
            "title": "Approve this skill",
            "description": "Yes, it may be loaded with exactly these files.",
        }
    },
    "required": [_FIELD],
}


def refusal_text(refused: Unapproved, caller: Caller, why: str) -> str:
    """What is wrong and the one command that helps."""
    return f"{refused.uri} is not approved ({why}). {next_step(refused, caller)}"


def next_step(refused: Unapproved, caller: Caller) -> str:
    """The one command by which a person approves a skill, and what to do then."""
    skill = refused.offer.skill
    if refused.question is None and not refused.was_declined:
        return f"Change the policy of {skill.origin.label} in skillwire.toml to use it."
    if refused.offer.digest is None:
        return "It is generated on request, so only a client that can ask its user can load it."
    who = f" --caller {caller.name}" if caller.name else ""
    command = f"skillwire approve {skill.uri} --on {skill.origin.label}{who}"
    return f"A person can read and approve it with: {command}. Then try again."


def question_text(question: Question) -> str:
    """The question to a person, in plain lines. Whatever a server wrote is cleaned, and is quoted as such."""
    offer = question.offer
    skill, entry = offer.skill, offer.skill.entry
    whose = "the MCP server" if not skill.origin.is_local else "the folder"
    lines = [
        f"May the skill {safe_line(entry.name)} of {whose} {skill.origin.label} be loaded?",
        f'It says: "{safe_line(entry.description, limit=300)}"',
    ]
    if entry.resources is DYNAMIC:
        lines.append("It is generated on request: your answer is only for what was sent now.")
    else:
        root = skill_root(entry.uri)
        paths = [safe_line("/".join(path_below(file.uri, root)), limit=80) for file in entry.resources]
        more = f" and {len(paths) - _FILES_SHOWN} more" if len(paths) > _FILES_SHOWN else ""
        lines.append(f"Files: {', '.join(paths[:_FILES_SHOWN])}{more} ({entry.total_size:,} bytes)")
    for change in question.changes[:_FILES_SHOWN]:
        path = "/".join(path_below(change.uri, skill_root(entry.uri)))
        lines.append(f"Since you approved it, {safe_line(path, limit=80)} was {change.kind}.")
    if tools := requested_tools(entry.frontmatter.get("allowed-tools")):
        lines.append(f"It asks for tools, which are not granted: {safe_line(' '.join(tools), limit=200)}")
    if question.digest is not None:
        lines.append(f"Digest: {question.digest}")
    lines.append("A skill is instructions that your agent will follow. Approve it only if you trust it.")
    return "\n".join(lines)


def elicitation(question: Question, page: str | None, *, elicitation_id: str | None) -> types.ElicitRequest:
    """The question as a form, or as the URL of a page if there is one."""
    message = question_text(question)
    if page is None:
        form = types.ElicitRequestFormParams(message=message, requested_schema=_SCHEMA)
        return types.ElicitRequest(params=form)
    url = types.ElicitRequestURLParams(message=message, url=page, elicitation_id=elicitation_id)
    return types.ElicitRequest(params=url)


def modes(ctx: Context) -> tuple[bool, bool]:
    """Whether the client shows forms, and whether it opens URLs."""
    capabilities = ctx.session.client_capabilities
    declared = capabilities.elicitation if capabilities is not None else None
    if declared is None:
        return False, False
    # Before there were two, `{}` meant forms.
    return declared.form is not None or declared.url is None, declared.url is not None


def says_yes(given: types.ElicitResult | None) -> bool:
    """Whether an answer is a clear yes: the form was accepted, with its one box ticked."""
    return given is not None and given.action == "accept" and (given.content or {}).get(_FIELD) is True


def why_not(given: types.ElicitResult | None) -> str:
    """What an answer that does not count was, for the record."""
    if given is None:
        return "nobody answered"
    if given.action == "accept":
        return "the client answered without asking" if says_yes(given) else "declined"
    return "declined" if given.action == "decline" else "the question was closed"
