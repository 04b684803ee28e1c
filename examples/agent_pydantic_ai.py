"""An agent on pydantic-ai with skills of an MCP server and a scripted model. No model service is needed."""

import asyncio
import sys
import tempfile
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

from skillwire import SkillHost
from skillwire.adapters.pydantic_ai import SkillToolset

SKILLWIRE = Path(sys.executable).with_name("skillwire")
SKILLS = Path(__file__).parent / "skills"


async def ask_the_user(request):
    """A real agent shows the text (`request.preview`) and asks a person."""
    print(f"The user approves {request.skill.handle} from {request.skill.origin}.")
    return True


def scripted_model(messages, info):
    """Do what a model would: find the skill in the catalog, load it, read the file it refers to, answer."""
    returns = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    match len(returns):
        case 0:
            assert "<name>code-review</name>" in info.instructions
            return ModelResponse([ToolCallPart("load_skill", {"name": "code-review"})])
        case 1:
            path = "references/checklist.md"
            return ModelResponse([ToolCallPart("read_skill_file", {"name": "code-review", "path": path})])
        case _:
            lines = [line for line in str(returns[-1].content).splitlines() if line.startswith("- ")]
            return ModelResponse([TextPart(f"I review by {len(lines)} points, such as: {lines[0][2:]}")])


async def main():
    with tempfile.TemporaryDirectory() as state:
        async with SkillHost(
            servers={"samples": f"{SKILLWIRE} serve {SKILLS}"},
            ask=ask_the_user,
            # Omit these two to keep approvals and cached files between runs.
            cache_directory=Path(state) / "cache",
            approvals_file=Path(state) / "approvals.sqlite",
        ) as host:
            agent = Agent(
                FunctionModel(scripted_model),  # A real model: "anthropic:claude-sonnet-4-5"
                instructions="Help with code.",
                toolsets=[SkillToolset(host)],  # The catalog, updated for each request, and the tools.
            )
            print((await agent.run("Please review my change.")).output)


if __name__ == "__main__":
    asyncio.run(main())
