"""A session in which a person, a model, and the skills and tools of servers meet: `skillwire chat`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillwire.lazy import export

if TYPE_CHECKING:
    from skillwire.chat.demo import demo_model as demo_model
    from skillwire.chat.demo import demo_skills as demo_skills
    from skillwire.chat.session import SERVICE_FAILED as SERVICE_FAILED
    from skillwire.chat.session import ChatError as ChatError
    from skillwire.chat.session import ChatEvent as ChatEvent
    from skillwire.chat.session import ChatLimits as ChatLimits
    from skillwire.chat.session import ChatSession as ChatSession
    from skillwire.chat.session import EventType as EventType
    from skillwire.chat.session import Model as Model
    from skillwire.chat.session import NobodyThere as NobodyThere
    from skillwire.chat.session import TaskResult as TaskResult
    from skillwire.chat.session import find_model as find_model
    from skillwire.chat.session import run_task as run_task
    from skillwire.chat.terminal import ChatTerminal as ChatTerminal
    from skillwire.chat.terminal import SessionCommands as SessionCommands

export(
    __name__,
    {
        "demo": "demo_model demo_skills",
        "session": (
            "SERVICE_FAILED ChatError ChatEvent ChatLimits ChatSession EventType Model NobodyThere "
            "TaskResult find_model run_task"
        ),
        "terminal": "ChatTerminal SessionCommands",
    },
    extra="chat",
)
