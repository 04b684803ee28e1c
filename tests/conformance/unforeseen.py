"""Servers that no rule was written for: thirty with one defect each, and sixteen that are unusual and legal.

They were written from the specification alone, before the rules were looked at; 27 of the 30 were seen at
first sight, and none of the others gave a finding. Which rule reports a defect is left open.
"""

from __future__ import annotations

import base64
import copy
import json
import unicodedata
from collections.abc import Callable
from typing import Any

import anyio

from conformance.clean_server import (
    ATLAS,
    EMAIL,
    EXTENSION,
    LEGACY,
    LOGO,
    NESTED,
    REFUNDS,
    CleanServer,
    Json,
    skill_md,
)
from conformance.methods import DIRECTORY, GET, GOOD, LIST, READ

Make = Callable[[CleanServer], None]
DEFECTIVE: dict[str, Make] = {}
UNUSUAL: dict[str, Make] = {}


def defect(make: Make) -> Make:
    DEFECTIVE[make.__name__.replace("_", "-")] = make
    return make


def unusual(make: Make) -> Make:
    UNUSUAL[make.__name__.replace("_", "-")] = make
    return make


def bend(server: CleanServer, change: Callable[[str, Json, Json], Json | None]) -> None:
    """Change every answer, given its method and parameters, in place or for another."""

    async def bending(_server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        copied = copy.deepcopy(answer)
        return change(method, params, copied) or copied

    server.bend = bending


def bend_hello(server: CleanServer, change: Callable[[Json], object]) -> None:
    def hello(method: str, _params: Json, answer: Json) -> None:
        if method in ("initialize", "server/discover") and "result" in answer:
            change(answer["result"])

    bend(server, hello)


def bend_entry(server: CleanServer, of: str, change: Callable[[Json], object]) -> None:
    def entry(root: str, value: Json) -> Json:
        if root == of:
            change(value)
        return value

    server.bend_entry = entry


def rewrite(server: CleanServer, root: str, lines: str, **fields: Any) -> None:
    """Give a skill further frontmatter: these lines of YAML, and these fields of its entry."""
    name, about = root.rpartition("/")[2], server.tree.frontmatter[root]["description"]
    server.tree.files[f"{root}/SKILL.md"] = (
        f"---\nname: {name}\ndescription: {about}\n{lines}---\n# Steps\n".encode()
    )
    server.tree.frontmatter[root] = {"name": name, "description": about, **fields}


def add(server: CleanServer, root: str, name: str, description: str = GOOD) -> None:
    server.tree.files[f"{root}/SKILL.md"] = skill_md(name, description)
    server.tree.frontmatter[root] = {"name": name, "description": description}
    server.tree.listed.append(root)


def raw(answer: Json, body: bytes, kind: str = "application/json") -> Json:
    return {**answer, "http": {"body": body, "kind": kind}}


# Thirty defects


@defect
def nested_files_left_out(server: CleanServer) -> None:
    def change(entry: Json) -> None:
        entry["resources"] = [one for one in entry["resources"] if not one["uri"].startswith(NESTED)]

    bend_entry(server, ATLAS, change)


@defect
def nested_skill_without_its_files(server: CleanServer) -> None:
    def change(entry: Json) -> None:
        entry["resources"] = [one for one in entry["resources"] if not one["uri"].endswith("legend.txt")]

    bend_entry(server, ATLAS, change)


@defect
def file_typed_as_directory(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> None:
        if method == DIRECTORY:
            for child in answer.get("result", {}).get("resources", []):
                if child["uri"] == EMAIL:
                    child["mimeType"] = "inode/directory"

    bend(server, change)


@defect
def directory_page_repeated(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> None:
        if method == DIRECTORY and "cursor" in params and "result" in answer:
            first = server.read_directory({"uri": params["uri"]})
            answer["result"]["resources"] = first["resources"]

    bend(server, change)


@defect
def date_as_timestamp(server: CleanServer) -> None:
    rewrite(server, REFUNDS, "created: 2026-01-02\n", created="2026-01-02T00:00:00Z")


@defect
def field_dropped(server: CleanServer) -> None:
    rewrite(server, REFUNDS, "license: MIT\nowner: billing\n", license="MIT")


@defect
def field_invented(server: CleanServer) -> None:
    rewrite(server, REFUNDS, "license: MIT\n", license="MIT", version="1.0")


@defect
def number_read_as_octal(server: CleanServer) -> None:
    rewrite(server, REFUNDS, "mode: 010\n", mode=8)


@defect
def blob_for_urls(server: CleanServer) -> None:
    def change(_method: str, params: Json, answer: Json) -> None:
        if params.get("uri") == LOGO and "contents" in answer.get("result", {}):
            data = base64.b64decode(answer["result"]["contents"][0]["blob"])
            answer["result"]["contents"][0]["blob"] = base64.urlsafe_b64encode(data).decode()

    bend(server, change)


@defect
def blob_with_line_breaks(server: CleanServer) -> None:
    def change(_method: str, params: Json, answer: Json) -> None:
        if params.get("uri") == LOGO and "contents" in answer.get("result", {}):
            data = base64.b64decode(answer["result"]["contents"][0]["blob"])
            answer["result"]["contents"][0]["blob"] = base64.encodebytes(data).decode()

    bend(server, change)


@defect
def text_recomposed(server: CleanServer) -> None:
    server.tree.files[f"{REFUNDS}/notes/cafe.txt"] = "cafe\u0301\n".encode()

    def change(_method: str, params: Json, answer: Json) -> None:
        if str(params.get("uri")).endswith("cafe.txt") and "contents" in answer.get("result", {}):
            content = answer["result"]["contents"][0]
            content["text"] = unicodedata.normalize("NFC", content["text"])

    bend(server, change)


@defect
def error_code_as_text(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> None:
        if "error" in answer:
            answer["error"]["code"] = str(answer["error"]["code"])

    bend(server, change)


@defect
def error_and_result(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> None:
        if method == GET and "error" in answer:
            answer["result"] = {}

    bend(server, change)


@defect
def version_of_jsonrpc_missing(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> None:
        if method == LIST:
            del answer["jsonrpc"]

    bend(server, change)


@defect
def directory_read_as_yes(server: CleanServer) -> None:
    def change(result: Json) -> None:
        result["capabilities"]["extensions"][EXTENSION]["directoryRead"] = "yes"

    bend_hello(server, change)


@defect
def extension_as_true(server: CleanServer) -> None:
    def change(result: Json) -> None:
        result["capabilities"]["extensions"][EXTENSION] = True

    bend_hello(server, change)


@defect
def extension_on_2026_only(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> None:
        if method == "initialize":
            del answer["result"]["capabilities"]["extensions"]

    bend(server, change)


@defect
def unknown_directory_is_empty(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> Json | None:
        if method == DIRECTORY and "error" in answer and str(params.get("uri")).startswith(f"{REFUNDS}/"):
            result: Json = {"resources": []}
            if params["era"] != LEGACY:
                result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
            return {"jsonrpc": "2.0", "id": answer["id"], "result": result}
        return None

    bend(server, change)


@defect
def directory_of_nothing(server: CleanServer) -> None:
    right = server.read_directory

    def read(params: Json) -> Json:
        return right({**params, "uri": params.get("uri", REFUNDS)})

    server.read_directory = read  # type: ignore[method-assign]


@defect
def reserved_meta(server: CleanServer) -> None:
    bend_entry(server, REFUNDS, lambda entry: entry.update(_meta={"io.modelcontextprotocol/featured": True}))


@defect
def markdown_as_plain_text_in_the_list(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> None:
        if method == "resources/list" and "result" in answer:
            for one in answer["result"]["resources"]:
                one["mimeType"] = "text/plain"

    bend(server, change)


@defect
def size_of_the_encoded_bytes(server: CleanServer) -> None:
    def change(entry: Json) -> None:
        for one in entry["resources"]:
            if one["uri"] == LOGO:
                one["size"] = len(base64.b64encode(server.tree.files[LOGO]))

    bend_entry(server, ATLAS, change)


@defect
def read_only_after_get(server: CleanServer) -> None:
    known: set[tuple[str, str]] = set()

    def change(method: str, params: Json, answer: Json) -> Json | None:
        uri, era = str(params.get("uri")), params["era"]
        if method == GET and "result" in answer:
            known.add((era, uri.rpartition("/")[0]))
        if method == READ and not any(of == era and uri.startswith(root) for of, root in known):
            error = {"code": -32602, "message": f"no resource at {uri}"}
            return {"jsonrpc": "2.0", "id": answer["id"], "error": error}
        return None

    bend(server, change)


@defect
def instructions_as_object(server: CleanServer) -> None:
    bend_hello(server, lambda result: result.update(instructions={"text": result["instructions"]}))


@defect
def supported_versions_as_text(server: CleanServer) -> None:
    def change(result: Json) -> None:
        if "supportedVersions" in result:
            result["supportedVersions"] = result["supportedVersions"][0]

    bend_hello(server, change)


@defect
def json_as_plain_text(server: CleanServer) -> None:
    bend(server, lambda _method, _params, answer: raw(answer, json.dumps(answer).encode(), "text/plain"))


@defect
def duplicate_keys(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> Json | None:
        if method == GET and "result" in answer and str(params.get("uri")).startswith(REFUNDS):
            return raw(answer, json.dumps(answer).replace('"size": ', '"size": 1, "size": ').encode())
        return None

    bend(server, change)


@defect
def number_that_is_none(server: CleanServer) -> None:
    rewrite(server, REFUNDS, "ratio: .nan\n", ratio=float("nan"))


@defect
def byte_order_mark_before_json(server: CleanServer) -> None:
    bend(
        server,
        lambda _method, _params, answer: raw(answer, b"\xef\xbb\xbf" + json.dumps(answer).encode()),
    )


@defect
def crowded_reads(server: CleanServer) -> None:
    last: dict[str, Json] = {}

    async def bending(_server: CleanServer, method: str, _params: Json, answer: Json) -> Json:
        if method == READ and "result" in answer:
            last["contents"] = answer["result"]["contents"]
            if server.running > 1:
                await anyio.lowlevel.checkpoint()
                answer = {**answer, "result": {**answer["result"], "contents": last["contents"]}}
        return answer

    server.bend = bending


# Sixteen oddities


@unusual
def further_members(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> None:
        if "result" in answer:
            answer["result"]["trace"] = {"id": 7}

    bend(server, change)


@unusual
def twenty_levels(server: CleanServer) -> None:
    path = "/".join(f"level-{number}" for number in range(20))
    server.tree.files[f"{REFUNDS}/{path}/deep.txt"] = b"Here.\n"


@unusual
def file_names_with_encoded_characters(server: CleanServer) -> None:
    server.tree.files[f"{REFUNDS}/notes/two%20words%23and%3Fmore.txt"] = b"Read me.\n"


@unusual
def a_file_named_by_an_emoji(server: CleanServer) -> None:
    server.tree.files[f"{REFUNDS}/%F0%9F%A6%8A.txt"] = "🦊\n".encode()


@unusual
def another_order_on_each_revision(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> None:
        if params["era"] == LEGACY and method == DIRECTORY and "result" in answer:
            answer["result"]["resources"].reverse()

    bend(server, change)


@unusual
def resources_that_are_no_skills(server: CleanServer) -> None:
    right = server.list_resources

    def resources(params: Json) -> Json:
        page = right(params)
        if "cursor" not in params:
            page["resources"] = [
                {"uri": "https://example.org/report", "name": "report"},
                {"uri": "db://table/1", "name": "first", "size": 10},
                *page["resources"],
            ]
        return page

    server.list_resources = resources  # type: ignore[method-assign]


@unusual
def many_capabilities(server: CleanServer) -> None:
    def change(result: Json) -> None:
        result["capabilities"] |= {"tools": {"listChanged": True}, "prompts": {}, "logging": {}}
        result["capabilities"]["extensions"]["org.example/other"] = {"level": 3}

    bend_hello(server, change)


@unusual
def errors_in_another_language(server: CleanServer) -> None:
    def change(_method: str, params: Json, answer: Json) -> None:
        if "error" in answer:
            answer["error"]["message"] = f"unter {params.get('uri')} gibt es nichts"
            answer["error"]["data"] = [1, {"uri": params.get("uri")}]

    bend(server, change)


@unusual
def meta_of_its_own(server: CleanServer) -> None:
    bend_entry(server, REFUNDS, lambda entry: entry.update(_meta={"org.example/rank": 4}))


@unusual
def everything_on_one_page(server: CleanServer) -> None:
    server.page_size = 1000


@unusual
def one_item_a_page(server: CleanServer) -> None:
    server.page_size = 1


@unusual
def media_type_in_capitals(server: CleanServer) -> None:
    bend(
        server,
        lambda _method, _params, answer: raw(
            answer, json.dumps(answer).encode(), "Application/JSON;charset=utf-8"
        ),
    )


@unusual
def the_longest_name_and_the_shortest(server: CleanServer) -> None:
    add(server, "skill://acme/x", "x")
    add(server, f"skill://acme/{'long-' * 12}name", f"{'long-' * 12}name", GOOD.ljust(1024, "."))


@unusual
def bytes_with_a_type_of_text(server: CleanServer) -> None:
    server.tree.files[f"{REFUNDS}/notes/latin.txt"] = "Größe\n".encode("latin-1")


@unusual
def no_instructions(server: CleanServer) -> None:
    server.tree.unlisted = [root for root in server.tree.unlisted if "plan-b" not in root]
    del server.tree.files["skill://plan-b/SKILL.md"]
    bend_hello(server, lambda result: result.pop("instructions"))


@unusual
def contents_under_another_spelling(server: CleanServer) -> None:
    """Both spellings are the same URI once they are decoded (FMT-9)."""

    def change(method: str, _params: Json, answer: Json) -> None:
        if method == READ and "result" in answer:
            for content in answer["result"]["contents"]:
                content["uri"] = content["uri"].replace("refunds", "%72efunds")

    bend(server, change)
