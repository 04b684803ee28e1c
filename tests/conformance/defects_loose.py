"""Defects of servers that are careless about URIs, order, types and unsolicited messages."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any
from urllib.parse import unquote

from conformance.clean_server import (
    ATLAS,
    BOM,
    EMAIL,
    LEGACY,
    LOGO,
    REFUNDS,
    CleanServer,
    Json,
    Tree,
    skill_md,
)
from conformance.methods import DIRECTORY, GET, GOOD, LIST, READ
from conformance.switches import (
    Change,
    Defect,
    about,
    after_events,
    answered_by,
    drop,
    in_answer,
    in_entry,
    in_result,
    put,
    refused_by,
)

HELLO = ("initialize", "server/discover")
Find = Callable[[str, set[str]], str | None]
"""A real URI for one that is not served, or `None`."""


def loose_defects() -> Iterator[Defect]:
    parts = (_uris, _directories, _order, _types, _reads, _unsolicited, _openings, _listings)
    return chain.from_iterable(part() for part in parts)


def _same(change: Callable[[str], str]) -> Find:
    return lambda uri, real: change(uri) if change(uri) in real else None


def _first(test: Callable[[str, str], bool]) -> Find:
    return lambda uri, real: next((one for one in sorted(real) if test(uri, one)), None)


def _loosely(name: str, rule: str, method: str, find: Find) -> Defect:
    """Answers for a URI that is not served as if it were another."""

    def switch_on(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            uri = params.get("uri")
            if asked != method or "error" not in answer or not isinstance(uri, str):
                return answer
            real = {
                GET: {f"{root}/SKILL.md" for root in server.tree.skills},
                READ: set(server.tree.files),
                DIRECTORY: server.tree.directories(),
            }[method]
            found = find(uri, real)
            if found is None or uri in real or ".." in unquote(uri):
                return answer
            result = server.answer(method, {**params, "uri": found}, params["era"])
            return {"jsonrpc": "2.0", "id": answer["id"], "result": result}

        server.bend = bend

    return Defect(name, rule, switch_on)


LOOSE: dict[str, Find] = {
    "prefix": _first(lambda uri, real: uri.endswith("/" + real.partition("://")[2])),
    "any-case": _first(lambda uri, real: uri.lower() == real.lower()),
    "double-slash": _same(lambda uri: re.sub("(?<!:)//+", "/", uri)),
    "encoded-slash": _same(lambda uri: re.sub("%2[Ff]", "/", uri)),
    "first-segment": _first(
        lambda uri, real: real.partition("://")[2].endswith("/" + uri.partition("://")[2])
    ),
}
LOOSE_FILES: dict[str, Find] = {
    **LOOSE,
    "trailing-slash": _same(lambda uri: uri.rstrip("/")),
    "query": _same(lambda uri: uri.partition("?")[0]),
    "backslash": _same(lambda uri: uri.replace("%5C", "/")),
    "nul": _same(lambda uri: uri.partition("%00")[0]),
    "decoded-twice": _same(lambda uri: unquote(unquote(uri))),
    "cut-off": _first(lambda uri, real: real.startswith(uri) and "." in uri.rpartition("/")[2]),
    "file-cut-off": _first(lambda uri, real: re.sub(".$", "", real) == uri),
}


def _uris() -> Iterator[Defect]:
    for name, find in LOOSE_FILES.items():
        yield _loosely(f"get-{name}", "GET-1/neighbor", GET, find)
        yield _loosely(f"read-{name}", "RD-1/neighbor", READ, find)
    by_name = _first(lambda uri, real: uri.split("/")[-2:] == real.split("/")[-2:])
    yield _loosely("get-by-name", "GET-1/neighbor", GET, by_name)
    short = _first(lambda uri, real: real.startswith(uri.removesuffix("/SKILL.md")) and uri.endswith(".md"))
    yield _loosely("get-short-name", "GET-1/neighbor", GET, short)
    strange = lambda params: "%00" in str(params.get("uri"))  # noqa: E731 - a predicate among others
    yield in_answer("get-strange-crash", "GET-1/neighbor", GET, refused_by(-32603), when=strange)
    yield in_answer("read-strange-crash", "RD-1/neighbor", READ, refused_by(-32603), when=strange)
    yield in_answer("get-text-id", "GET-1/no-uri", GET, refused_by(-32603), when=lambda p: p.get("uri") == 7)
    found = {"resultType": "complete", "ttlMs": 1, "cacheScope": "public", "skill": {}}
    yield in_answer("get-empty", "GET-1/no-uri", GET, answered_by(found), when=lambda p: p.get("uri") == "")

    def elsewhere(answer: Json) -> None:
        if "error" in answer:
            answer["error"]["data"] = {"uri": "skill://somewhere/else"}

    yield in_answer("error-about-another", "RD-1/error-data", READ, elsewhere)


def _directories() -> Iterator[Defect]:
    for name, find in LOOSE.items():
        yield _loosely(f"directory-{name}", "DIR-3/neighbor", DIRECTORY, find)

    def by_string(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked == DIRECTORY and "error" in answer and "cursor" not in params:
                uri = str(params.get("uri"))
                found = [one for one in server.tree.files if one.startswith(uri) and one != uri]
                if found:
                    children = [{"uri": one, "name": one.rpartition("/")[2]} for one in found]
                    result = {"resources": children, "resultType": "complete"}
                    return {"jsonrpc": "2.0", "id": answer["id"], "result": result}
            return answer

        server.bend = bend

    yield Defect("directory-by-string", "DIR-3/neighbor", by_string)

    def sibling(server: CleanServer) -> None:
        server.tree.add("skill://acme/billing/refunds-2", GOOD)
        server.page_size = 100
        more = {"uri": "skill://acme/billing/refunds-2", "name": "-2", "mimeType": "inode/directory"}
        in_result("", "", DIRECTORY, lambda r: r["resources"].append(more), when=about(REFUNDS)).switch_on(
            server
        )

    yield Defect("directory-leaks-sibling", "DIR-1/direct", sibling)

    def without(name: str) -> Change:
        def change(result: Json) -> None:
            result["resources"] = [one for one in result["resources"] if not one["uri"].endswith(f"/{name}")]

        return change

    yield in_result(
        "subdirectory-missing", "DIR-1/complete", DIRECTORY, without("examples"), when=about(REFUNDS)
    )
    yield in_result(
        "skill-missing", "DIR-1/complete", DIRECTORY, without("refunds"), when=about("skill://acme/billing")
    )
    itself = {"uri": REFUNDS, "name": "refunds", "mimeType": "inode/directory"}
    yield in_result(
        "lists-itself",
        "DIR-1/direct",
        DIRECTORY,
        lambda r: r["resources"].append(itself),
        when=lambda p: p.get("uri") == REFUNDS and "cursor" not in p,
    )
    yield in_answer(
        "directory-page-refused",
        "DIR-1/page",
        DIRECTORY,
        refused_by(-32602),
        when=lambda p: p.get("uri") == REFUNDS and p.get("cursor") == "2",
    )
    yield in_result(
        "directory-size-true", "DIR-1/size", DIRECTORY, _sized(True), when=about(f"{REFUNDS}/examples")
    )


def _sized(size: Any) -> Change:
    def change(result: Json) -> None:
        result["resources"] = [{**child, "size": size} for child in result["resources"]]

    return change


def _after_list(name: str, rule: str, method: str) -> Defect:
    """Answers only after the skills were listed on the same connection."""

    def switch_on(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked in HELLO:
                server.counts["listed"] = 0
            server.counts["listed"] += asked == LIST
            if asked == method and not server.counts["listed"]:
                return refused_by(-32602, f"nothing at {params.get('uri')}")(answer)
            return answer

        server.bend = bend

    return Defect(name, rule, switch_on)


def _order() -> Iterator[Defect]:
    yield _after_list("get-after-list", "GET-1/before-list", GET)
    yield _after_list("read-after-list", "RD-1/before-list", READ)
    yield _after_list("directory-after-list", "DIR-2/before-list", DIRECTORY)

    def other_entry(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked in HELLO:
                server.counts["listed"] = 0
            server.counts["listed"] += asked == LIST
            if asked == GET and "result" in answer and not server.counts["listed"]:
                answer["result"]["skill"]["frontmatter"]["description"] = "Not read yet."
            return answer

        server.bend = bend

    yield Defect("half-an-entry-before-list", "GET-1/before-list", other_entry)


def _types() -> Iterator[Defect]:
    one = f"{REFUNDS}/one.txt"

    def true_for_one(entry: Json) -> None:
        for item in entry["resources"]:
            if item["uri"] == one:
                item["size"] = True

    def in_get(server: CleanServer) -> None:
        server.tree.files[one] = b"x"
        whole = about(f"{REFUNDS}/SKILL.md")
        in_result("", "", GET, lambda r: true_for_one(r["skill"]), when=whole).switch_on(server)

    yield Defect("true-for-one-in-get", "GET-1/equal", in_get)

    def in_both(server: CleanServer) -> None:
        server.tree.files[one] = b"x"
        in_entry("", "", REFUNDS, true_for_one).switch_on(server)

    yield Defect("size-true", "ENT-3/size-type", in_both)
    yield in_entry("size-half", "ENT-3/size-type", REFUNDS, _with_size(0.5))
    yield in_entry("size-below-zero", "ENT-3/size-type", REFUNDS, _with_size(-1))
    yield in_result("dynamic-in-get", "GET-1/equal", GET, _dynamic, when=about(f"{REFUNDS}/SKILL.md"))
    yield in_entry("meta-bare", "ENT-8/prefix", REFUNDS, put(_meta={"version": 1}))
    yield in_entry("digest-sha512", "ENT-3/digest-format", REFUNDS, _with_digest("sha512:" + "0" * 128))

    def second_listing(server: CleanServer) -> None:
        server.tree.files[one] = b"x"
        server.page_size = 10

        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked == LIST and "result" in answer and "cursor" not in params:
                server.counts[params["era"]] += 1
                if server.counts[params["era"]] in (2, 4):
                    for entry in answer["result"]["skills"]:
                        true_for_one(entry)
            return answer

        server.bend = bend

    yield Defect("true-for-one-later", "LST-1/changing", second_listing)

    def yaml(name: str, text: str, value: Any) -> Defect:
        """A field that is in the file as text, and in the entry as an old YAML parser would have it."""

        def change(server: CleanServer) -> None:
            root = "skill://sorting"
            server.tree.files[f"{root}/SKILL.md"] = skill_md("sorting", GOOD, license=text)
            server.tree.frontmatter[root] = {"name": "sorting", "description": GOOD, "license": value}
            server.tree.listed.append(root)

        return Defect(name, "ENT-1/verbatim", change)

    yield yaml("yaml-yes", "yes", True)
    yield yaml("yaml-date", "2024-01-01", 1704067200)
    yield yaml("yaml-time", "12:30", 750)
    yield yaml("yaml-octal", "'010'", 8)


def _dynamic(result: Json) -> None:
    result["skill"]["resources"] = "dynamic"


def _with_size(size: Any) -> Change:
    def change(entry: Json) -> None:
        entry["resources"] = [
            {**item, "size": size} if item["uri"] == EMAIL else item for item in entry["resources"]
        ]

    return change


def _with_digest(digest: str) -> Change:
    def change(entry: Json) -> None:
        entry["resources"] = [
            {**item, "digest": digest} if item["uri"] == EMAIL else item for item in entry["resources"]
        ]

    return change


def _reads() -> Iterator[Defect]:
    def more(**content: Any) -> Change:
        return lambda result: result["contents"].append(content)

    def blob(change: Callable[[str], str]) -> Change:
        def bend(result: Json) -> None:
            result["contents"][0]["blob"] = change(result["contents"][0]["blob"])

        return bend

    yield in_result("second-content-wrong", "ENT-3/digest", READ, more(uri=BOM, text="no"), when=about(EMAIL))
    yield in_result("content-twice", "ENT-3/digest", READ, more(uri=EMAIL, text="no"), when=about(EMAIL))
    yield in_result("second-content-empty", "RD-1/shape", READ, more(uri=EMAIL), when=about(EMAIL))
    yield in_result(
        "blob-url-safe", "RD-2/base64", READ, blob(lambda b: b.replace("/", "_")), when=about(LOGO)
    )
    yield in_result(
        "blob-in-lines", "RD-2/base64", READ, blob(lambda b: f"{b[:76]}\n{b[76:]}"), when=about(LOGO)
    )
    yield in_result("blob-loose-bits", "RD-2/base64", READ, blob(_loose_bits), when=about(LOGO))

    def empty_file(server: CleanServer) -> None:
        server.tree.files[f"{REFUNDS}/empty.txt"] = b""
        bend = in_result("", "", READ, _no_text, when=about(f"{REFUNDS}/empty.txt"))
        bend.switch_on(server)

    yield Defect("empty-file-without-text", "RD-1/shape", empty_file)

    def encoded(server: CleanServer) -> None:
        server.tree.files[f"{REFUNDS}/a%20b.txt"] = b"x"
        in_answer("", "", READ, refused_by(-32602), when=about(f"{REFUNDS}/a%20b.txt")).switch_on(server)

    yield Defect("encoded-name-unreadable", "RD-1/listed", encoded)

    def dynamic(tree: Tree) -> None:
        tree.frontmatter[ATLAS] = {**tree.frontmatter[ATLAS], "description": "Something else."}

    def dynamic_differs(server: CleanServer) -> None:
        dynamic(server.tree)
        in_entry("", "", ATLAS, put(resources="dynamic")).switch_on(server)
        in_result("", "", "resources/list", put(resources=[])).switch_on(server)

    yield Defect("dynamic-differs", "ENT-1/verbatim", dynamic_differs)


def _loose_bits(text: str) -> str:
    """The same bytes by another base64 text: the unused bits before the padding are set."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    body = text.rstrip("=")
    other = body[:-1] + alphabet[alphabet.index(body[-1]) + 1] + text[len(body) :]
    assert base64.b64decode(other) == base64.b64decode(text)
    return other


def _no_text(result: Json) -> None:
    result["contents"] = [drop("text")(content) for content in result["contents"]]


def _note(method: str, **params: Any) -> Json:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def _unsolicited() -> Iterator[Defect]:
    updated = _note("notifications/resources/updated", uri=EMAIL)
    yield in_answer("updated-unasked", "MCP/unsolicited", LIST, after_events(updated))
    progress = _note("notifications/progress", progressToken=1, progress=1)
    yield in_answer("progress-unasked", "MCP/unsolicited", READ, after_events(progress))
    changed = _note("notifications/resources/list_changed")
    yield in_answer("list-changed-undeclared", "MCP/unsolicited", LIST, after_events(changed))
    sampling = {**_note("sampling/createMessage", messages=[]), "id": "s1"}
    yield in_answer("sampling-unasked", "MCP/server-request", LIST, after_events(sampling))
    roots = {**_note("roots/list"), "id": "r1"}
    yield in_answer("roots-unasked", "MCP/server-request", GET, after_events(roots))
    line = json.dumps(updated)
    yield in_answer("updated-on-stdout", "MCP/unsolicited", LIST, put(stdout=[line]), transport="stdio")

    def twice(answer: Json) -> Json:
        return {**answer, "stdout": [json.dumps(answer)]}

    yield in_answer("answers-twice", "MCP/stray-answer", LIST, twice, transport="stdio")
    stray = json.dumps({"jsonrpc": "2.0", "id": 987654, "result": {}})
    yield in_answer("answers-nobody", "MCP/stray-answer", LIST, put(stdout=[stray]), transport="stdio")

    def acknowledged(server: CleanServer) -> None:
        server.accepted = 200

    yield Defect("notification-200", "MCP/accepted", acknowledged)


def _openings() -> Iterator[Defect]:
    def hello(name: str, method: str, change: Change) -> Defect:
        return in_result(name, "MCP/opening", method, change)

    yield hello("no-supported-versions", "server/discover", drop("supportedVersions"))
    yield hello("other-supported-versions", "server/discover", put(supportedVersions=[LEGACY]))
    yield hello("no-server-info", "initialize", drop("serverInfo"))
    yield hello("version-is-no-date", "initialize", put(protocolVersion="2.0"))


def _listings() -> Iterator[Defect]:
    rule, method = "MCP/resources-list", "resources/list"
    yield in_answer("resources-crash", rule, method, refused_by(-32603))
    yield in_answer("resources-missing", rule, method, refused_by(-32601))
    yield in_answer(
        "resources-page-refused", rule, method, refused_by(-32602), when=lambda p: p.get("cursor") == "2"
    )
    yield in_result("resources-not-array", rule, method, put(resources={}))
    yield in_result("resource-nameless", rule, method, _nameless)
    yield in_result("resources-circle", rule, method, put(nextCursor="2"))
    yield in_result("resource-meta-bare", "FMT-7/meta", method, _bare_meta)

    def spelt_twice(result: Json) -> None:
        entry = copy.deepcopy(result["skills"][0])
        entry["uri"] = entry["uri"].replace("acme", "%61cme")
        result["skills"].append(entry)

    first = lambda params: "cursor" not in params  # noqa: E731 - a predicate among others
    yield in_result("listed-in-two-spellings", "LST-1/duplicate", LIST, spelt_twice, when=first)
    yield in_result(
        "cursor-ignored",
        "LST-1/endless",
        LIST,
        lambda r: {**r, "nextCursor": "2"},
        when=lambda p: p.get("cursor") in (None, "2"),
    )

    def spelt(entry: Json) -> None:
        again = {**entry["resources"][0]}
        again["uri"] = again["uri"].replace("acme", "%61cme")
        entry["resources"].append(again)

    yield in_entry("file-in-two-spellings", "ENT-2/twice", REFUNDS, spelt)


def _nameless(result: Json) -> None:
    result["resources"] = [drop("name")(one) for one in result["resources"]]


def _bare_meta(result: Json) -> None:
    result["resources"] = [
        {**one, "_meta": {"stars": 5}} if one["uri"] == f"{REFUNDS}/SKILL.md" else one
        for one in result["resources"]
    ]
