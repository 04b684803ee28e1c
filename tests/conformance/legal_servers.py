"""Servers that do something unusual and legal: none of it is a reason for a finding."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from conformance.clean_server import (
    ATLAS,
    BOM,
    EMAIL,
    EXTENSION,
    LEGACY,
    MODERN,
    NESTED,
    REFUNDS,
    CleanServer,
    Json,
    Tree,
    plant,
    skill_md,
)
from conformance.methods import DIRECTORY, GOOD, LIST, READ
from conformance.switches import Change, about, after_events, bend_all, in_result, put, refused_by
from publishers import new_key
from skillwire.skill import digest_of
from skillwire.trust import SIGNATURE_FILE, sign_files

LEGAL: dict[str, Callable[[CleanServer], None]] = {}


def legal(make: Callable[[CleanServer], None]) -> Callable[[CleanServer], None]:
    LEGAL[make.__name__.replace("_", "-")] = make
    return make


def make_legal(name: str) -> CleanServer:
    server = CleanServer(plant())
    LEGAL[name](server)
    return server


def bend(server: CleanServer, method: str, change: Change, **options: Any) -> None:
    in_result("", "", method, change, **options).switch_on(server)


@legal
def two_contents_in_one_read(server: CleanServer) -> None:
    other = server.read({"uri": BOM})["contents"][0]
    bend(server, READ, lambda r: r["contents"].append(other), when=about(EMAIL))


@legal
def another_file_first(server: CleanServer) -> None:
    other = server.read({"uri": BOM})["contents"][0]
    bend(server, READ, lambda r: r["contents"].insert(0, other), when=about(EMAIL))


@legal
def contents_of_other_resources(server: CleanServer) -> None:
    note = {"uri": "note://about/email", "text": "translated by hand"}
    bend(server, READ, lambda r: r["contents"].append(note), when=about(EMAIL))


@legal
def numbers_with_a_fraction_of_zero(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        result = answer.get("result", {})
        if "ttlMs" in result:
            result["ttlMs"] = 60000.0
        for child in result.get("resources", []) if method == DIRECTORY else []:
            if "size" in child:
                child["size"] = float(child["size"])
        for entry in [*result.get("skills", []), *([result["skill"]] if "skill" in result else [])]:
            for item in entry["resources"]:
                item["size"] = float(item["size"])
        return answer

    bend_all(server, change)


@legal
def whole_numbers_in_get_and_fractions_in_list(server: CleanServer) -> None:
    def change(result: Json) -> None:
        for entry in result["skills"]:
            for item in entry["resources"]:
                item["size"] = float(item["size"])

    bend(server, LIST, change)


@legal
def a_directory_that_can_be_read(server: CleanServer) -> None:
    async def bending(server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        if method == READ and params["uri"] in server.tree.directories():
            found = [uri for uri in server.tree.inside(params["uri"]) if uri.endswith((".md", ".txt"))]
            contents = [server.read({"uri": uri})["contents"][0] for uri in found]
            result = {"contents": contents, "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            return {"jsonrpc": "2.0", "id": answer["id"], "result": result}
        return answer

    server.bend = bending


@legal
def a_short_error_message(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        if "error" in answer:
            answer["error"]["message"] = "Invalid params"
        return answer

    bend_all(server, change)


@legal
def errors_with_data(server: CleanServer) -> None:
    def change(_method: str, params: Json, answer: Json) -> Json:
        if "error" in answer:
            answer["error"]["data"] = {"uri": params.get("uri"), "hint": ["list the skills first"]}
        return answer

    bend_all(server, change)


@legal
def an_empty_listing(server: CleanServer) -> None:
    server.tree.instructions += "".join(f" See {root}/SKILL.md." for root in server.tree.listed)
    server.tree.unlisted += server.tree.listed
    server.tree.listed = []


@legal
def a_dynamic_skill(server: CleanServer) -> None:
    def entry(root: str, entry: Json) -> Json:
        return {**entry, "resources": "dynamic"} if root == ATLAS else entry

    server.bend_entry = entry


@legal
def a_dynamic_skill_that_changes(server: CleanServer) -> None:
    root = "skill://reports/daily"
    server.tree.add(root, GOOD)

    def entry(of: str, entry: Json) -> Json:
        return {**entry, "resources": "dynamic"} if of == root else entry

    server.bend_entry = entry

    async def bending(server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        if method == READ and params["uri"] == f"{root}/SKILL.md":
            server.counts["made"] += 1
            answer["result"]["contents"][0]["text"] += f"Made {server.counts['made']} times.\n"
        return answer

    server.bend = bending


@legal
def fields_of_tomorrow(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        result = answer.get("result", {})
        result["tomorrow"] = {"deep": [1, {"x": None}]}
        result["_meta"] = {"com.example/trace": "abc"}
        if method in ("initialize", "server/discover"):
            result["capabilities"]["tools"] = {}
            result["capabilities"]["extensions"][EXTENSION]["futureOption"] = ["x"]
            result["capabilities"]["extensions"]["com.example/other"] = {}
        for entry in result.get("skills", []):
            entry.update(tomorrow=1, _meta={"com.example/stars": 5})
        if "skill" in result:
            result["skill"].update(tomorrow=1, _meta={"com.example/stars": 6})
        return answer

    bend_all(server, change)


@legal
def one_entry_a_page_and_opaque_cursors(server: CleanServer) -> None:
    server.page_size = 1
    clear = server.page

    def page(items: list[Any], params: Json, key: str) -> Json:
        cursor = params.get("cursor")
        if cursor is not None:
            try:
                params = {**params, "cursor": base64.b64decode(cursor, validate=True).decode()}
            except ValueError:
                params = {**params, "cursor": "not a number"}
        found = clear(items, params, key)
        if "nextCursor" in found:
            found["nextCursor"] = base64.b64encode(found["nextCursor"].encode()).decode()
        return found

    server.page = page  # type: ignore[method-assign]


@legal
def empty_pages_in_between(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> Json:
        if method == LIST and params.get("cursor") == "empty":
            answer.pop("error")
            answer["result"] = {"skills": [], "nextCursor": "2", "resultType": "complete"}
            answer["result"] |= {"ttlMs": 1, "cacheScope": "public"}
        elif method == LIST and "cursor" not in params:
            answer["result"]["nextCursor"] = "empty"
        return answer

    bend_all(server, change)


@legal
def supporting_files_as_blobs(server: CleanServer) -> None:
    def change(result: Json) -> None:
        for content in result["contents"]:
            if "text" in content and not content["uri"].endswith("SKILL.md"):
                content["blob"] = base64.b64encode(content.pop("text").encode()).decode()

    bend(server, READ, change)


@legal
def answers_as_event_streams(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        return after_events()(answer)

    bend_all(server, change)


@legal
def pings_and_declared_notifications_on_2025(server: CleanServer) -> None:
    changed = {"jsonrpc": "2.0", "method": "notifications/resources/list_changed"}
    logged = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "hi"}}
    ping = {"jsonrpc": "2.0", "id": "p1", "method": "ping"}

    def change(method: str, params: Json, answer: Json) -> Json:
        if method in ("initialize", "server/discover"):
            answer["result"]["capabilities"] |= {"resources": {"listChanged": True}, "logging": {}}
        elif params["era"] == LEGACY:
            return after_events(changed, logged, ping)(answer)
        return answer

    bend_all(server, change)


@legal
def the_old_code_on_2025(server: CleanServer) -> None:
    def change(method: str, params: Json, answer: Json) -> Json:
        if method == READ and params["era"] == LEGACY and "error" in answer:
            answer["error"] = {
                "code": -32002,
                "message": "Resource not found",
                "data": {"uri": params["uri"]},
            }
        return answer

    bend_all(server, change)


@legal
def another_wording_on_each_revision(server: CleanServer) -> None:
    def change(_method: str, params: Json, answer: Json) -> Json:
        if "error" in answer:
            answer["error"]["message"] += f" ({params['era']})"
        return answer

    bend_all(server, change)


@legal
def media_types_with_parameters(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        result = answer.get("result", {})
        for one in [
            *result.get("contents", []),
            *(result.get("resources", []) if method != DIRECTORY else []),
        ]:
            if one.get("mimeType", "").startswith("text/"):
                one["mimeType"] += "; charset=utf-8"
        return answer

    bend_all(server, change)


@legal
def files_without_a_media_type(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        result = answer.get("result", {})
        for one in [*result.get("contents", []), *result.get("resources", [])]:
            if not one["uri"].endswith("SKILL.md") and one.get("mimeType") != "inode/directory":
                one.pop("mimeType", None)
                one.pop("size", None)
        return answer

    bend_all(server, change)


@legal
def names_in_other_scripts(server: CleanServer) -> None:
    name = "caf%C3%A9"
    root = f"skill://{name}"
    server.tree.files[f"{root}/SKILL.md"] = skill_md("café", GOOD)
    server.tree.files[f"{root}/men%C3%BC%20f%C3%BCr%20heute.txt"] = "Grüße 🥐\n".encode()
    server.tree.frontmatter[root] = {"name": "café", "description": GOOD}
    server.tree.listed.append(root)


@legal
def no_directories(server: CleanServer) -> None:
    server.tree.empty.clear()
    server.tree.unlisted = []
    server.tree.instructions = ""
    server.tree.files = {
        uri: data for uri, data in server.tree.files.items() if "plan-b" not in uri and "audit" not in uri
    }

    def change(method: str, _params: Json, answer: Json) -> Json:
        if method in ("initialize", "server/discover"):
            answer["result"]["capabilities"]["extensions"] = {EXTENSION: {}}
        return refused_by(-32601)(answer) if method == DIRECTORY else answer

    bend_all(server, change)


@legal
def a_trailing_slash_is_accepted_for_directories(server: CleanServer) -> None:
    async def bending(server: CleanServer, method: str, params: Json, answer: Json) -> Json:
        if method == DIRECTORY and str(params.get("uri")).endswith("/") and "error" in answer:
            result = server.answer(method, {**params, "uri": params["uri"].rstrip("/")}, params["era"])
            return {"jsonrpc": "2.0", "id": answer["id"], "result": result}
        return answer

    server.bend = bending


@legal
def nothing_in_resources_list(server: CleanServer) -> None:
    server.list_resources = lambda params: {"resources": []}  # type: ignore[method-assign]


@legal
def a_real_skill_at_a_neighboring_uri(server: CleanServer) -> None:
    """`skill://billing/refunds` resembles `skill://acme/billing/refunds`, and is an unlisted skill."""
    server.tree.add("skill://billing/refunds", GOOD, listed=False)
    server.tree.add("skill://acme/billing/refund", GOOD, listed=False)


@legal
def private_and_stale_at_once(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        if "ttlMs" in answer.get("result", {}):
            answer["result"] |= {"ttlMs": 0, "cacheScope": "private"}
        return answer

    bend_all(server, change)


@legal
def an_id_written_as_a_fraction(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        return {**answer, "id": float(answer["id"])}

    bend_all(server, change)


@legal
def server_info_in_meta(server: CleanServer) -> None:
    def change(method: str, _params: Json, answer: Json) -> Json:
        if method == "server/discover":
            info = answer["result"].pop("serverInfo")
            answer["result"]["_meta"] = {"io.modelcontextprotocol/serverInfo": info}
            answer["result"]["supportedVersions"] = ["2027-01-01", MODERN]
        return answer

    bend_all(server, change)


@legal
def an_older_revision_is_negotiated(server: CleanServer) -> None:
    bend(server, "initialize", put(protocolVersion="2025-03-26"))


@legal
def cache_fields_on_2025(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        answer.get("result", {}).update(resultType="complete", ttlMs=5, cacheScope="public")
        return answer

    bend_all(server, change)


@legal
def frontmatter_of_every_type(server: CleanServer) -> None:
    root = "skill://sorting"
    data = "\n  a: yes\n  b: '1'\n  c: 2024-01-01"
    text = skill_md("sorting", GOOD, metadata=data)
    server.tree.files[f"{root}/SKILL.md"] = text
    metadata = {"a": "yes", "b": "1", "c": "2024-01-01"}
    server.tree.frontmatter[root] = {"name": "sorting", "description": GOOD, "metadata": metadata}
    server.tree.listed.append(root)


@legal
def http_statuses_for_errors(server: CleanServer) -> None:
    def change(_method: str, _params: Json, answer: Json) -> Json:
        if "error" in answer:
            status = 404 if answer["error"]["code"] == -32601 else 400
            return {**answer, "http": {"status": status, "body": json.dumps(answer).encode()}}
        return answer

    bend_all(server, change)


@legal
def many_empty_directories(server: CleanServer) -> None:
    def empty(tree: Tree) -> None:
        tree.empty |= {f"{REFUNDS}/later/{number}" for number in range(5)} | {f"{NESTED}/sketches"}

    empty(server.tree)


@legal
def signed_skill(server: CleanServer) -> None:
    root = "skill://sorting"
    files = {"SKILL.md": skill_md("sorting", GOOD, "# Steps\n"), "by-size.md": b"Largest first.\n"}
    digests = {path: digest_of(data) for path, data in files.items()}
    files[SIGNATURE_FILE] = sign_files(digests, name="sorting", key=new_key())
    server.tree.files |= {f"{root}/{path}": data for path, data in files.items()}
    server.tree.frontmatter[root] = {"name": "sorting", "description": GOOD}
    server.tree.listed.append(root)
