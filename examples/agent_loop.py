"""A plain agent loop in the tool formats of Anthropic and OpenAI, with a scripted model.

Run `python examples/agent_loop.py anthropic`, or `openai`. No model service is needed.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from skillwire import SkillHost

SKILLWIRE = Path(sys.executable).with_name("skillwire")
SKILLS = Path(__file__).parent / "skills"
STEPS = [
    ("load_skill", {"name": "releasenotes"}),  # A wrong name: the error suggests the right one.
    ("load_skill", {"name": "release-notes"}),
    ("read_skill_file", {"name": "release-notes", "path": "assets/release-notes.md"}),
]


async def call(tools, name, arguments):
    """Call one tool. The result goes back to the model as a tool result, never as a system message."""
    result = await tools[name].handler(arguments)
    outcome = "error" if result.is_error else "ok"
    print(f"{name}({json.dumps(arguments)}): {outcome}, {len(result.text)} characters")
    return result


async def anthropic_loop(host):
    """The loop of the Messages API: `tool_use` blocks go out, `tool_result` blocks come back."""
    tools = {tool.name: tool for tool in host.tools()}
    request: dict[str, Any] = {
        "system": f"Help with releases.\n\n{host.catalog()}",
        "tools": [tool.for_anthropic() for tool in tools.values()],
        "messages": [{"role": "user", "content": "Write release notes."}],
    }
    while (reply := anthropic_model(request))["stop_reason"] == "tool_use":
        request["messages"].append({"role": "assistant", "content": reply["content"]})
        results = []
        for block in reply["content"]:
            result = await call(tools, block["name"], block["input"])
            results.append(
                {
                    "type": "tool_result",
                    "tool_use_id": block["id"],
                    "content": result.text,
                    "is_error": result.is_error,
                }
            )
        request["messages"].append({"role": "user", "content": results})
    return reply["content"][0]["text"]


async def openai_loop(host):
    """The loop of Chat Completions: `tool_calls` go out, messages of the role `tool` come back."""
    tools = {tool.name: tool for tool in host.tools()}
    request: dict[str, Any] = {
        "tools": [tool.for_openai() for tool in tools.values()],
        "messages": [
            {"role": "system", "content": f"Help with releases.\n\n{host.catalog()}"},
            {"role": "user", "content": "Write release notes."},
        ],
    }
    while (message := openai_model(request)).get("tool_calls"):
        request["messages"].append(message)
        for tool_call in message["tool_calls"]:
            function = tool_call["function"]
            result = await call(tools, function["name"], json.loads(function["arguments"]))
            request["messages"].append(
                {"role": "tool", "tool_call_id": tool_call["id"], "content": result.text}
            )
    return message["content"]


def anthropic_model(request) -> dict[str, Any]:
    """Stands in for `client.messages.create(**request)`."""
    assert "release-notes" in request["system"]
    assert all(tool["input_schema"]["type"] == "object" for tool in request["tools"])
    results = [
        message["content"][0] for message in request["messages"] if isinstance(message["content"], list)
    ]
    turn = sum(block["type"] == "tool_result" for block in results)
    if turn < len(STEPS):
        name, arguments = STEPS[turn]
        block = {"type": "tool_use", "id": f"use-{turn}", "name": name, "input": arguments}
        return {"stop_reason": "tool_use", "content": [block]}
    return {"stop_reason": "end_turn", "content": [{"type": "text", "text": answer(results[-1]["content"])}]}


def openai_model(request) -> dict[str, Any]:
    """Stands in for `client.chat.completions.create(**request).choices[0].message`."""
    assert "release-notes" in request["messages"][0]["content"]
    assert all(tool["function"]["parameters"]["type"] == "object" for tool in request["tools"])
    results = [message for message in request["messages"] if message["role"] == "tool"]
    if len(results) < len(STEPS):
        name, arguments = STEPS[len(results)]
        function = {"name": name, "arguments": json.dumps(arguments)}
        calls = [{"id": f"call-{len(results)}", "type": "function", "function": function}]
        return {"role": "assistant", "content": None, "tool_calls": calls}
    return {"role": "assistant", "content": answer(results[-1]["content"])}


def answer(text):
    headings = [line.strip("# ") for line in text.splitlines() if line.startswith("## ")]
    return f"The notes have these parts: {', '.join(headings)}"


async def ask_the_user(request):
    """A real agent shows the text (`request.preview`) and asks a person."""
    print(f"The user approves {request.skill.handle} from {request.skill.origin}.")
    return True


async def main(api):
    loops = {"anthropic": anthropic_loop, "openai": openai_loop}
    with tempfile.TemporaryDirectory() as state:
        async with SkillHost(
            servers={"samples": f"{SKILLWIRE} serve {SKILLS}"},
            ask=ask_the_user,
            # Omit these two to keep approvals and cached files between runs.
            cache_directory=Path(state) / "cache",
            approvals_file=Path(state) / "approvals.sqlite",
        ) as host:
            print(await loops[api](host))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "anthropic"))
