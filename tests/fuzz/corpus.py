"""Seeds: one valid or nearly valid input for every feature of a parser. Failures that were found are added
here."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from typing import Any

SKILL_MD = (
    b"---\nname: pdf\ndescription: Reads PDF files. Use when a PDF is given.\n---\n# PDF\n\nDo it.\n",
    b'---\nname: "a-b"\ndescription: |\n  Two\n  lines\nmetadata:\n  author: x\n  tags: [a, "b", 3]\n---\n',
    b"\xef\xbb\xbf---\r\nname: x\r\ndescription: >-\r\n  folded\r\nallowed-tools: Bash(git:*)\r\n---\r\nbody",
    b"---\n{name: x, description: 'y: z', n: 0x1F, f: 1e400, b: yes, t: 2026-01-01}\n---\n",
    b"---\nname: &a x\ndescription: *a\n<<: {k: v}\n? [k]\n: v\n...\n---\n",
    b"no frontmatter",
    b"---\nname: \xff\n---\n",
    b"---\n" + b"a: [" * 200 + b"\n---\n",
)
URIS = (
    b"skill://pdf/SKILL.md",
    b"skill://acme/team/pdf/data/a%20b%25.md",
    b"skill://caf%C3%A9/%2e%2e/SKILL.md",
    b"SKILL://Pdf//SKILL.md?x#y",
    b"fastmcp+skill://h:1/x/../SKILL.md",
    "skill://café/SKILL.md".encode(),
    b"file:///etc/passwd",
    b"fastmcp+skill://../SKILL.md",
)
_ENTRY: dict[str, Any] = {
    "uri": "skill://pdf/SKILL.md",
    "frontmatter": {"name": "pdf", "description": "Reads PDF files."},
    "resources": [
        {"uri": "skill://pdf/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 12},
        {"uri": "skill://pdf/a.bin", "digest": "sha256:" + "1" * 64, "size": 12.0},
    ],
    "_meta": {"x/y": [1, None, True]},
}
ANSWERS = tuple(
    json.dumps(value).encode()
    for value in (
        {"skills": [_ENTRY], "nextCursor": "abc", "ttlMs": 60000, "cacheScope": "private"},
        {"skills": [{**_ENTRY, "resources": "dynamic"}, {**_ENTRY, "uri": "x"}, 5, None], "nextCursor": ""},
        {"skill": _ENTRY},
        {"contents": [{"uri": "skill://pdf/SKILL.md", "text": "---\nname: pdf\n---\n"}]},
        {"contents": [{"uri": "skill://pdf/SKILL.md", "blob": "aGVsbG8="}, {"uri": "skill://pdf/SKILL.md"}]},
        {"resources": [{"uri": "skill://pdf/SKILL.md", "mimeType": "text/markdown", "description": "x"}]},
        {"children": [{"uri": "skill://pdf/a", "mimeType": "inode/directory"}]},
        {"extensions": {"io.modelcontextprotocol/skills": {"directoryRead": True}}, "resources": {}},
    )
)
INDEXES = tuple(
    json.dumps(value).encode()
    for value in (
        {"skills": [_ENTRY]},
        {"skills": [{"name": "pdf", "description": "x", "uri": "skill://pdf/SKILL.md", "type": "skill-md"}]},
        {
            "skills": [
                {"name": "pdf", "type": "archive", "url": "https://h/a.zip", "digest": "sha256:" + "0" * 64}
            ]
        },
        {"$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json", "skills": []},
        [{"name": "pdf", "files": ["SKILL.md", "../x"]}],
    )
)
CONFIGS = (
    b'[servers.docs]\nurl = "https://h/mcp"\ntoken_env = "T"\napproval = "pinned"\n',
    b'[servers.tool]\ncommand = "npx"\nargs = ["-y", "x"]\nenv = { K = "${V}" }\nskills = false\n',
    b'directories = ["~/skills"]\n[profiles.work]\nservers = ["docs"]\nexclude = ["a*"]\n',
    b'a.b.c.d = 1\nx = [[[[1]]]]\n"\\u0000" = 99999999999999999999\n',
    b"[servers]\ndocs = 5\n",
    b"[servers.tool]\nargs = " + b"[" * 500,
)
LOCKS = (
    b'version = 1\n\n[[skill]]\nname = "pdf"\nsource = "git+https://h/r"\ndigest = "sha256:'
    + b"0" * 64
    + b'"\n',
    b'version = 1\n[[skill]]\nname = "x"\n[[skill.file]]\npath = "../x"\nsize = -1\n',
    b'{"version": 1, "skills": {"pdf": {"source": "a/b", "sourceType": "github", "computedHash": "00"}}}',
    b"version = " + b"[" * 500,
)
CLIENT_FILES = (
    b'{"mcpServers": {"a": {"command": "npx", "args": ["x"], "env": {"K": "v"}}, "b": {"url": "https://h"}}}',
    b'// c\n{"servers": {"a": {"type": "http", "url": "https://h", "headers": {"X": "${input:y}"}},},}',
    b'{"mcpServers": {"a": {"httpUrl": "https://h", "trust": true}}, "mcp": {"allowed": ["a"]}}',
    b'{"extensions": {"a": {"type": "stdio", "cmd": "x", "args": [], "envs": {}, "enabled": true}}}',
    b'{"mcp_servers": {"a": {"command": "x", "env": {"K": "v"}, "startup_timeout_sec": 5}}}',
    b'{"projects": {"/x": {"mcpServers": {"a": {"command": 5}}}}}',
)
_META = (
    b'{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":'
    b'{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}'
)
REQUESTS = tuple(
    template.replace(b"META", _META)
    for template in (
        b'{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"_meta":META}}',
        b'{"jsonrpc":"2.0","id":2,"method":"skills/get","params":{"_meta":META,"uri":"skill://pdf/SKILL.md"}}',
        b'{"method":"resources/read","params":{"_meta":META,"uri":"skill://pdf/SKILL.md"},"jsonrpc":"2.0","id":3}',
        b'{"jsonrpc":"2.0","id":"x","method":"server/discover","params":{"_meta":META}}',
        b'{"jsonrpc":"2.0","id":1,"method":"skills/list","params":{"_meta":META,"cursor":"abc"},"id":1}',
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
    )
)


def _archive() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, data in {"SKILL.md": SKILL_MD[0], "data/a.txt": b"x"}.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return stream.getvalue()


ARCHIVES = (gzip.compress(_archive(), mtime=0), _archive(), b"PK\x03\x04" + b"\0" * 40)
BUNDLES = (
    json.dumps(
        {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {"publicKey": {"hint": "x"}, "tlogEntries": []},
            "dsseEnvelope": {
                "payload": "e30=",
                "payloadType": "application/vnd.in-toto+json",
                "signatures": [{"sig": "AAAA"}],
            },
        }
    ).encode(),
)
TOKENS = (
    b"---", b"\n", b"\r\n", b": ", b"- ", b"{", b"}", b"[", b"]", b'"', b"'", b"\\", b"\0", b"\xff", b"../",
    b"%2e", b"%00", b"://", b"@", b"null", b"true", b"1e999", b"-0", b"NaN", b"99999999999999999999", b"\t",
    b"\xe2\x80\xae", b"\xed\xa0\x80", b"&a", b"*a", b"<<", b"!!python/object", b" " * 40, b"[" * 500,
    b'{"a":' * 500, b"${HOME}", b"\x1b[2J",
)  # fmt: skip
MANIFESTS = (
    json.dumps(
        {"skill": "pdf", "files": [{"path": "SKILL.md", "size": 3, "hash": "sha256:" + "0" * 64}]}
    ).encode(),
)
CALLERS = (b'[callers.alice]\ntoken_sha256 = "' + b"0" * 64 + b'"\nservers = ["docs"]\nrate = 5\n',)
ADDRESSES = (
    b"https://example.org/b",
    b"127.1",
    b"0x7f.0.0.1:80/x",
    b"[::ffff:127.0.0.1]/",
    b"user@[fe80::1%25eth0]:8080",
    b"2130706433",
    b"a.localhost.",
)
DRAFTS = (
    json.dumps(
        {
            "namespace": "acme",
            "version": "1.0.0",
            "channel": "stable",
            "files": [{"path": "SKILL.md", "digest": "sha256:" + "0" * 64, "size": 3}],
        }
    ).encode(),
)
