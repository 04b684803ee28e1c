"""Defects of the base protocol, the declaration and the two revisions."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import anyio.lowlevel

from conformance.clean_server import EXTENSION, LEGACY, MODERN, CleanServer, Json
from conformance.methods import DIRECTORY, GET, LIST
from conformance.switches import SILENCE, Change, Defect, drop, in_answer, in_result, put, refused_by

_TURNS = 100
"""So many turns of the event loop take requests that were sent together to the server, from the same loop."""


def no_uri(params: Json) -> bool:
    """The probe without a URI: nothing else depends on its answer."""
    return "uri" not in params


def on(era: str) -> Any:
    return lambda params: params["era"] == era


def http(**how: Any) -> Change:
    return lambda answer: {**answer, "http": how}


def protocol_defects() -> Iterator[Defect]:
    def spoilt(name: str, rule: str, change: Change, **options: Any) -> Defect:
        return in_answer(name, rule, GET, change, when=no_uri, **options)

    yield spoilt("mute", "MCP/no-answer", lambda _answer: SILENCE)
    yield spoilt("no-jsonrpc", "MCP/json-rpc", drop("jsonrpc"))
    yield spoilt("other-id", "MCP/json-rpc", put(id=424242))
    yield spoilt("result-and-error", "MCP/json-rpc", put(result={}))
    yield spoilt("neither-result-nor-error", "MCP/json-rpc", drop("error"))
    yield spoilt("error-without-code", "MCP/json-rpc", put(error={"message": "no"}))
    yield spoilt("error-is-text", "MCP/json-rpc", put(error="no"))
    yield spoilt("result-is-array", "MCP/json-rpc", lambda a: {**drop("error")(a), "result": []})
    yield spoilt("torn-json", "MCP/json-rpc", http(body=b'{"jsonrpc": "2.0", '))
    yield spoilt("nan", "MCP/json-rpc", http(body=b'{"jsonrpc": "2.0", "id": NaN, "result": {}}'))
    yield spoilt("deep-json", "MCP/json-rpc", http(body=b"[" * 200 + b"]" * 200))
    yield spoilt("bottomless-json", "MCP/json-rpc", http(body=b"[" * 200_000 + b"]" * 200_000))
    yield spoilt("byte-order-mark", "MCP/json-rpc", http(body=b'\xef\xbb\xbf{"jsonrpc": "2.0"}'))
    yield spoilt("utf-16", "MCP/json-rpc", http(body='{"jsonrpc": "2.0"}'.encode("utf-16")))
    yield spoilt(
        "key-twice", "MCP/json-rpc", http(body=b'{"jsonrpc": "2.0", "id": 1, "id": 2, "result": {}}')
    )
    yield spoilt("error-code-true", "MCP/json-rpc", put(error={"code": True, "message": "no"}))
    yield spoilt("batch", "MCP/json-rpc", http(body=b'[{"jsonrpc": "2.0", "id": 1, "result": {}}]'))
    yield spoilt("too-many-values", "MCP/answer-size", http(body=b"[" + b"{}," * 1_200_000 + b"{}]"))
    yield spoilt("html-error", "MCP/http-body", http(kind="text/html", status=500, body=b"<h1>Oops</h1>"))
    yield spoilt(
        "compressed",
        "MCP/http-body",
        http(body=gzip.compress(b"{}"), headers=[(b"content-encoding", b"gzip")]),
    )
    yield spoilt("stream-ends", "MCP/connection", http(kind="text/event-stream", body=b": bye\n\n"))
    yield spoilt("huge", "MCP/answer-size", http(body=b" " * 3_000_000))
    yield spoilt(
        "huge-stream", "MCP/answer-size", http(kind="text/event-stream", body=b": " + b" " * 3_000_000)
    )
    yield spoilt("dies", "MCP/connection", http(dies=True), transport="stdio")
    yield in_answer("logs-on-stdout", "MCP/stdout", LIST, put(stdout=["starting ..."]), transport="stdio")

    yield in_result("discover-without-type", "MCP/result-type", "server/discover", drop("resultType"))
    yield in_result("resources-incomplete", "MCP/result-type", "resources/list", put(resultType="partial"))
    yield in_result("read-without-type", "MCP/result-type", "resources/read", drop("resultType"))
    yield in_result("discover-without-ttl", "MCP/cache", "server/discover", drop("ttlMs"))
    yield in_result("resources-without-scope", "MCP/cache", "resources/list", drop("cacheScope"))
    yield in_result("read-for-everyone", "MCP/cache", "resources/read", put(cacheScope="everyone"))
    yield _crowded("crowded-list", LIST, "skills", [])
    yield _crowded("crowded-get", GET, "skill", {})
    yield _crowded("crowded-read", "resources/read", "contents", [])
    yield from _declarations()
    yield from _eras()


def _crowded(name: str, method: str, key: str, value: Any) -> Defect:
    """Answers go wrong when more than a dozen requests run at once."""

    def switch_on(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, _params: Json, answer: Json) -> Json:
            if asked == method and "result" in answer:
                for _ in range(_TURNS):
                    await anyio.lowlevel.checkpoint()
                if server.running > 12:
                    answer["result"][key] = value
            return answer

        server.bend = bend

    return Defect(name, "MCP/concurrent", switch_on)


def _hello(name: str, rule: str, change: Change, *, era: str = "") -> Defect:
    """A defect of what the server says about itself, on both eras or on one."""

    def switch_on(server: CleanServer) -> None:
        async def bend(_server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked in ("initialize", "server/discover") and era in ("", params["era"]):
                result = answer["result"]
                result["capabilities"] = json.loads(json.dumps(change(result["capabilities"])))
            return answer

        server.bend = bend

    return Defect(name, rule, switch_on)


def _declared(value: Any) -> Change:
    return put(extensions={EXTENSION: value})


def _declarations() -> Iterator[Defect]:
    yield _hello("undeclared", "CAP-1/declared", drop("extensions"))
    yield _hello("other-extension", "CAP-1/declared", put(extensions={"com.example/x": {}}))
    yield _hello(
        "experimental",
        "CAP-1/experimental",
        lambda c: {"resources": {}, "experimental": {EXTENSION: {"directoryRead": True}}},
    )
    yield _hello("array", "CAP-1/object", _declared([]))
    yield _hello("true", "CAP-1/object", _declared(True))
    yield _hello("config", "CAP-1/inline", _declared({"config": {"directoryRead": True}}))
    yield _hello("flag-is-text", "CAP-1/flag", _declared({"directoryRead": "yes"}))
    yield in_answer("no-directory-method", "CAP-1/directory-read", DIRECTORY, refused_by(-32601))
    yield _hello("no-resources", "CAP-2/resources", drop("resources"))
    yield in_answer("no-list-method", "CAP-2/list", LIST, refused_by(-32601))
    yield in_answer("list-fails", "CAP-2/list", LIST, refused_by(-32603))
    yield in_answer("no-get-method", "CAP-2/get", GET, refused_by(-32601))


def _eras() -> Iterator[Defect]:
    yield in_answer("no-legacy", "CAP-4/one-revision", "initialize", refused_by(-32601))
    yield in_answer("no-modern", "CAP-4/one-revision", "server/discover", refused_by(-32601))
    yield _hello("declared-on-modern-alone", "CAP-4/declared", drop("extensions"), era=LEGACY)
    yield _hello("declared-on-legacy-alone", "CAP-4/declared", drop("extensions"), era=MODERN)
    yield _hello("no-directories-on-legacy", "CAP-4/declaration", _declared({}), era=LEGACY)

    def shorter(result: Json) -> None:
        result["skills"] = [
            skill for skill in result["skills"] if not skill["uri"].startswith("skill://atlas/S")
        ]

    yield in_result("fewer-on-legacy", "CAP-4/entries", LIST, shorter, when=on(LEGACY))
