"""Further servers that are unusual and legal: shapes of JSON, pages, names and revisions."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from typing import Any

from conformance.clean_server import ATLAS, LEGACY, MODERN, REFUNDS, CleanServer, Json, Refused, skill_md
from conformance.methods import DIRECTORY, GOOD, READ
from conformance.switches import bend_all

ODDITIES: dict[str, Callable[[CleanServer], None]] = {}


def oddity(make: Callable[[CleanServer], None]) -> Callable[[CleanServer], None]:
    ODDITIES[make.__name__.replace("_", "-")] = make
    return make


@oddity
def an_empty_page_in_the_middle(server: CleanServer) -> None:
    right = server.list_skills

    def pages(params: Json) -> Json:
        cursor = params.get("cursor", "0")
        if cursor == "gap":
            return {"skills": [], "nextCursor": "2"}
        page = right(params)
        return page | {"nextCursor": "gap"} if page.get("nextCursor") == "2" else page

    server.list_skills = pages  # type: ignore[method-assign]


@oddity
def resources_in_another_order_each_time(server: CleanServer) -> None:
    dice = random.Random(7)

    def shuffled(_root: str, entry: Json) -> Json:
        dice.shuffle(entry["resources"])
        return dict(reversed(entry.items()))

    server.bend_entry = shuffled


@oddity
def sizes_as_decimal_numbers(server: CleanServer) -> None:
    def decimal(_root: str, entry: Json) -> Json:
        for one in entry["resources"]:
            one["size"] = float(one["size"])
        return entry

    server.bend_entry = decimal


@oddity
def integers_beyond_a_double(server: CleanServer) -> None:
    server.tree.files[f"{REFUNDS}/SKILL.md"] = (
        b"---\nname: refunds\ndescription: Refund an order and tell the customer. Use when money goes back.\n"
        b"serial: 9007199254740993\nratio: 0.1\nnothing: ~\nlist: [a, [b, {c: -0}]]\n---\n# Steps\n"
    )
    server.tree.frontmatter[REFUNDS] = {
        "name": "refunds",
        "description": "Refund an order and tell the customer. Use when money goes back.",
        "serial": 9007199254740993,
        "ratio": 0.1,
        "nothing": None,
        "list": ["a", ["b", {"c": 0}]],
    }


@oddity
def a_file_of_no_bytes(server: CleanServer) -> None:
    server.tree.files[f"{REFUNDS}/notes/.keep"] = b""


@oddity
def another_scheme(server: CleanServer) -> None:
    def moved(text: str) -> str:
        return text.replace("skill://", "acme+files://")

    tree = server.tree
    tree.files = {moved(uri): data for uri, data in tree.files.items()}
    tree.empty = set(map(moved, tree.empty))
    tree.listed, tree.unlisted = list(map(moved, tree.listed)), list(map(moved, tree.unlisted))
    tree.frontmatter = {moved(uri): fields for uri, fields in tree.frontmatter.items()}
    tree.instructions = moved(tree.instructions)


@oddity
def every_file_as_a_blob(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        if method == READ and "result" in answer:
            for content in answer["result"]["contents"]:
                if "text" in content:
                    content["blob"] = base64.b64encode(content.pop("text").encode()).decode()
        return answer

    bend_all(server, change)


@oddity
def directories_without_a_ttl(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        if method == DIRECTORY and "result" in answer:
            answer["result"].pop("ttlMs", None)
            answer["result"].pop("cacheScope", None)
        return answer

    bend_all(server, change)


@oddity
def the_fields_of_2026_on_2025(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        if method.startswith("skills/") and "result" in answer:
            answer["result"] |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return answer

    bend_all(server, change)


@oddity
def json_with_spaces_and_escapes(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        text = json.dumps(answer, indent=3, ensure_ascii=True, sort_keys=True).replace("/", "\\/")
        return {**answer, "http": {"body": text.encode(), "kind": "application/json; charset=UTF-8"}}

    bend_all(server, change)


@oddity
def a_name_in_greek(server: CleanServer) -> None:
    root, name = "skill://acme/%CF%87%CE%AC%CF%81%CF%84%CE%B7%CF%82", "χάρτης"
    server.tree.files[f"{root}/SKILL.md"] = skill_md(name, GOOD)
    server.tree.frontmatter[root] = {"name": name, "description": GOOD}
    server.tree.listed.append(root)


@oddity
def a_skill_with_windows_line_ends(server: CleanServer) -> None:
    uri = f"{ATLAS}/SKILL.md"
    server.tree.files[uri] = server.tree.files[uri].replace(b"\n", b"\r\n")


@oddity
def long_cursors_with_any_character(server: CleanServer) -> None:
    right = server.page

    def page(items: list[Any], params: Json, key: str) -> Json:
        cursor = params.get("cursor")
        if cursor is not None:
            if not cursor.startswith("→ "):
                raise Refused(-32602, "no such cursor")
            params = {**params, "cursor": cursor.split("|")[1]}
        given = right(items, params, key)
        if "nextCursor" in given:
            given["nextCursor"] = f'→ {"x" * 900}|{given["nextCursor"]}|\t\u0000"\\'
        return given

    server.page = page  # type: ignore[method-assign]


@oddity
def the_newest_revision_only(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> Json:
        if params["era"] == LEGACY:
            error = {"code": -32601, "message": f"no method {method}"}
            return {"jsonrpc": "2.0", "id": answer["id"], "error": error}
        return answer

    bend_all(server, change)


@oddity
def an_unlisted_file_kept_out_of_the_manifest(server: CleanServer) -> None:
    """A readable resource below a skill's directory that no directory read shows and no manifest names."""
    server.tree.files["skill://acme/readme.txt"] = b"Not part of any skill.\n"


@oddity
def a_directory_read_as_a_text(server: CleanServer) -> None:
    """The base protocol lets a server return what is in a directory for its URI."""

    def change(method: str, params: Json, answer: Json) -> Json:
        if method == READ and params.get("uri") in server.tree.directories():
            text = "\n".join(server.tree.inside(params["uri"]))
            contents = [{"uri": params["uri"], "mimeType": "text/plain", "text": text}]
            fields = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
            value = {"contents": contents, **(fields if params["era"] == MODERN else {})}
            return {"jsonrpc": "2.0", "id": answer["id"], "result": value}
        return answer

    bend_all(server, change)
