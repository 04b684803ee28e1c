"""A model service that follows a script, over real HTTP, in the message formats of Anthropic and OpenAI.

It stands in for a model and for nothing else: requests and replies have the shape that the real services use.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class ScriptedModel:
    """What the model does in each turn: a text, or a tool call, given the tool results so far."""

    script: list[Callable[[list[str]], str | tuple[str, dict[str, Any]]]]
    key: str = "secret-key"
    requests: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def reply(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        results = _results(request.get("messages") or request["input"])
        move = self.script[min(len(results), len(self.script) - 1)](results)
        if path.endswith("/messages"):
            block = {"type": "text", "text": move}
            if not isinstance(move, str):
                block = {"type": "tool_use", "id": f"use-{len(results)}", "name": move[0], "input": move[1]}
            return {
                "id": f"msg-{len(self.requests)}",
                "type": "message",
                "role": "assistant",
                "model": request.get("model", ""),
                "stop_reason": "end_turn" if isinstance(move, str) else "tool_use",
                "stop_sequence": None,
                "content": [block],
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
        if path.endswith("/responses"):
            return _response(len(self.requests), request, len(results), move)
        message: dict[str, Any] = {"role": "assistant", "content": move}
        if not isinstance(move, str):
            function = {"name": move[0], "arguments": json.dumps(move[1])}
            calls = [{"id": f"call-{len(results)}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        reason = "stop" if isinstance(move, str) else "tool_calls"
        return {
            "id": f"chat-{len(self.requests)}",
            "object": "chat.completion",
            "created": 1,
            "model": request.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": reason}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }


def _response(
    number: int, request: dict[str, Any], calls: int, move: str | tuple[str, dict[str, Any]]
) -> dict[str, Any]:
    """A reply of OpenAI's Responses API."""
    if isinstance(move, str):
        text = {"type": "output_text", "text": move, "annotations": []}
        item = {"id": f"m-{number}", "type": "message", "role": "assistant", "content": [text]}
    else:
        item = {"id": f"f-{number}", "type": "function_call", "call_id": f"call-{calls}", "name": move[0]}
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
    }


def _results(messages: list[dict[str, Any]]) -> list[str]:
    """The tool results in a conversation, in order, in any of the formats."""
    found: list[str] = []
    for message in messages:
        if message.get("type") == "function_call_output":
            found.append(_text(message["output"]))
        elif message.get("role") == "tool":
            found.append(_text(message["content"]))
        elif isinstance(message.get("content"), list):
            blocks = [block for block in message["content"] if block["type"] == "tool_result"]
            found += [_text(block["content"]) for block in blocks]
    return found


def _text(content: str | list[dict[str, Any]]) -> str:
    """A result, which some clients send in blocks."""
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


@contextmanager
def serving(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """Serve it on loopback until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            key = self.headers.get("x-api-key") or (self.headers.get("authorization") or "").partition(" ")[2]
            if key != model.key:
                self._send(401, {"error": {"message": f"bad key {key}"}})
            else:
                self._send(200, model.reply(self.path, json.loads(body)))

        def _send(self, status: int, value: dict[str, Any]) -> None:
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
