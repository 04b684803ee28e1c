"""Defects of skills/list, skills/get, resources/read and resources/directory/read."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from conformance.clean_server import BOM, EMAIL, INTERNAL, LOGO, NAMED, NESTED, REFUNDS, CleanServer, Json
from conformance.methods import DIRECTORY, GET, LIST, READ
from conformance.switches import (
    Change,
    Defect,
    about,
    answered_by,
    drop,
    in_answer,
    in_result,
    put,
    refused_by,
)

BAD = "skillwire-verify-no-such"


def cursor(value: str | None) -> Callable[[Json], bool]:
    return lambda params: params.get("cursor") == value


def probed(text: str) -> Callable[[Json], bool]:
    return lambda params: text in str(params.get("uri", params.get("cursor", "")))


def method_defects() -> Iterator[Defect]:
    yield from _lists()
    yield from _gets()
    yield from _reads()
    yield from _directories()


def _second_time(name: str, rule: str, change: Change) -> Defect:
    """A defect of the second listing on each era."""

    def switch_on(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked == LIST and "result" in answer and params.get("cursor") != f"{BAD}-cursor":
                key = f"{params['era']} {params.get('cursor')}"
                server.counts[key] += 1
                if server.counts[key] in (2, 4):  # Also when it is checked once more.
                    change(answer["result"])
            return answer

        server.bend = bend
        server.page_size = 10

    return Defect(name, rule, switch_on)


def _lists() -> Iterator[Defect]:
    def again(result: Json) -> None:
        result["skills"].append(result["skills"][0])

    def half(result: Json) -> None:
        entry = copy.deepcopy(result["skills"][0])
        entry["resources"] = entry["resources"][:1]
        result["skills"].append(entry)

    yield in_result("skills-is-object", "LST-1/shape", LIST, put(skills={}))
    yield in_result("no-skills", "LST-1/shape", LIST, drop("skills"))
    yield in_result("null-cursor", "LST-1/cursor-type", LIST, put(nextCursor=None), when=cursor("2"))
    yield in_result("number-cursor", "LST-1/cursor-type", LIST, put(nextCursor=7), when=cursor("2"))
    yield in_result("empty-cursor", "LST-1/cursor-empty", LIST, put(nextCursor=""), when=cursor("2"))
    yield in_result("circle", "LST-1/endless", LIST, put(nextCursor="2"), when=cursor("2"))
    yield _growing("ever-more-pages", LIST, "LST-1/endless", "skills")
    yield in_answer("own-cursor-refused", "LST-1/page", LIST, refused_by(-32602), when=cursor("2"))
    yield in_result("listed-twice", "LST-1/duplicate", LIST, again, when=cursor(None))
    yield in_result("cut-entry", "LST-1/split", LIST, half, when=cursor(None))
    yield _second_time("shuffled", "LST-1/order", lambda result: result["skills"].reverse())
    yield _second_time("one-gone", "LST-1/changing", lambda result: result["skills"].pop())
    yield _second_time(
        "another-entry", "LST-1/changing", lambda result: result["skills"][0]["frontmatter"].update(version=2)
    )
    yield in_answer(
        "any-cursor", "LST-1/bad-cursor", LIST, answered_by(MODERN_RESULT | {"skills": []}), when=probed(BAD)
    )
    yield in_answer("cursor-crash", "LST-1/bad-cursor", LIST, refused_by(-32603), when=probed(BAD))
    yield in_result("list-without-type", "LST-2/result-type", LIST, drop("resultType"))
    yield in_result("list-in-need-of-input", "LST-2/result-type", LIST, put(resultType="input_required"))
    yield in_result("list-without-ttl", "LST-2/ttl", LIST, drop("ttlMs"))
    yield in_result("list-ttl-negative", "LST-2/ttl", LIST, put(ttlMs=-1))
    yield in_result("list-ttl-text", "LST-2/ttl", LIST, put(ttlMs="1000"))
    yield in_result("list-without-scope", "LST-2/cache-scope", LIST, drop("cacheScope"))
    yield in_result("list-scope-unknown", "LST-2/cache-scope", LIST, put(cacheScope="shared"))


MODERN_RESULT = {"resultType": "complete", "ttlMs": 1000, "cacheScope": "public"}


def _growing(name: str, method: str, rule: str, key: str, *, uri: str = "") -> Defect:
    """Page after page, each with a cursor that was never given before."""

    def switch_on(server: CleanServer) -> None:
        async def bend(_server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            given = params.get("cursor", "0")
            if asked == method and params.get("uri", "") == uri and given.isdigit():
                answer.pop("error", None)
                result = answer.setdefault("result", {**MODERN_RESULT, key: []})
                result["nextCursor"] = str(int(given) + 2)
            return answer

        server.bend = bend

    return Defect(name, rule, switch_on)


def _gets() -> Iterator[Defect]:
    refunds = about(f"{REFUNDS}/SKILL.md")
    entry = {"uri": "skill://x/SKILL.md", "frontmatter": {}, "resources": []}
    found = MODERN_RESULT | {"skill": entry}

    def other(result: Json) -> None:
        result["skill"]["frontmatter"]["description"] = "Something else."

    def renamed(result: Json) -> None:
        result["skill"]["uri"] = f"{INTERNAL}/SKILL.md"

    yield in_answer("listed-but-not-had", "GET-1/served", GET, refused_by(-32602), when=refunds)
    yield in_answer(
        "unlisted-not-had", "GET-1/unlisted", GET, refused_by(-32602), when=about(f"{NAMED}/SKILL.md")
    )
    yield in_answer(
        "shown-not-had", "GET-1/unlisted", GET, refused_by(-32602), when=about(f"{INTERNAL}/SKILL.md")
    )
    plan = about(f"{NAMED}/SKILL.md")
    yield in_result("unlisted-bare", "GET-1/shape", GET, lambda r: {**MODERN_RESULT, **r["skill"]}, when=plan)
    yield in_result("unlisted-entry-of-another", "GET-1/uri", GET, renamed, when=plan)
    yield in_result("bare-entry", "GET-1/shape", GET, lambda r: {**MODERN_RESULT, **r["skill"]}, when=refunds)
    yield in_result("entry-of-another", "GET-1/uri", GET, renamed, when=refunds)
    yield in_result("other-description", "GET-1/equal", GET, other, when=refunds)
    yield in_answer("any-skill", "GET-1/unknown", GET, answered_by(found), when=probed(BAD))
    yield in_answer("unknown-is-internal", "GET-1/unknown", GET, refused_by(-32603), when=probed(BAD))
    yield in_answer("unknown-is-not-found", "GET-1/unknown", GET, refused_by(-32002), when=probed(BAD))
    yield in_answer("silent-error", "GET-1/message", GET, refused_by(-32602, ""), when=probed(BAD))
    yield in_answer("file-is-skill", "GET-1/no-skill", GET, answered_by(found), when=about(BOM))
    yield in_answer("directory-is-skill", "GET-1/no-skill", GET, answered_by(found), when=about(REFUNDS))
    nothing = lambda params: "uri" not in params  # noqa: E731 - a predicate among others
    yield in_answer("no-uri-crash", "GET-1/no-uri", GET, refused_by(-32603), when=nothing)
    yield in_answer("no-uri-found", "GET-1/no-uri", GET, answered_by(found), when=nothing)
    yield in_result("get-without-type", "GET-2/result-type", GET, drop("resultType"))
    yield in_result("get-without-ttl", "GET-2/ttl", GET, drop("ttlMs"))
    yield in_result("get-ttl-fraction", "GET-2/ttl", GET, put(ttlMs=0.5))
    yield in_result("get-without-scope", "GET-2/cache-scope", GET, drop("cacheScope"))
    yield in_result("get-with-cursor", "GET-2/cursor", GET, put(nextCursor="1"))


def _content(**fields: Any) -> Change:
    def change(result: Json) -> None:
        result["contents"] = [{**result["contents"][0], **fields}]

    return change


def _reads() -> Iterator[Defect]:
    def text(change: Callable[[str], str]) -> Change:
        def bend(result: Json) -> None:
            result["contents"][0]["text"] = change(result["contents"][0]["text"])

        return bend

    def as_blob(result: Json) -> None:
        import base64

        content = result["contents"][0]
        content["blob"] = base64.b64encode(content.pop("text").encode()).decode()

    def decoded(result: Json) -> None:
        content = result["contents"][0]
        content.pop("blob")
        content["text"] = bytes(range(256)).decode("utf-8", "replace")

    main, found = f"{REFUNDS}/SKILL.md", MODERN_RESULT | {"contents": [{"uri": "skill://x/y", "text": "hm"}]}
    yield in_answer("listed-unreadable", "RD-1/listed", READ, refused_by(-32603), when=about(EMAIL))
    yield in_result("no-contents", "RD-1/shape", READ, drop("contents"), when=about(EMAIL))
    yield in_result("empty-contents", "RD-1/shape", READ, put(contents=[]), when=about(EMAIL))
    yield in_result("text-and-blob", "RD-1/shape", READ, _content(blob="eA=="), when=about(EMAIL))
    yield in_result("no-text", "RD-1/shape", READ, _content(text=None), when=about(EMAIL))
    yield in_result("content-of-another", "RD-1/uri", READ, _content(uri=f"{REFUNDS}/x"), when=about(EMAIL))
    yield in_answer("reads-anything", "RD-1/unknown", READ, answered_by(found), when=probed(f"{BAD}-file"))
    yield in_answer("reads-any-skill", "RD-1/unknown", READ, answered_by(found), when=probed(f"{BAD}-skill"))
    yield in_answer(
        "unknown-read-crash", "RD-1/unknown", READ, refused_by(-32603), when=probed(f"{BAD}-file")
    )
    yield in_answer("old-not-found", "RD-1/unknown", READ, refused_by(-32002), when=probed(f"{BAD}-file"))
    yield in_answer("reads-directory", "RD-1/directory", READ, answered_by(found), when=about(REFUNDS))
    yield in_answer("directory-read-crash", "RD-1/directory", READ, refused_by(-32603), when=about(REFUNDS))
    yield in_result("two-types", "RD-1/mime", READ, _content(mimeType="text/html"), when=about(EMAIL))
    yield in_result("bom-lost", "RD-2/lossy", READ, text(lambda t: t.removeprefix("\ufeff")), when=about(BOM))
    yield in_result(
        "crlf-lost", "RD-2/lossy", READ, text(lambda t: t.replace("\r\n", "\n")), when=about(EMAIL)
    )
    yield in_result("last-line-trimmed", "RD-2/lossy", READ, text(lambda t: t[:-1]), when=about(BOM))
    yield in_result("bytes-as-text", "RD-2/lossy", READ, decoded, when=about(LOGO))
    yield in_result("half-a-pair", "RD-2/lossy", READ, _content(text="\ud800"), when=about(EMAIL))
    yield in_result("blob-not-base64", "RD-2/base64", READ, _content(blob="!!!!"), when=about(LOGO))
    yield in_result("blob-unpadded", "RD-2/base64", READ, _content(blob="eHh4eA="), when=about(LOGO))
    yield in_result("skill-md-as-blob", "RD-2/skill-md-blob", READ, as_blob, when=about(main))
    yield in_result("other-bytes", "ENT-3/digest", READ, _content(text="something else"), when=about(EMAIL))
    yield in_result("markdown-as-text", "FMT-7/mime", READ, _content(mimeType="text/plain"), when=about(main))
    yield in_result("markdown-untyped", "FMT-7/mime", READ, _content(mimeType=None), when=about(main))
    yield _restless("restless-file", EMAIL)
    yield _restless("restless-skill", main)
    yield _climber("climbs", "/../")
    yield _climber("climbs-encoded", "/%2e%2e/")
    yield _climber("climbs-by-slash", "/..%2f")


def _restless(name: str, uri: str) -> Defect:
    """Other bytes at each read."""

    def switch_on(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked == READ and params["uri"] == uri:
                server.counts[uri] += 1
                answer["result"]["contents"][0]["text"] += f"\nread {server.counts[uri]} times\n"
            return answer

        server.bend = bend

    return Defect(name, "RD-2/changing", switch_on)


def _climber(name: str, step: str) -> Defect:
    """Joins what it is given to a directory, and so leaves it."""

    def switch_on(server: CleanServer) -> None:
        async def bend(server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked == READ and step in params["uri"]:
                uri = "skill://" + params["uri"].partition(step)[2]
                return {"jsonrpc": "2.0", "id": answer["id"], "result": server.read({"uri": uri})}
            return answer

        server.bend = bend

    return Defect(name, "FMT-9/climb", switch_on)


def _directories() -> Iterator[Defect]:
    def child(name: str, change: Change) -> Change:
        def bend(result: Json) -> None:
            changed = [
                change(item) if item["uri"].endswith(f"/{name}") else item for item in result["resources"]
            ]
            result["resources"] = [item for item in changed if item is not None]

        return bend

    def more(**item: Any) -> Change:
        return lambda result: result["resources"].append(item)

    root, examples, drafts = about(REFUNDS), about(f"{REFUNDS}/examples"), about(f"{REFUNDS}/drafts")
    found = MODERN_RESULT | {"resources": []}
    deep = {"name": "deep", "mimeType": "inode/directory"}
    yield in_result("no-children", "DIR-1/shape", DIRECTORY, drop("resources"), when=drafts)
    yield in_result(
        "child-without-name", "DIR-1/shape", DIRECTORY, child("email.md", drop("name")), when=examples
    )
    yield in_result("child-without-uri", "DIR-1/shape", DIRECTORY, more(name="ghost"), when=examples)
    yield in_result(
        "directory-untyped", "DIR-1/directory-type", DIRECTORY, child("examples", drop("mimeType")), when=root
    )
    yield in_result(
        "file-as-directory",
        "DIR-1/directory-type",
        DIRECTORY,
        child("email.md", put(mimeType="inode/directory")),
        when=examples,
    )
    yield in_result(
        "grandchildren",
        "DIR-1/direct",
        DIRECTORY,
        more(uri=EMAIL, name="email.md", mimeType="text/markdown"),
        when=lambda p: p.get("uri") == REFUNDS and p.get("cursor") == "2",
    )
    yield in_result(
        "child-elsewhere",
        "DIR-1/direct",
        DIRECTORY,
        more(uri="skill://other/x.md", name="x.md"),
        when=examples,
    )
    yield in_result(
        "child-twice",
        "DIR-1/duplicate",
        DIRECTORY,
        more(uri=EMAIL, name="email.md", mimeType="text/markdown"),
        when=examples,
    )
    yield in_result(
        "child-missing", "DIR-1/complete", DIRECTORY, child("email.md", lambda _item: None), when=examples
    )
    yield in_result("child-size", "DIR-1/size", DIRECTORY, child("email.md", put(size=1)), when=examples)
    yield in_answer("empty-is-error", "DIR-1/empty", DIRECTORY, refused_by(-32602), when=drafts)
    yield in_result("directory-without-type", "DIR-1/result-type", DIRECTORY, drop("resultType"))
    yield in_result(
        "directory-null-cursor", "DIR-1/cursor-type", DIRECTORY, put(nextCursor=None), when=examples
    )
    yield in_result("directory-circle", "DIR-1/endless", DIRECTORY, put(nextCursor="2"), when=examples)
    yield _growing("ever-more-children", DIRECTORY, "DIR-1/endless", "resources", uri=f"{REFUNDS}/examples")
    yield in_answer(
        "directory-any-cursor",
        "DIR-1/bad-cursor",
        DIRECTORY,
        answered_by(found),
        when=lambda p: BAD in p.get("cursor", ""),
    )
    yield in_answer("level-missing", "DIR-2/level", DIRECTORY, refused_by(-32602), when=examples)
    yield in_answer("root-missing", "DIR-2/level", DIRECTORY, refused_by(-32602), when=root)
    yield in_answer(
        "prefix-missing", "DIR-2/prefix", DIRECTORY, refused_by(-32602), when=about("skill://acme")
    )
    yield _bottomless("bottomless", f"{REFUNDS}/drafts", deep)
    yield in_answer(
        "directory-without-uri", "DIR-3/no-uri", DIRECTORY, answered_by(found), when=lambda p: "uri" not in p
    )
    yield in_answer("any-directory", "DIR-3/unknown", DIRECTORY, answered_by(found), when=probed(BAD))
    yield in_answer(
        "unknown-directory-crash", "DIR-3/unknown", DIRECTORY, refused_by(-32603), when=probed(BAD)
    )
    yield in_answer(
        "file-is-directory", "DIR-3/file", DIRECTORY, answered_by(found), when=about(f"{REFUNDS}/SKILL.md")
    )
    yield in_result(
        "slash",
        "FMT-4/slash",
        DIRECTORY,
        child("examples", lambda c: {**c, "uri": c["uri"] + "/"}),
        when=root,
    )
    yield in_result(
        "markdown-untyped-in-directory",
        "FMT-7/mime",
        DIRECTORY,
        child("SKILL.md", put(mimeType="text/plain")),
        when=about(NESTED),
    )
    yield in_result(
        "child-uri-broken",
        "FMT-9/uri",
        DIRECTORY,
        more(uri=f"{REFUNDS}/examples//x", name="x"),
        when=examples,
    )


def _bottomless(name: str, uri: str, child: Json) -> Defect:
    """Below an empty directory there is another, and so on."""

    def switch_on(server: CleanServer) -> None:
        async def bend(_server: CleanServer, asked: str, params: Json, answer: Json) -> Json:
            if asked == DIRECTORY and params.get("uri", "").startswith(uri):
                answer.pop("error", None)
                below = {**child, "uri": f"{params['uri']}/deep"}
                answer["result"] = MODERN_RESULT | {"resources": [below]}
            return answer

        server.bend = bend

    return Defect(name, "DIR-2/loop", switch_on)
