"""Requests are well formed, and wrong answers are distinguished from right ones."""

from __future__ import annotations

import json

import pytest
from benchmarks.calls import (
    FIRST_ID,
    WrongAnswer,
    check_entry,
    check_read,
    get_call,
    list_call,
    read_call,
    result_of,
)
from benchmarks.tree import make_skill

SKILL = make_skill(7)


def answer(result: object, identity: int = FIRST_ID) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": identity, "result": result}, separators=(",", ":")).encode()


def content(text: str) -> dict[str, object]:
    return {"contents": [{"uri": SKILL.uri, "mimeType": "text/markdown", "text": text}]}


def entry() -> dict[str, object]:
    files = [{"uri": uri, "digest": digest, "size": 1} for uri, digest in SKILL.digests.items()]
    return {"uri": SKILL.uri, "frontmatter": {"name": SKILL.path.rpartition("/")[2]}, "resources": files}


def test_a_line_is_one_json_message_with_its_id() -> None:
    line = read_call(SKILL).line(FIRST_ID + 5)
    assert line.endswith(b"\n")
    message = json.loads(line)
    assert (message["id"], message["method"]) == (FIRST_ID + 5, "resources/read")
    assert message["params"]["uri"] == SKILL.uri


def test_a_request_over_http_has_its_declared_length_and_the_headers_of_its_revision() -> None:
    request = read_call(SKILL).over_http("127.0.0.1:8000").line(FIRST_ID + 999)
    head, _, body = request.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /mcp HTTP/1.1"
    headers = dict(line.split(": ", 1) for line in lines[1:])
    assert headers["Content-Length"] == str(len(body))
    assert headers["MCP-Protocol-Version"] == "2026-07-28"
    assert headers["Mcp-Method"] == "resources/read"
    assert headers["Mcp-Name"] == SKILL.uri


def test_a_listing_names_no_target() -> None:
    assert b"Mcp-Name" not in list_call().over_http("localhost").line(FIRST_ID)


def test_the_right_answer_is_right() -> None:
    text = SKILL.files["SKILL.md"].decode()
    assert read_call(SKILL).is_right(answer(content(text)), FIRST_ID)
    assert get_call(SKILL).is_right(answer({"skill": entry()}), FIRST_ID)
    check_read(SKILL, "SKILL.md", content(text))
    check_entry(SKILL, entry())


def test_an_answer_to_another_request_is_wrong() -> None:
    text = SKILL.files["SKILL.md"].decode()
    assert not read_call(SKILL).is_right(answer(content(text), FIRST_ID + 1), FIRST_ID)


@pytest.mark.parametrize(
    "text", ["", SKILL.files["SKILL.md"].decode()[:-1], make_skill(8).files["SKILL.md"].decode()]
)
def test_other_content_is_wrong(text: str) -> None:
    assert not read_call(SKILL).is_right(answer(content(text)), FIRST_ID)
    with pytest.raises(WrongAnswer):
        check_read(SKILL, "SKILL.md", content(text))


def test_an_entry_without_a_file_is_wrong() -> None:
    short = entry()
    assert isinstance(short["resources"], list)
    short["resources"].pop()
    assert not get_call(SKILL).is_right(answer({"skill": short}), FIRST_ID)
    with pytest.raises(WrongAnswer):
        check_entry(SKILL, short)


def test_an_error_has_no_result() -> None:
    with pytest.raises(WrongAnswer):
        result_of(b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}')


def test_a_result_may_come_as_a_server_sent_event() -> None:
    assert result_of(b'event: message\r\ndata: {"id":1,"result":{"skills":[]}}\r\n\r\n') == {"skills": []}
