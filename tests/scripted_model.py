"""A model service that follows a script, over real HTTP, whole or streamed: Anthropic's Messages, OpenAI's
Responses and Chat Completions, and Gemini.

It stands in for a model and for nothing else: requests and replies have the shape that the real services use.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic_ai.models import Model

Move: TypeAlias = str | tuple[str, dict[str, Any]]
"""A text, or a call of a tool. A name that begins with `*` is for the tool whose name ends so."""

DEFERRED = "ToolSearch"
"""The tool of Claude Code that makes tools available of which the model has seen the names alone."""


@dataclass
class ScriptedModel:
    """What the model does in each turn: a text, or a tool call, given the tool results so far.

    `requests` are in the order in which they came, and `times` when. Agents also ask for titles and
    summaries: with `only_with_tools`, requests without tools are in `others` instead, and get a short text.
    """

    script: list[Callable[[list[str]], Move]]
    key: str = "secret-key"
    only_with_tools: bool = False
    requests: list[dict[str, Any]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    others: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def reply(self, path: str, request: dict[str, Any]) -> dict[str, Any] | list[tuple[str, dict[str, Any]]]:
        """The reply to a request, or its events if it is streamed."""
        move: Move = "ok"
        results = tool_results(request)
        tools = tool_names(request)
        if tools or not self.only_with_tools:
            self.times.append(time.monotonic())
            self.requests.append(request)
            counted = [result for result in results if not any(mark in result for mark in _NOT_COUNTED)]
            move = self.script[min(len(counted), len(self.script) - 1)](counted)
            move = _resolved(move, tools, waited=len(results) - len(counted))
        else:
            self.others.append(request)
        number = len(self.requests) + len(self.others)
        if path.endswith("/messages"):
            message = _message(number, request, move)
            return _message_events(message) if request.get("stream") else message
        if path.endswith("/responses"):
            response = _response(number, request, move)
            return _response_events(response) if request.get("stream") else response
        if "enerateContent" in path:
            content = _gemini(move)
            return [("", content)] if "stream" in path else content
        completion = _completion(number, request, move)
        return _completion_events(completion) if request.get("stream") else completion


_FOUND = "tools are available: "
_WAITED = "waiting-for-tools"
_NOT_COUNTED = (_FOUND, _WAITED, "Some MCP servers are still connecting")
_WAITING = ("exec_command", {"cmd": f"sleep 0.5; echo {_WAITED}"})
"""What the model does in Codex, which does not wait for the tools of its servers."""
_MOST_WAITS = 60


def _resolved(move: Move, tools: list[str], *, waited: int) -> Move:
    """A call with the full name of its tool; if it must be searched or waited for, the call that does so."""
    if isinstance(move, str) or not move[0].startswith("*"):
        return move
    ending = move[0][1:]
    for name in tools:
        if name.endswith(ending):
            return name, move[1]
    if DEFERRED in tools and waited < _MOST_WAITS:
        return DEFERRED, {"query": ending, "max_results": 5}
    if _WAITING[0] in tools and waited < _MOST_WAITS:
        return _WAITING
    return f"There is no tool {ending}"


def tool_names(request: dict[str, Any]) -> list[str]:
    """The names of the tools in a request, in any of the formats."""
    names: list[str] = []
    for tool in request.get("tools") or ():
        if "functionDeclarations" in tool:
            names += [each["name"] for each in tool["functionDeclarations"]]
        elif tool.get("type") == "namespace":
            names += [f"{tool['name']}{each['name']}" for each in tool.get("tools", ())]
        else:
            names.append(tool.get("name") or tool.get("function", {}).get("name") or tool.get("type", ""))
    return names


def text_of(request: dict[str, Any]) -> str:
    """All that a model gets to read with a request: instructions, messages, tools."""
    return json.dumps(request, ensure_ascii=False)


# Anthropic


def _message(number: int, request: dict[str, Any], move: Move) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "text", "text": move}
    if not isinstance(move, str):
        block = {"type": "tool_use", "id": f"use-{number}", "name": move[0], "input": move[1]}
    return {
        "id": f"msg-{number}",
        "type": "message",
        "role": "assistant",
        "model": request.get("model", ""),
        "stop_reason": "end_turn" if isinstance(move, str) else "tool_use",
        "stop_sequence": None,
        "content": [block],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _message_events(message: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    [block] = message["content"]
    begun, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": ""}
    if block["type"] == "text":
        begun, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        delta["partial_json"] = json.dumps(block["input"])
    ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**message, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": begun},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return [(event["type"], event) for event in events]


# OpenAI


def _response(number: int, request: dict[str, Any], move: Move) -> dict[str, Any]:
    """A reply of the Responses API."""
    item: dict[str, Any]
    if isinstance(move, str):
        text = {"type": "output_text", "text": move, "annotations": []}
        item = {"id": f"m-{number}", "type": "message", "role": "assistant", "content": [text]}
    else:
        item = {"id": f"f-{number}", "type": "function_call", "call_id": f"call-{number}", "name": move[0]}
        for tool in request.get("tools") or ():
            if tool.get("type") == "namespace" and move[0].startswith(tool["name"]):
                item |= {"namespace": tool["name"], "name": move[0].removeprefix(tool["name"])}
        item["arguments"] = json.dumps(move[1])
    return {
        "id": f"resp-{number}",
        "object": "response",
        "created_at": 1,
        "model": request.get("model", ""),
        "status": "completed",
        "output": [{**item, "status": "completed"}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": request.get("tools", []),
        "usage": {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2},
    }


def _response_events(response: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    [item] = response["output"]
    begun = {**response, "status": "in_progress", "output": []}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return [(event["type"], event) for event in events]


def _completion(number: int, request: dict[str, Any], move: Move) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": move}
    if not isinstance(move, str):
        function = {"name": move[0], "arguments": json.dumps(move[1])}
        calls = [{"id": f"call-{number}", "type": "function", "function": function}]
        message = {"role": "assistant", "content": None, "tool_calls": calls}
    reason = "stop" if isinstance(move, str) else "tool_calls"
    return {
        "id": f"chat-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": request.get("model", ""),
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _completion_events(completion: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    [choice] = completion["choices"]
    delta = dict(choice["message"])
    if calls := delta.get("tool_calls"):
        delta["tool_calls"] = [{"index": 0, **calls[0]}]
    head = {**completion, "object": "chat.completion.chunk"}
    return [
        ("", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
        ("", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}),
    ]


# Gemini


def _gemini(move: Move) -> dict[str, Any]:
    part = {"text": move} if isinstance(move, str) else {"functionCall": {"name": move[0], "args": move[1]}}
    return {
        "candidates": [
            {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"},
        ],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
    }


# Requests


def tool_results(request: dict[str, Any]) -> list[str]:
    """The tool results in a conversation, in order, in any of the formats."""
    found: list[str] = []
    for message in request.get("messages") or request.get("input") or request.get("contents") or ():
        if isinstance(message, str):
            continue
        if message.get("type") in ("function_call_output", "custom_tool_call_output"):
            found.append(_text(message["output"]))
        elif message.get("role") == "tool":
            found.append(_text(message["content"]))
        elif isinstance(message.get("content"), list):
            blocks = [block for block in message["content"] if block["type"] == "tool_result"]
            found += [_text(block.get("content", "")) for block in blocks]
        elif isinstance(message.get("parts"), list):
            parts = [part["functionResponse"] for part in message["parts"] if "functionResponse" in part]
            found += [json.dumps(part["response"], ensure_ascii=False) for part in parts]
    return found


def _text(content: str | list[dict[str, Any]]) -> str:
    """A result, which some clients send in blocks."""
    if isinstance(content, str):
        return content
    if content and all(block.get("type") == "tool_reference" for block in content):
        return _FOUND + ", ".join(block["tool_name"] for block in content)
    return "".join(block.get("text", "") for block in content)


@contextmanager
def serving(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """Serve it on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"object": "list", "data": [], "models": []})

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            path = self.path.partition("?")[0]
            key = (
                self.headers.get("x-api-key")
                or self.headers.get("x-goog-api-key")
                or (self.headers.get("authorization") or "").partition(" ")[2]
            )
            if key != model.key:
                self._send(401, {"error": {"message": f"bad key {key}"}})
                return
            if path.endswith(("count_tokens", ":countTokens")):
                self._send(200, {"input_tokens": 1, "totalTokens": 1})
                return
            reply = model.reply(path, json.loads(body))
            if isinstance(reply, dict):
                self._send(200, reply)
            else:
                self._stream(reply, is_chat=path.endswith("/chat/completions"))

        def _stream(self, events: list[tuple[str, dict[str, Any]]], *, is_chat: bool) -> None:
            lines = [
                (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
                for name, event in events
            ]
            data = "".join([*lines, *(["data: [DONE]\n\n"] if is_chat else [])]).encode()
            self._answer(200, "text/event-stream", data)

        def _send(self, status: int, value: dict[str, Any]) -> None:
            self._answer(status, "application/json", json.dumps(value).encode())

        def _answer(self, status: int, media: str, data: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", media)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def anthropic_model(url: str, key: str, *, retries: int | None = None) -> Model:
    """A model of pydantic-ai at this service. Its client is imported here: that takes most of a second, in
    every process that would collect the tests."""
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(api_key=key, base_url=url)
    if retries is not None:
        provider.client.max_retries = retries
    return AnthropicModel("m", provider=provider)
