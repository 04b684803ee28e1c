"""Two machines: a server and a colleague, each in a network namespace of its own, with a cable between them
and no default route.

Run as a program below `unshare -rn`. It serves a folder with `--share`, does on the second machine what the
output says, and prints what was seen as one JSON document.

    unshare -rn python tests/cli/second_machine.py FOLDER
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from pathlib import Path

SKILLWIRE = [sys.executable, "-m", "skillwire"]
SERVER, COLLEAGUE, OTHER = "10.77.0.1", "10.77.0.2", "10.78.0.1"
SECONDS = 120


def ip(*words: str, namespace: str = "") -> None:
    enter = ["nsenter", "--target", namespace, "--net"] if namespace else []
    subprocess.run([*enter, "ip", *words], check=True, timeout=SECONDS)


def connect(namespace: str) -> None:
    """Lay a cable between this machine and the one of a process."""
    ip("link", "add", "here", "type", "veth", "peer", "name", "there")
    ip("link", "set", "there", "netns", namespace)
    for address, name, of in ((SERVER, "here", ""), (COLLEAGUE, "there", namespace)):
        ip("link", "set", "lo", "up", namespace=of)
        ip("addr", "add", f"{address}/24", "dev", name, namespace=of)
        ip("link", "set", name, "up", namespace=of)
    ip("addr", "add", f"{OTHER}/24", "dev", "here")


def environment(home: Path) -> dict[str, str]:
    home.mkdir(parents=True, exist_ok=True)
    return {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}


def output_of(server: subprocess.Popen[str]) -> str:
    """What it prints until it serves."""
    assert server.stdout is not None
    said = ""
    while "Serving 1 skill" not in said:
        line = server.stdout.readline()
        if not line:
            raise SystemExit(f"it does not serve: {said}")
        said += line
    return said


def status_by(host: str) -> int:
    """The status of a request without a token that names the server by this host."""
    connection = http.client.HTTPConnection(SERVER, 8711, timeout=SECONDS)
    connection.request("POST", "/mcp", headers={"Host": f"{host}:8711"})
    return connection.getresponse().status


def main() -> None:
    folder = Path(sys.argv[1])
    second = subprocess.Popen(
        ["unshare", "--net", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert second.stdin is not None
    assert second.stdout is not None
    second.stdin.write(b"It echoes this once it runs, in a network of its own.\n")
    second.stdout.readline()
    connect(str(second.pid))
    installed: dict[str, list[str]] = {}
    server = subprocess.Popen(
        [*SKILLWIRE, "serve", str(folder / "skills"), "--share", "--yes"],
        env=environment(folder / "author"),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = output_of(server)
        token = re.search(r"export SKILLWIRE_TOKEN='(\S+)'", said)
        lines = re.findall(r"^    (skillwire .*)$", said, re.MULTILINE)
        assert token is not None, said
        runs: list[tuple[int, str]] = []
        by_host = {host: status_by(host) for host in (OTHER, "attacker.example")}
        home = folder / "colleague"
        for whose, given in (("guessed", f"skw_{'0' * 43}"), ("shared", token[1])):
            env = {**environment(home), "SKILLWIRE_TOKEN": given}
            for line in lines if whose == "guessed" else lines[1:]:  # The server is added once.
                words = [
                    *SKILLWIRE,
                    *line.split()[1:],
                    *(["--yes"] if line.startswith("skillwire add") else []),
                ]
                enter = ["nsenter", "--target", str(second.pid), "--net", "--preserve-credentials"]
                run = subprocess.run(
                    [*enter, *words], env=env, cwd=home, capture_output=True, text=True, timeout=SECONDS
                )
                runs.append((run.returncode, run.stdout + run.stderr))
            installed[whose] = sorted(str(file.relative_to(home)) for file in home.rglob("SKILL.md"))
    finally:
        server.kill()
        server.wait()
        second.kill()
        second.wait()
    print(json.dumps({"lines": lines, "runs": runs, "installed": installed, "by_host": by_host}))


if __name__ == "__main__":
    main()
