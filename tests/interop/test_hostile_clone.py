"""Real npx, uvx, `python -m` and scripts, started in the directory of a hostile clone (S1).

The user's own configuration names four servers. The clone has, for each of them, what these programs take up
from the directory in which they are started: packages, settings, modules, scripts, commands on a relative
PATH. A marker file says that something of the clone ran. That the bait works is shown first, by starting the
same command lines inside the clone.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from environments import environment
from interop.peers import NodeMissing, find_node

pytestmark = pytest.mark.peer

SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
SECONDS = 300
PYTHON_SERVER = """
import json, sys
name = "NAME"
uri = f"skill://{name}/SKILL.md"
entry = {"uri": uri, "frontmatter": {"name": name, "description": "Does it."},
         "resources": [{"uri": uri, "digest": "sha256:" + "0" * 64, "size": 1}]}
kept = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
found = {"supportedVersions": ["2026-07-28"], "serverInfo": {"name": name, "version": "1"}, **kept,
         "capabilities": {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}}
def main():
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            results = {"server/discover": found, "skills/list": {"skills": [entry], **kept}}
            reply = {"jsonrpc": "2.0", "id": request["id"]}
            result = results.get(request["method"])
            reply |= {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
            print(json.dumps(reply), flush=True)
if __name__ == "__main__":
    main()
"""
NODE_SERVER = """#!/usr/bin/env node
const name = "by-npx", uri = `skill://${name}/SKILL.md`;
const kept = {resultType: "complete", ttlMs: 0, cacheScope: "private"};
const results = {
  "server/discover": {supportedVersions: ["2026-07-28"], serverInfo: {name, version: "1"}, ...kept,
    capabilities: {resources: {}, extensions: {"io.modelcontextprotocol/skills": {}}}},
  "skills/list": {...kept, skills: [{uri, frontmatter: {name, description: "Does it."},
    resources: [{uri, digest: "sha256:" + "0".repeat(64), size: 1}]}]},
};
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  const {id, method} = JSON.parse(line);
  if (id === undefined) return;
  const result = results[method];
  const answer = result ? {result} : {error: {code: -32601, message: "no"}};
  console.log(JSON.stringify({jsonrpc: "2.0", id, ...answer}));
});
"""


@dataclass(frozen=True)
class Place:
    """A user's home with working servers, and a clone that wants to run something of its own."""

    home: Path
    clone: Path
    markers: Path
    path: str
    commands: dict[str, list[str]]
    variables: dict[str, str]

    def ran(self) -> list[str]:
        return sorted(path.name for path in self.markers.iterdir())

    def run(self, command: list[str], *, only: bool = False) -> subprocess.CompletedProcess[str]:
        """Run a command inside the clone, as from a shell whose PATH has relative entries."""
        environment = {"HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8"}
        return subprocess.run(
            command,
            cwd=self.clone,
            env=environment | (self.variables if only else {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )


def executable(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    try:
        node = find_node()
    except NodeMissing as missing:
        pytest.fail(str(missing)) if os.environ.get("CI") else pytest.skip(str(missing))
    uvx = environment("uv").parent / "uvx"
    base = tmp_path_factory.mktemp("s1")
    home, clone, markers, tools = base / "home", base / "clone", base / "markers", base / "tools"
    for folder in (home, clone, markers, tools):
        folder.mkdir()
    npm = Path(node.npm[-1]).resolve()
    executable(tools / "npx", f'#!/bin/sh\nexec "{node.node}" "{npm.parent / "npx-cli.js"}" "$@"\n')
    (tools / "node").symlink_to(node.node)
    (tools / "uvx").symlink_to(uvx)
    commands = _servers(base, home, node.node, str(npm), tools)
    variables = {
        "PYTHONPATH": str(home / "lib"),
        "npm_config_prefix": str(home / "npm"),
        "npm_config_update_notifier": "false",
        "UV_PYTHON": sys.executable,
        "UV_CACHE_DIR": str(home / "uv-cache"),
    }
    _bait(clone, markers)
    relative = ".:./bin:node_modules/.bin:"
    return Place(home, clone, markers, f"{relative}{tools}:/usr/bin:/bin", commands, variables)


def _servers(base: Path, home: Path, node: str, npm: str, tools: Path) -> dict[str, list[str]]:
    """Install four servers for the user, each in the way its kind is installed."""
    package = base / "package"
    write(
        package / "package.json",
        json.dumps({"name": "skills-by-npx", "version": "1.0.0", "bin": {"skills-by-npx": "server.js"}}),
    )
    executable(package / "server.js", NODE_SERVER)
    done = subprocess.run(
        [node, npm, "install", "--global", "--offline", "--prefix", str(home / "npm"), str(package)],
        cwd=home,
        env={"HOME": str(home), "PATH": f"{tools}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    write(home / "lib/skills_module.py", PYTHON_SERVER.replace("NAME", "by-module"))
    wheel = base / "skills_by_uvx-1.0-py3-none-any.whl"
    info = "skills_by_uvx-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("skills_by_uvx.py", PYTHON_SERVER.replace("NAME", "by-uvx"))
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: skills-by-uvx\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", "[console_scripts]\nskills-by-uvx=skills_by_uvx:main\n")
        archive.writestr(f"{info}/RECORD", "")
    config = home / ".config/skillwire"
    script = PYTHON_SERVER.replace("NAME", "by-script")
    executable(config / "run.sh", f"#!/bin/sh\nexec '{sys.executable}' '{config}/script.py'\n")
    write(config / "script.py", script)
    return {
        "npx": ["npx", "--offline", "skills-by-npx"],
        "uvx": ["uvx", "--offline", "--from", str(wheel), "skills-by-uvx"],
        "module": [sys.executable, "-m", "skills_module"],
        "script": ["./run.sh"],
    }


def _bait(clone: Path, markers: Path) -> None:
    """Everything of a repository that such programs take up when they are started inside it."""

    def mark(name: str) -> str:
        return f"touch '{markers}/{name}'"

    def python(name: str) -> str:
        return f"open({str(markers / name)!r}, 'w').close()\n"

    for name in ("skills-by-npx", "npx", "uvx", "node", "python", "sh", "env"):
        executable(clone / "node_modules/.bin" / name, f"#!/bin/sh\n{mark('node_modules-' + name)}\n")
        executable(clone / "bin" / name, f"#!/bin/sh\n{mark('bin-' + name)}\n")
        executable(clone / name, f"#!/bin/sh\n{mark('here-' + name)}\n")
    write(clone / "evil.js", f"require('fs').writeFileSync({json.dumps(str(markers / 'npmrc'))}, '')\n")
    write(clone / ".npmrc", f"node-options=--require={clone}/evil.js\nscript-shell={clone}/sh\n")
    package = {"name": "clone", "bin": {"skills-by-npx": "evil.js"}, "scripts": {"prepare": "node evil.js"}}
    write(clone / "package.json", json.dumps(package))
    for name in ("skills_module", "skills_by_uvx", "sitecustomize", "usercustomize", "json"):
        write(clone / f"{name}.py", python(f"module-{name}"))
    executable(clone / "run.sh", f"#!/bin/sh\n{mark('run.sh')}\n")
    write(clone / ".env", f"PYTHONPATH={clone}\nNODE_OPTIONS=--require={clone}/evil.js\nPATH={clone}/bin\n")
    write(clone / ".envrc", f"{mark('envrc')}\n")
    write(clone / "uv.toml", f'python-preference = "only-system"\nindex-url = "file://{clone}/index"\n')
    write(clone / ".python-version", f"{clone}/python\n")
    write(clone / "pyproject.toml", '[project]\nname = "clone"\nversion = "1"\n[tool.uv]\nmanaged = true\n')


@pytest.mark.parametrize(
    ("kind", "marker"),
    [("npx", "here-npx"), ("uvx", "here-uvx"), ("module", "module-skills_module"), ("script", "run.sh")],
)
def test_the_bait_works_where_a_command_is_started_in_the_clone(place: Place, kind: str, marker: str) -> None:
    place.run(place.commands[kind], only=True)
    assert marker in place.ran()
    for path in place.markers.iterdir():
        path.unlink()


def test_the_packages_and_settings_of_the_clone_are_bait_too(place: Place) -> None:
    tools = place.path.split(":")[3]
    environment = {"HOME": str(place.home), "PATH": f"{tools}:/usr/bin:/bin", **place.variables}
    subprocess.run(
        place.commands["npx"],
        cwd=place.clone,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS,
        check=False,
    )
    assert set(place.ran()) & {"node_modules-skills-by-npx", "npmrc", "here-sh"}
    for path in place.markers.iterdir():
        path.unlink()


@pytest.mark.parametrize("command", [["list", "--json"], ["servers", "list", "--check", "--json"]])
def test_nothing_of_a_hostile_clone_runs_while_the_users_own_servers_do(
    place: Place, command: list[str]
) -> None:
    tables: list[str] = []
    for kind, words in place.commands.items():
        environment = ", ".join(f"{name} = {json.dumps(value)}" for name, value in place.variables.items())
        tables.append(
            f"[servers.{kind}]\ncommand = {json.dumps(words[0])}\nargs = {json.dumps(words[1:])}\n"
            f"env = {{ {environment} }}\nconnect_seconds = 120\n"
        )
    config = place.home / ".config/skillwire/skillwire.toml"
    config.write_text("\n".join(tables))
    done = place.run([SKILLWIRE, *command])
    assert done.returncode == 0, done.stderr
    servers = {server["label"]: server for server in json.loads(done.stdout)["servers"]}
    assert {label: server["status"] for label, server in servers.items()} == dict.fromkeys(
        place.commands, "ready"
    ), servers
    if command[0] == "list":
        skills = {skill["name"] for skill in json.loads(done.stdout)["skills"]}
        assert skills == {"by-npx", "by-uvx", "by-module", "by-script"}
    assert place.ran() == []
