"""What the client of the extension in Claude Code would ask, asked of our server.

Claude Code 2.1 contains such a client and leaves it switched off. The methods and fields are those that its
program names: `skills/list` by pages, `skills/get`, `resources/directory/read`, and rules that pin a skill by
`@sha256:` and a digest. docs/clients.md says what to change when it is switched on.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from served import serving
from trees import write_skill

pytestmark = pytest.mark.process

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {
        "name": "claude-code",
        "title": "Claude Code",
        "version": "2.1.326",
    },
    "io.modelcontextprotocol/clientCapabilities": {
        "roots": {},
        "elicitation": {},
        "extensions": {"io.modelcontextprotocol/skills": {}},
    },
}


class Asking:
    """A client over stdio that numbers its requests."""

    def __init__(self, served: Any) -> None:
        self.served = served
        self.number = 0

    def __call__(self, method: str, **params: Any) -> dict[str, Any]:
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": {"_meta": META, **params}}
        self.served.send(request)
        answer = self.served.receive()
        assert answer["id"] == self.number
        return answer


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    for number in range(5):
        write_skill(
            tmp_path / f"skills/skill-{number}", {"references/guide.md": b"one\n", "run.sh": b"#!/bin/sh\n"}
        )
    return tmp_path / "skills"


def test_every_request_of_its_client_is_answered(skills: Path) -> None:
    with serving(skills, "--page-size", "3") as served:
        served.listen()
        ask = Asking(served)
        discovered = ask("server/discover")["result"]
        declared = discovered["capabilities"]["extensions"]["io.modelcontextprotocol/skills"]
        assert declared["directoryRead"] is True
        # It hides its own tools for skills from a model that gets them through the extension.
        assert "tools" not in discovered["capabilities"] or ask("tools/list")["result"]["tools"] == []

        entries: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = ask("skills/list", **cursor)["result"]
            assert page["resultType"] == "complete"
            entries += page["skills"]
            if "nextCursor" not in page:
                break
            cursor = {"cursor": page["nextCursor"]}
        assert [entry["frontmatter"]["name"] for entry in entries] == [f"skill-{n}" for n in range(5)]

        entry = ask("skills/get", uri=entries[3]["uri"])["result"]["skill"]
        assert entry == entries[3]
        # A rule that ends in `@sha256:` and a digest is met by the bytes, file by file.
        for resource in entry["resources"]:
            contents = ask("resources/read", uri=resource["uri"])["result"]["contents"]
            data = contents[0]["text"].encode()
            assert resource["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
            assert resource["size"] == len(data)
        root = entry["uri"].removesuffix("/SKILL.md")
        listed = ask("resources/directory/read", uri=root)["result"]["resources"]
        assert {one["uri"] for one in listed} == {
            f"{root}/{name}" for name in ("SKILL.md", "references", "run.sh")
        }
        inner = ask("resources/directory/read", uri=f"{root}/references")["result"]["resources"]
        assert [one["uri"] for one in inner] == [f"{root}/references/guide.md"]

        missing = ask("skills/get", uri="skill://nothing/SKILL.md")["error"]
        assert missing["code"] == -32602
        assert json.dumps(missing).count("skill://nothing/SKILL.md") >= 1
