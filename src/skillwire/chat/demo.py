"""`skillwire chat --demo`: two small skills on a server of this process, and a model that follows a script.

Everything but the model is real: the server, the listing, the approval, the verified text, the tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

_SKILLS: Final[Mapping[str, str]] = {
    "release-notes/SKILL.md": """\
---
name: release-notes
description: Writes release notes from a list of changes. Use it when a version is about to be published.
---
# Release notes

1. Read references/format.md of this skill.
2. Sort the changes into Added, Changed and Fixed.
3. Write one sentence for each, in the words of a user, not of the code.
""",
    "release-notes/references/format.md": """\
# Format

    ## VERSION

    ### Added
    - What a user can do now.
""",
    "commit-message/SKILL.md": """\
---
name: commit-message
description: Writes commit messages that say what changed and why. Use it before a commit.
---
# Commit messages

One line of at most 72 characters in the imperative, an empty line, then the reason.
""",
}
_SKILL: Final = "release-notes"
_FORMAT: Final = "references/format.md"
_ANSWER: Final = """\
I read the skill **release-notes** and its file `references/format.md`, after you approved exactly these
files. This is how its notes look:

## 1.0.0

### Added
- Skills of servers can be approved in the session.

I am a script, so I say this to every message. Try `/skills`, `/context`, `/tools` and `/mcp`, or a real
model with `--model`.
"""


def demo_skills(folder: Path) -> Path:
    """Write the skills of the demo below a folder, and give the folder that has them."""
    for path, text in _SKILLS.items():
        file = folder / "skills" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    return folder / "skills"


Move: TypeAlias = str | tuple[str, Mapping[str, Any]]
"""What a scripted model does: say a text, or call a tool."""


def demo_model() -> FunctionModel:
    """A model that loads a skill, reads a file of it, and says what it saw."""
    return scripted_model(_demo_moves, name="demo")


def scripted_model(
    moves: Callable[[str, Sequence[str], Sequence[str]], Sequence[Move]], *, name: str = "scripted"
) -> FunctionModel:
    """A model that follows a script, in this process.

    `moves` gets what a model is sent: its instructions, the names of its tools, and their results since the
    last message of the user.
    """

    async def follow(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        results = _results(messages)
        tools = [tool.name for tool in info.function_tools]
        for number, move in enumerate(moves(info.instructions or "", tools, results)):
            if isinstance(move, str):
                for word in re.split(r"(?<= )", move):
                    yield word
            else:
                call = DeltaToolCall(move[0], json.dumps(move[1]), tool_call_id=f"{len(results)}-{number}")
                yield {number: call}

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        made = moves(info.instructions or "", [tool.name for tool in info.function_tools], _results(messages))
        return ModelResponse(
            parts=[
                TextPart(one) if isinstance(one, str) else ToolCallPart(one[0], dict(one[1])) for one in made
            ]
        )

    return FunctionModel(respond, stream_function=follow, model_name=name)


def _demo_moves(told: str, tools: Sequence[str], results: Sequence[str]) -> Sequence[Move]:
    if not tools:
        return ["You tried the demo, and the skill release-notes was loaded."]  # A summary was asked for.
    if not results:
        said = "A skill fits this. I load it first; the question is yours to answer.\n\n"
        return [said, load_call(tools, told, _SKILL)]
    if "Read references/format.md" not in results[0]:
        return ["The skill was not approved, so I did not get its text. Ask again, and answer `y`."]
    return [file_call(tools, results[0], _SKILL, _FORMAT)] if len(results) == 1 else [_ANSWER]


def load_call(tools: Sequence[str], told: str, skill: str) -> tuple[str, dict[str, str]]:
    """The call that loads a skill, in any style, from what a model is told: the catalog, and its tools."""
    location = re.search(rf"\(uri: (\S*{skill}\S*), server: ([^)]+)\)", told)
    if location is not None:
        return "read_mcp_resource", {"server": location[2], "uri": location[1]}
    named = re.search(rf"[\w:./-]*{skill}(?![\w/-])", told)
    handle = named[0] if named else skill
    if "Skill" in tools:
        return "Skill", {"skill": handle}
    return ("activate_skill" if "activate_skill" in tools else "load_skill"), {"name": handle}


def file_call(
    tools: Sequence[str], told: str, skill: str, path: str, *, server: str = "demo"
) -> tuple[str, dict[str, str]]:
    """The call that reads a file of a loaded skill, in any style."""
    if "read_skill_file" in tools:
        return "read_skill_file", {"name": skill, "path": path}
    pointer = re.search(rf'load_skill\(name: "([^"]*{re.escape(path)})"\)', told)
    if "load_skill" in tools:
        return "load_skill", {"name": pointer[1] if pointer else f"{skill}/{path}"}
    listed = re.search(rf"skill://[^\s\"'<>()`]*{re.escape(path)}", told)
    uri = listed[0] if listed else f"skill://{skill}/{path}"
    reader = "ReadMcpResourceTool" if "ReadMcpResourceTool" in tools else "read_mcp_resource"
    return reader, {"server": server, "uri": uri}


def _results(messages: Sequence[ModelMessage]) -> list[str]:
    """The results of the tools since the last message of the user."""
    results: list[str] = []
    for message in messages:
        if isinstance(message, ModelRequest):
            for part in message.parts:
                if isinstance(part, UserPromptPart):
                    results.clear()
                elif isinstance(part, ToolReturnPart):
                    results.append(str(part.content))
    return results
