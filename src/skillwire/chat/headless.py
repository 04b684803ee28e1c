"""One task without a person: nothing is asked, and what needs a person is an event.

Tools of servers run only if they were allowed by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from skillwire.chat.session import ChatEvent, ChatSession
from skillwire.consent import ApprovalRequest
from skillwire.host import ReadRequest, ScriptRequest, ToolRequest
from skillwire.text import safe_line


@dataclass(slots=True)
class NobodyThere:
    """The callbacks of a host whose user is not there: each question is answered with no, and noted."""

    questions: list[ChatEvent] = field(default_factory=list[ChatEvent])

    async def ask(self, request: ApprovalRequest) -> bool:
        skill = request.skill
        return self._note(f"the skill {skill.handle} from {skill.origin} needs an approval")

    async def ask_read(self, request: ReadRequest) -> bool:
        return self._note(f"reading {safe_line(request.uri)} from {request.target} needs an approval")

    async def ask_tool(self, request: ToolRequest) -> bool:
        return self._note(
            f"the tool {safe_line(request.qualified_name)} may not be called: allow it with "
            f"--allow-tool {safe_line(request.qualified_name)}"
        )

    async def ask_script(self, request: ScriptRequest) -> bool:
        return self._note(f"the script {safe_line(request.script)} of {request.skill.handle} needs a grant")

    def _note(self, text: str) -> bool:
        self.questions.append(ChatEvent(type="person_needed", text=text))
        return False


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended."""

    answer: str
    failed: bool
    """Whether the model or its service failed."""
    person_needed: bool
    """Whether something was refused because nobody could be asked."""


async def run_task(
    session: ChatSession, message: str, nobody: NobodyThere, on_event: Callable[[ChatEvent], None]
) -> TaskResult:
    """Send one message and pass on every event until it is answered."""
    answer, failed, told = "", False, 0
    async for event in session.send(message):
        for question in nobody.questions[told:]:
            on_event(question)
        told = len(nobody.questions)
        on_event(event)
        if event.type == "text":
            answer += event.text
        elif event.type == "tool_call":
            answer = ""
        failed = failed or event.type == "error"
    return TaskResult(answer, failed, person_needed=bool(nobody.questions))
