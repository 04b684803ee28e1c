# pyright: basic, reportMissingImports=false
"""deepagents: the middleware of the LangChain adapter in create_deep_agent."""

from __future__ import annotations

from functools import partial
from typing import Any

from deepagents import create_deep_agent
from langgraph.checkpoint.memory import InMemorySaver

from adapters.contract.driver import Script
from adapters.contract.drivers import drive_langchain as langchain
from skillwire.adapters.langchain import SkillMiddleware
from skillwire.host import SkillHost

asks_natively = True
package = "deepagents"


def _make(host: SkillHost, script: Script, servers: Any = ()) -> Any:
    return create_deep_agent(
        langchain.ScriptModel(script=script),
        system_prompt="You help.",
        middleware=[SkillMiddleware(host, server_tools=servers)],
        checkpointer=InMemorySaver(),
    )


run = partial(langchain.run, make=_make)
run_sync = partial(langchain.run_sync, make=_make)
