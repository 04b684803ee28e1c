"""Defects that show when answers are compared: with each other, with the bytes, or with an earlier call."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from urllib.parse import unquote

from conformance.clean_server import (
    BOM,
    EMAIL,
    EXTENSION,
    INTERNAL,
    LEGACY,
    LOGO,
    MODERN,
    REFUNDS,
    CleanServer,
    Json,
    Refused,
    Tree,
    digest,
    skill_md,
)
from conformance.methods import DIRECTORY, GET, LIST, READ
from conformance.switches import Change, Defect, in_entry, in_result, in_tree, put

HERE = f"{REFUNDS}/SKILL.md"
SAFE = "Refund an order and tell the customer. Use when money goes back."

Answer = Callable[[CleanServer, Json, Json], Json]
"""Takes the server, the parameters and the right answer, and gives the one that is sent."""


def answering(name: str, rule: str, method: str, change: Answer, *, times: int = 1) -> Defect:
    """A defect of a method whose answer depends on the server's state or on the parameters."""

    def switch_on(server: CleanServer) -> None:
        async def bend(served: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            served.counts[asked] += 1
            return change(served, params, copy.deepcopy(answer)) if asked == method else answer

        server.bend = bend

    return Defect(name, rule, switch_on, times)


def result(answer: Json, value: Any) -> Json:
    """The value as a result, with the fields that the revision of the right answer asks for."""
    return {"jsonrpc": "2.0", "id": answer["id"], "result": value}


def refusal(answer: Json, code: Any, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": answer["id"], "error": {"code": code, "message": message}}


def stamped(params: Json, value: Json) -> Json:
    fields = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}
    return value | fields if params["era"] == MODERN else value


def spelled(field: str, source: str, rendered: Any, *, absent: bool = False) -> Callable[[Tree], None]:
    """A field that SKILL.md spells one way and the entry another."""

    def change(tree: Tree) -> None:
        tree.files[HERE] = skill_md("refunds", SAFE, license="MIT", **{field: source})
        if not absent:
            tree.frontmatter[REFUNDS][field] = rendered

    return change


def get_defects() -> Iterator[Defect]:
    def lenient(name: str, rule: str, find: Callable[[CleanServer, str], str | None]) -> Defect:
        def change(server: CleanServer, params: Json, answer: Json) -> Json:
            root = find(server, str(params.get("uri", ""))) if "error" in answer else None
            return answer if root is None else result(answer, stamped(params, {"skill": server.entry(root)}))

        return answering(name, rule, GET, change)

    def same_letters(server: CleanServer, uri: str) -> str | None:
        return next((r for r in server.tree.skills if f"{r}/SKILL.md".lower() == uri.lower()), None)

    def enclosing(server: CleanServer, uri: str) -> str | None:
        return next((root for root in server.tree.skills if uri in server.tree.inside(root)), None)

    yield lenient(
        "get-of-a-directory", "GET-1/no-skill", lambda server, uri: uri if uri in server.tree.skills else None
    )
    yield lenient("get-of-a-supporting-file", "GET-1/no-skill", enclosing)
    yield lenient("get-ignores-case", "GET-1/neighbor", same_letters)

    def older(server: CleanServer, params: Json, answer: Json) -> Json:
        if "result" in answer and params.get("uri") == HERE:
            kept = [one for one in answer["result"]["skill"]["resources"] if one["uri"] != EMAIL]
            answer["result"]["skill"]["resources"] = kept
        return answer

    yield answering("get-lacks-a-listed-file", "GET-1/equal", GET, older)

    def text_code(_server: CleanServer, _params: Json, answer: Json) -> Json:
        if "error" in answer:
            answer["error"]["code"] = str(answer["error"]["code"])
        return answer

    yield answering("error-code-as-text", "MCP/json-rpc", GET, text_code)

    def names_another(_server: CleanServer, params: Json, answer: Json) -> Json:
        return refusal(answer, -32602, f"no skill at {HERE}") if "error" in answer else answer

    yield answering("error-names-another-skill", "GET-1/message", GET, names_another)


def list_defects() -> Iterator[Defect]:
    def once(server: CleanServer, params: Json, answer: Json) -> Json:
        cursor = params.get("cursor")
        if cursor is None or "error" in answer:
            return answer
        server.counts[f"cursor {params['era']} {cursor}"] += 1
        spent = server.counts[f"cursor {params['era']} {cursor}"] > 1
        return refusal(answer, -32602, "this cursor was used before") if spent else answer

    def first_page_only(_server: CleanServer, params: Json, answer: Json) -> Json:
        if "cursor" in params and "result" in answer:
            answer["result"].pop("ttlMs", None)
        return answer

    def empty_cursor(_server: CleanServer, _params: Json, answer: Json) -> Json:
        if "result" in answer:
            answer["result"].setdefault("nextCursor", None)
        return answer

    yield answering("cursor-works-once", "LST-1/changing", LIST, once)
    yield answering("ttl-on-the-first-page-only", "LST-2/ttl", LIST, first_page_only)
    yield answering("cursor-null-at-the-end", "LST-1/cursor-type", LIST, empty_cursor)
    yield in_result(
        "list-is-partial", "LST-2/result-type", LIST, lambda answer: put(resultType="partial")(answer)
    )

    def fewer(_server: CleanServer, params: Json, answer: Json) -> Json:
        if params["era"] == MODERN and "result" in answer:
            kept = [one for one in answer["result"]["skills"] if one["uri"] != HERE]
            answer["result"]["skills"] = kept
        return answer

    yield answering("listed-on-one-revision-only", "CAP-4/entries", LIST, fewer)


def entry_defects() -> Iterator[Defect]:
    def resource(uri: str, **fields: Any) -> Change:
        def change(entry: Json) -> None:
            for one in entry["resources"]:
                if one["uri"] == uri:
                    one |= fields

        return change

    def adding(uri: str, data: bytes = b"") -> Change:
        def change(entry: Json) -> None:
            entry["resources"].append({"uri": uri, "digest": digest(data), "size": len(data)})

        return change

    email = b"Dear customer,\r\nyour money is back.\r\n"
    yield in_entry("size-in-characters", "ENT-3/size", REFUNDS, resource(BOM, size=12))
    yield in_entry("manifest-has-a-directory", "RD-1/listed", REFUNDS, adding(f"{REFUNDS}/examples"))
    yield in_entry("manifest-has-a-neighbor", "ENT-2/outside", REFUNDS, adding(f"{REFUNDS}-old/SKILL.md"))
    yield in_entry(
        "file-twice-in-two-spellings",
        "ENT-2/twice",
        REFUNDS,
        adding(EMAIL.replace("email", "%65mail"), email),
    )
    yield in_entry(
        "reserved-meta", "ENT-8/prefix", REFUNDS, put(_meta={"io.modelcontextprotocol.skills/rank": 1})
    )

    def one_byte(server: CleanServer) -> None:
        server.tree.files[f"{REFUNDS}/notes/one"] = b"1"
        in_entry("", "", REFUNDS, resource(f"{REFUNDS}/notes/one", size=True)).switch_on(server)

    yield Defect("size-as-boolean", "ENT-3/size-type", one_byte)
    yield in_tree("yes-as-true", "ENT-1/verbatim", spelled("beta", "yes", True))
    yield in_tree(
        "date-as-timestamp", "ENT-1/verbatim", spelled("released", "2024-01-01", "2024-01-01T00:00:00Z")
    )
    yield in_tree("null-left-out", "ENT-1/verbatim", spelled("compatibility-note", "", None, absent=True))
    yield in_tree("number-as-text", "ENT-1/verbatim", spelled("version", "1.0", "1.0"))
    yield in_tree(
        "mapping-as-text", "ENT-1/verbatim", spelled("metadata", '{team: "billing"}', '{"team":"billing"}')
    )

    def spaced(tree: Tree) -> None:
        tree.files[f"{REFUNDS}/notes/two words.txt"] = b"two\n"

    yield in_tree("space-in-a-uri", "FMT-9/encoding", spaced)


def read_defects() -> Iterator[Defect]:
    def more(server: CleanServer, params: Json, answer: Json) -> Json:
        if "result" in answer and params.get("uri") == EMAIL:
            answer["result"]["contents"].append({"uri": BOM, "mimeType": "text/plain", "text": "more"})
        return answer

    def url_safe(_server: CleanServer, params: Json, answer: Json) -> Json:
        if "result" in answer and params.get("uri") == LOGO:
            content = answer["result"]["contents"][0]
            content["blob"] = content["blob"].replace("+", "-").replace("/", "_")
        return answer

    def alternating(server: CleanServer, params: Json, answer: Json) -> Json:
        if "result" in answer and params.get("uri") == HERE:
            server.counts[HERE] += 1
            if server.counts[HERE] % 2 == 0:
                answer["result"]["contents"][0]["text"] += f"Read {server.counts[HERE]} times.\n"
        return answer

    def legacy_bytes(_server: CleanServer, params: Json, answer: Json) -> Json:
        if "result" in answer and params.get("uri") == EMAIL and params["era"] == LEGACY:
            answer["result"]["contents"][0]["text"] = "Dear customer,\nyour money is back.\n"
        return answer

    def listed_only(_server: CleanServer, params: Json, answer: Json) -> Json:
        uri = str(params.get("uri"))
        return refusal(answer, -32602, f"no resource at {uri}") if uri.startswith(INTERNAL) else answer

    def not_decoded(server: CleanServer, params: Json, answer: Json) -> Json:
        uri = unquote(unquote(str(params.get("uri"))))
        if "error" in answer and uri in server.tree.files:
            try:
                return result(answer, stamped(params, server.read({"uri": uri})))
            except Refused as refused:
                return {**answer, "error": refused.error}
        return answer

    yield answering("read-gives-a-second-file", "ENT-3/digest", READ, more)
    yield answering("base64-for-urls", "RD-2/base64", READ, url_safe)
    yield answering("every-second-read-differs", "RD-2/changing", READ, alternating)
    yield answering("line-ends-differ-on-one-revision", "RD-2/lossy", READ, legacy_bytes)
    yield answering("unlisted-skill-cannot-be-read", "RD-1/shown", READ, listed_only)
    yield answering("read-decodes-twice", "RD-1/neighbor", READ, not_decoded)


def directory_defects() -> Iterator[Defect]:
    def slashes(_server: CleanServer, _params: Json, answer: Json) -> Json:
        for child in answer.get("result", {}).get("resources", []):
            child["uri"] += "/" if child["mimeType"] == "inode/directory" else ""
        return answer

    def of_a_file(server: CleanServer, params: Json, answer: Json) -> Json:
        return (
            result(answer, stamped(params, {"resources": []}))
            if params.get("uri") in server.tree.files
            else answer
        )

    def hidden(server: CleanServer) -> None:
        server.tree.files[f"{REFUNDS}/notes/.keep"] = b""

        def change(_server: CleanServer, _params: Json, answer: Json) -> Json:
            if "result" in answer:
                children = answer["result"]["resources"]
                answer["result"]["resources"] = [one for one in children if not one["name"].startswith(".")]
            return answer

        answering("", "", DIRECTORY, change).switch_on(server)

    def endless(server: CleanServer, params: Json, answer: Json) -> Json:
        if "cursor" in params and "result" in answer:
            first = {key: value for key, value in params.items() if key != "cursor"}
            return result(answer, stamped(params, server.read_directory(first)))
        return answer

    def unlisted(_server: CleanServer, params: Json, answer: Json) -> Json:
        uri = str(params.get("uri"))
        return refusal(answer, -32602, f"no directory at {uri}") if uri.startswith(INTERNAL) else answer

    def unknown(server: CleanServer, params: Json, answer: Json) -> Json:
        inside = any(str(params.get("uri")).startswith(f"{root}/") for root in server.tree.skills)
        is_file = params.get("uri") in server.tree.files
        return (
            result(answer, stamped(params, {"resources": []}))
            if inside and not is_file and "error" in answer
            else answer
        )

    yield answering("unknown-directory-of-a-skill-is-empty", "DIR-3/unknown", DIRECTORY, unknown)
    yield answering("directory-uri-ends-in-a-slash", "FMT-4/slash", DIRECTORY, slashes)
    yield answering("directory-read-of-a-file-is-empty", "DIR-3/file", DIRECTORY, of_a_file)
    yield Defect("directory-hides-a-dot-file", "DIR-1/complete", hidden)
    yield answering("directory-cursor-ignored", "DIR-1/endless", DIRECTORY, endless)
    yield answering("unlisted-skill-has-no-directory", "DIR-1/empty", DIRECTORY, unlisted)

    def as_text(server: CleanServer) -> None:
        right = server.hello

        def hello() -> Json:
            told = right()
            told["capabilities"]["extensions"][EXTENSION] = {"directoryRead": "yes"}
            return told

        server.hello = hello  # type: ignore[method-assign]

    yield Defect("directory-read-as-text", "CAP-1/flag", as_text)


def order_defects() -> Iterator[Defect]:
    """Methods that work only after another one, or only with parameters; methods that should not exist."""

    def unless_listed(server: CleanServer, params: Json, answer: Json) -> Json:
        if not server.counts[LIST] and "result" in answer:
            return refusal(answer, -32602, f"nothing is known about {params.get('uri')}")
        return answer

    yield answering("get-needs-list", "GET-1/before-list", GET, unless_listed)
    yield answering("read-needs-list", "RD-1/before-list", READ, unless_listed)

    def needs_params(server: CleanServer) -> None:
        right = server.handle

        async def handle(message: Json) -> Json | None:
            if message["method"] == LIST and "params" not in message:
                return refusal(message, -32603, "params is undefined")
            return await right(message)

        server.handle = handle  # type: ignore[method-assign]

    yield Defect("list-needs-params", "LST-1/no-params", needs_params)

    def search(server: CleanServer) -> None:
        right = server.answer

        def answer(method: str, params: Json, era: str) -> Json:
            if method == "skills/search":
                return stamped({"era": era}, {"skills": []})
            return right(method, params, era)

        server.answer = answer  # type: ignore[method-assign]

    yield Defect("a-search-of-its-own", "CAP-2/reserved", search)


def consistency_defects() -> Iterator[Defect]:
    parts = (order_defects, get_defects, list_defects, entry_defects, read_defects, directory_defects)
    return chain.from_iterable(part() for part in parts)
