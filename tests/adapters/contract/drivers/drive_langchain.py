# pyright: basic, reportMissingImports=false
"""LangChain's create_agent on LangGraph, with a chat model of its own interface."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from adapters.contract.driver import Answer, Script, agrees
from skillwire.adapters.langchain import SkillMiddleware
from skillwire.host import SkillHost

asks_natively = True
package = "langchain"


class ScriptModel(BaseChatModel):
    script: Any
    tool_names: tuple[str, ...] = ()

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **options: Any) -> Runnable:
        names = [tool.name if hasattr(tool, "name") else tool["name"] for tool in tools]
        return self.model_copy(update={"tool_names": tuple(names)})

    def _generate(self, messages: list[Any], *rest: Any, **options: Any) -> ChatResult:
        system = "".join(one.text for one in messages if isinstance(one, SystemMessage))
        results = [one.text for one in messages if isinstance(one, ToolMessage)]
        move = self.script.next_move(system, list(self.tool_names), results)
        if isinstance(move, str):
            message = AIMessage(move)
        else:
            call = {"name": move[0], "args": move[1], "id": f"call-{len(results)}"}
            message = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=message)])


def make_agent(host: SkillHost, script: Script, servers: Any = ()) -> Any:
    return create_agent(
        ScriptModel(script=script),
        system_prompt="You help.",
        middleware=[SkillMiddleware(host, server_tools=servers)],
        checkpointer=InMemorySaver(),
    )


def _answer(result: dict[str, Any], script: Script, user: Answer) -> Command | None:
    if not (interrupts := result.get("__interrupt__")):
        return None
    question = interrupts[0].value
    return Command(resume=question["digest"] if script.ask(question, user) else "no")


async def run(
    host: SkillHost, script: Script, user: Answer = agrees, make: Callable[..., Any] = make_agent
) -> str:
    agent = make(host, script, await script.server_tools(host))
    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
    result = await agent.ainvoke({"messages": [{"role": "user", "content": "Go."}]}, config)
    while (answer := _answer(result, script, user)) is not None:
        result = await agent.ainvoke(answer, config)
    return result["messages"][-1].text


def run_sync(
    host: SkillHost, script: Script, user: Answer = agrees, make: Callable[..., Any] = make_agent
) -> str:
    agent = make(host, script)
    config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
    result = agent.invoke({"messages": [{"role": "user", "content": "Go."}]}, config)
    while (answer := _answer(result, script, user)) is not None:
        result = agent.invoke(answer, config)
    return result["messages"][-1].text
