"""The baseline: good, plain code on the SDK's low-level server that keeps everything in memory.

plain_server.py FOLDER                 over stdio
plain_server.py FOLDER --http 0        over HTTP
plain_server.py FOLDER --http 0 --defaults
                                       the same as somebody gets it who installs the SDK and sets nothing
plain_server.py FOLDER --delay 2       answers `skills/list` late, for the host's benchmark
"""

from __future__ import annotations

import argparse
import hashlib
import os
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import yaml
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

Context = ServerRequestContext[Any, Any]
PAGE = 100
CACHE = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "public"}
TYPES = {".md": "text/markdown", ".py": "text/x-python"}


class UriParams(types.RequestParams):
    uri: str


class Catalog:
    """Every skill's entry and every file's content, read once."""

    def __init__(self, root: str) -> None:
        self.entries: dict[str, dict[str, Any]] = {}
        self.contents: dict[str, types.TextResourceContents] = {}
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        for directory, folders, names in os.walk(root):
            if "SKILL.md" in names:
                self._add(Path(root), Path(directory), loader)
                folders.clear()
        self.order = sorted(self.entries)

    def _add(self, root: Path, directory: Path, loader: type) -> None:
        uri = f"skill://{directory.relative_to(root)}/"
        resources: list[dict[str, Any]] = []
        frontmatter: Any = None
        for folder, _, names in os.walk(directory):
            for name in names:
                path = Path(folder, name)
                data = path.read_bytes()
                file_uri = f"{uri}{path.relative_to(directory)}"
                digest = "sha256:" + hashlib.sha256(data).hexdigest()
                resources.append({"uri": file_uri, "digest": digest, "size": len(data)})
                text = data.decode("utf-8")
                mime_type = TYPES.get(path.suffix, "text/plain")
                content = types.TextResourceContents(uri=file_uri, mime_type=mime_type, text=text)
                self.contents[file_uri] = content
                if path == directory / "SKILL.md":
                    frontmatter = yaml.load(text[3 : text.index("\n---", 3)], loader)
        entry = {"uri": f"{uri}SKILL.md", "frontmatter": frontmatter, "resources": resources}
        self.entries[f"{uri}SKILL.md"] = entry


def make_server(catalog: Catalog, delay: float = 0) -> Server[Any]:
    async def list_skills(_ctx: Context, params: types.PaginatedRequestParams) -> dict[str, Any]:
        if delay:
            await anyio.sleep(delay)
        start = int(params.cursor or 0)
        page = [catalog.entries[uri] for uri in catalog.order[start : start + PAGE]]
        more = {"nextCursor": str(start + PAGE)} if start + PAGE < len(catalog.order) else {}
        return {"skills": page, **more, **CACHE}

    async def get_skill(_ctx: Context, params: UriParams) -> dict[str, Any]:
        entry = catalog.entries.get(params.uri)
        if entry is None:
            raise MCPError(types.INVALID_PARAMS, f"No skill at {params.uri}", {"uri": params.uri})
        return {"skill": entry, **CACHE}

    async def read(_ctx: Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        content = catalog.contents.get(str(params.uri))
        if content is None:
            raise MCPError(types.INVALID_PARAMS, f"No resource at {params.uri}", {"uri": str(params.uri)})
        return types.ReadResourceResult(contents=[content], ttl_ms=60_000, cache_scope="public")

    server: Server[Any] = Server("plain", version="1", on_read_resource=read)
    server.extensions["io.modelcontextprotocol/skills"] = {}
    server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
    server.add_request_handler("skills/get", UriParams, get_skill)
    return server


async def run_stdio(server: Server[Any]) -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--http", type=int, metavar="PORT")
    parser.add_argument("--defaults", action="store_true")
    parser.add_argument("--delay", type=float, default=0)
    options = parser.parse_args()
    server = make_server(Catalog(options.folder), options.delay)
    if options.http is None:
        anyio.run(run_stdio, server)
    else:
        import uvicorn

        # There is no access log: it would be measured, and is not compared.
        if options.defaults:
            # The SDK streams its answers, and brings uvicorn without a faster loop or parser.
            app = server.streamable_http_app()
            uvicorn.run(
                app, host="127.0.0.1", port=options.http, access_log=False, loop="asyncio", http="h11"
            )
        else:
            app = server.streamable_http_app(json_response=True)
            uvicorn.run(app, host="127.0.0.1", port=options.http, access_log=False)


if __name__ == "__main__":
    main()
