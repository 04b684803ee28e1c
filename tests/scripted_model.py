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
        results = _results(request["messages"])
        move = self.script[min(len(results), len(self.script) - 1)](results)
        if path.endswith("/messages"):
            if isinstance(move, str):
                return {"stop_reason": "end_turn", "content": [{"type": "text", "text": move}]}
            name, arguments = move
            block = {"type": "tool_use", "id": f"use-{len(results)}", "name": name, "input": arguments}
            return {"stop_reason": "tool_use", "content": [block]}
        if isinstance(move, str):
            message: dict[str, Any] = {"role": "assistant", "content": move}
        else:
            name, arguments = move
            function = {"name": name, "arguments": json.dumps(arguments)}
            calls = [{"id": f"call-{len(results)}", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def _results(messages: list[dict[str, Any]]) -> list[str]:
    """The tool results in a conversation, in order, in either format."""
    found: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            found.append(message["content"])
        elif isinstance(message["content"], list):
            found += [block["content"] for block in message["content"] if block["type"] == "tool_result"]
    return found


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
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
