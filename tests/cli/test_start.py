"""What `skillwire serve` imports before its first answer: clients wait for each of these at every start."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from served import serving, serving_http
from trees import write_skill

METHOD = "skills/list"
VERSION = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": VERSION,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
LISTING = {"jsonrpc": "2.0", "id": 1, "method": METHOD, "params": {"_meta": META}}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": VERSION,
    "Mcp-Method": METHOD,
}

TELL_IMPORTS = {"PYTHONPROFILEIMPORTTIME": "1"}
IMPORTED = re.compile(r"^import time:[ \d]+\|[ \d]+\| *(\S+)$", re.MULTILINE)
OURS = {"skillwire", "anyio", "sniffio", "typing_extensions", "yaml", "_yaml"}
UVICORN = {"uvicorn", "uvloop", "httptools", "h11", "click", "a2wsgi"}
LOADED_WHEN_IDLE = {"watchfiles"}
NOT_THERE = {"org"}  # The standard library tries it, for Jython.
# Of the standard library, what takes long and is easily imported by mistake. Not `tempfile`, which writes the
# cache of the scan after the last answer.
SLOW = {"argparse", "difflib", "email", "importlib.metadata", "logging.config", "multiprocessing"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_skill(tmp_path / "alpha")
    return tmp_path


def over_stdio(folder: Path) -> tuple[Any, str]:
    with serving(folder, env=TELL_IMPORTS) as served:
        served.listen()
        served.send(LISTING)
        answer = served.receive()
        served.end()
        return answer, served.all_it_said()


def over_http(folder: Path) -> tuple[Any, str]:
    with serving_http(folder, env=TELL_IMPORTS) as (url, served):
        place = urlsplit(url)
        connection = http.client.HTTPConnection(place.netloc)
        connection.request("POST", place.path, json.dumps(LISTING), HEADERS)
        answer = json.loads(connection.getresponse().read())
        connection.close()
        served.end()
        return answer, served.all_it_said()


@pytest.mark.process
@pytest.mark.parametrize(
    ("ask", "allowed"),
    [
        pytest.param(over_stdio, OURS, id="stdio"),
        pytest.param(over_http, OURS | UVICORN, id="http"),
    ],
)
def test_a_first_page_needs_few_packages_and_no_slow_modules(
    folder: Path, ask: Callable[[Path], tuple[Any, str]], allowed: set[str]
) -> None:
    answer, said = ask(folder)
    assert [entry["frontmatter"]["name"] for entry in answer["result"]["skills"]] == ["alpha"]
    # What the interpreter itself imports at its start is none of our business.
    modules = IMPORTED.findall(said)
    modules = modules[modules.index("site") + 1 :]
    assert "skillwire.server.fastpath" in modules
    packages = {module.partition(".")[0] for module in modules} - sys.stdlib_module_names
    assert packages <= allowed | LOADED_WHEN_IDLE | NOT_THERE
    if ask is over_stdio:
        assert SLOW.isdisjoint(modules)


@pytest.mark.process
def test_a_list_from_a_cached_listing_connects_to_nothing_and_imports_no_sdk(
    folder: Path, tmp_path: Path
) -> None:
    variables = {name: str(tmp_path / name) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")}
    environment = {**variables, "PATH": "/usr/bin:/bin", **TELL_IMPORTS}
    (tmp_path / "empty").mkdir()

    def list_skills(url: str) -> tuple[str, set[str]]:
        command = [sys.executable, "-m", "skillwire", "list", "--server", f"shop={url}"]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path / "empty", capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr[-500:]
        return done.stdout, {name.partition(".")[0] for name in IMPORTED.findall(done.stderr)}

    with serving_http(folder, "--ttl", "600") as (url, _):
        first, imported = list_skills(url)
        assert "mcp" in imported
    # The server is gone: what it listed is still good.
    again, imported = list_skills(url)
    assert again == first
    assert "alpha" in again
    assert not imported & {"mcp", "mcp_types", "pydantic"}
