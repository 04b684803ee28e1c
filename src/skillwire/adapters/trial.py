"""Trial: one task through a real model service, to see whether a model uses a skill as it should.

Five things are checked: the skill is in the prompt, the model calls the tool that loads it, its text arrives
fenced, its supporting files are read, and the answer follows the skill.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

import httpx2

from skillwire.errors import SourceError
from skillwire.host.host import SkillHost
from skillwire.host.http.client import ssl_trust
from skillwire.host.tools import ToolResult
from skillwire.issues import shown
from skillwire.skill.entries import DYNAMIC, SkillEntry
from skillwire.skill.uris import path_below, skill_root

TRIAL_SKILL: Final = "station-report"
TRIAL_URI: Final = f"skill://{TRIAL_SKILL}/SKILL.md"
TRIAL_TASK: Final = "Write the station report for platform 4. Answer with the report alone."
_TURNS: Final = 12
_SECONDS: Final = 120
_REPLY_BYTES: Final = 16 * 1024 * 1024
_INSTRUCTIONS: Final = "You are a helpful assistant. Use a skill when one fits the task.\n\n"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that the model asks for."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model said: text, or tool calls, or both. `raw` is the message as the service wants it back."""

    text: str
    calls: tuple[Call, ...]
    raw: Any


class ModelService(Protocol):
    """A model behind an HTTP API."""

    async def send(self, system: str, host: SkillHost, history: list[Any]) -> Reply:
        """The model's next message."""
        ...

    def results(self, answered: list[tuple[Call, ToolResult]]) -> list[Any]:
        """The answers to tool calls, as messages of this API."""
        ...


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. `passed` is `None` when the task gave no occasion for it."""

    name: str
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Trial:
    """How a model did."""

    checks: tuple[Check, ...]
    answer: str
    calls: tuple[tuple[str, str], ...] = field(default=())

    @property
    def passed(self) -> bool:
        return all(check.passed is not False for check in self.checks)


def write_trial_skill(directory: Path) -> str:
    """Write a skill that no model can answer without reading it, and give the word its answer must have."""
    word = f"{secrets.choice(('amber', 'cobalt', 'ochre', 'violet'))}-{secrets.token_hex(3)}"
    root = directory / TRIAL_SKILL
    (root / "references").mkdir(parents=True)
    (root / "SKILL.md").write_text(
        f"---\nname: {TRIAL_SKILL}\n"
        "description: Writes station reports in the required form. Use when asked for a station report.\n"
        "---\n# Station report\n\n"
        "A report is one line. It ends with the signal word of the day, which is in\n"
        "[references/signal.md](references/signal.md). Read that file, then write the line.\n",
        "utf-8",
    )
    (root / "references/signal.md").write_text(f"The signal word of the day is {word}.\n", "utf-8")
    return word


async def run_trial(
    host: SkillHost, service: ModelService, *, skill: str, task: str, expect: str, turns: int = _TURNS
) -> Trial:
    """Give a model a task, answer its tool calls, and check what it did with the skill."""
    system = _INSTRUCTIONS + host.catalog()
    known = await host.find(skill)
    tools = {tool.name: tool for tool in host.tools()}
    history: list[Any] = [{"role": "user", "content": task}]
    done: list[tuple[Call, ToolResult]] = []
    answer = ""
    for _ in range(turns):
        reply = await service.send(system, host, history)
        history.append(reply.raw)
        answer = reply.text
        if not reply.calls:
            break
        answered: list[tuple[Call, ToolResult]] = []
        for call in reply.calls:
            tool = tools.get(call.name)
            if tool is None:
                answered.append((call, ToolResult(f"there is no tool {shown(call.name)}", is_error=True)))
                continue
            answered.append((call, await tool.handler(call.arguments)))
        done.extend(answered)
        history.extend(service.results(answered))
    held = known.handle in {one.handle for one in host.active()}
    loaded = [
        result for call, result in done if not result.is_error and _names(call, known.handle, known.uri)
    ]
    fence = "<local_skill_" if known.origin.is_local else "<untrusted_skill_"
    fenced = [result for result in loaded if fence in result.text]
    files = _supporting_files(known.entry)
    reads = [call for call, result in done if not result.is_error and _names(call, *files)]
    return Trial(
        checks=(
            Check("the skill is in the prompt", known.handle in system),
            Check("the model loads the skill", held, "" if held else "no tool call loaded it"),
            Check("its text arrives fenced", bool(fenced), "" if loaded else "no text of it arrived"),
            Check(
                "supporting files are read",
                bool(reads) if files else None,
                f"it has {len(files)}, and none was read" if files else "it has none",
            ),
            Check("the answer follows the skill", expect.lower() in answer.lower(), f"looked for {expect!r}"),
        ),
        answer=answer,
        calls=tuple((call.name, json.dumps(dict(call.arguments))[:200]) for call, _ in done),
    )


def _supporting_files(entry: SkillEntry) -> list[str]:
    """The paths of a skill's files but `SKILL.md`, as its entry lists them."""
    if entry.resources is DYNAMIC:
        return []
    root = skill_root(entry.uri)
    return ["/".join(path_below(one.uri, root)) for one in entry.resources if one.uri != entry.uri]


def _names(call: Call, *texts: str) -> bool:
    values = [value for value in call.arguments.values() if isinstance(value, str)]
    return any(text in value for value in values for text in texts)


def _arguments(value: object) -> Mapping[str, Any]:
    """The arguments of a call, which some services send as JSON text; empty when they are not an object."""
    if isinstance(value, str):
        try:
            value = json.loads(value or "{}")
        except ValueError:
            value = {}
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class HttpService:
    """A model service by its address, key and model, in one of two message formats."""

    format: Literal["anthropic", "openai"]
    base_url: str
    key: str = field(repr=False)
    model: str

    async def send(self, system: str, host: SkillHost, history: list[Any]) -> Reply:
        try:
            return await self._reply(system, host, history)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise SourceError(
                f"the model service did not answer with a message in the {self.format} format: "
                "check --format and --base-url"
            ) from None

    async def _reply(self, system: str, host: SkillHost, history: list[Any]) -> Reply:
        from skillwire.adapters import anthropic, openai

        if self.format == "anthropic":
            reply = await self._post(
                "/v1/messages",
                {"x-api-key": self.key, "anthropic-version": "2023-06-01"},
                {
                    "system": system,
                    "tools": anthropic.tools_for(host),
                    "messages": history,
                    "max_tokens": 2048,
                },
            )
            blocks: list[dict[str, Any]] = reply["content"]
            return Reply(
                "".join(block.get("text", "") for block in blocks if block.get("type") == "text"),
                tuple(
                    Call(block["id"], block["name"], _arguments(block.get("input")))
                    for block in blocks
                    if block.get("type") == "tool_use"
                ),
                {"role": "assistant", "content": blocks},
            )
        messages = [{"role": "system", "content": system}, *history]
        reply = await self._post(
            "/v1/chat/completions",
            {"authorization": f"Bearer {self.key}"},
            {"tools": openai.chat_tools(host), "messages": messages},
        )
        message: dict[str, Any] = reply["choices"][0]["message"]
        calls: list[dict[str, Any]] = message.get("tool_calls") or []
        return Reply(
            message.get("content") or "",
            tuple(
                Call(call["id"], call["function"]["name"], _arguments(call["function"].get("arguments")))
                for call in calls
            ),
            message,
        )

    def results(self, answered: list[tuple[Call, ToolResult]]) -> list[Any]:
        if self.format == "anthropic":
            blocks = [
                {
                    "type": "tool_result",
                    "tool_use_id": call.id,
                    "content": made.text,
                    "is_error": made.is_error,
                }
                for call, made in answered
            ]
            return [{"role": "user", "content": blocks}]
        return [{"role": "tool", "tool_call_id": call.id, "content": made.text} for call, made in answered]

    async def _post(self, path: str, headers: dict[str, str], body: dict[str, Any]) -> Any:
        url = self.base_url.rstrip("/").removesuffix("/v1") + path
        try:
            async with (
                httpx2.AsyncClient(timeout=_SECONDS, verify=ssl_trust()) as client,
                client.stream("POST", url, headers=headers, json={"model": self.model, **body}) as response,
            ):
                data = b""
                async for chunk in response.aiter_bytes():
                    data += chunk
                    if len(data) > _REPLY_BYTES:
                        raise SourceError("the model service sent a reply of over 16 MiB: nothing was used")
        except httpx2.TransportError as error:
            raise SourceError(
                f"the model service at {self.base_url} cannot be reached ({type(error).__name__}): "
                "check --base-url and the network"
            ) from None
        if response.status_code in (401, 403):
            raise SourceError("the model service does not accept the key: check the environment variable")
        if response.status_code != 200:
            raise SourceError(
                f"the model service answered with HTTP {response.status_code}",
                said=data[:300].decode("utf-8", "replace"),
            )
        try:
            return json.loads(data)
        except ValueError:
            raise SourceError("the model service answered with something that is not JSON") from None
