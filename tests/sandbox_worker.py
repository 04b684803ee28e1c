"""Runs scripts in the sandbox for the tests: one JSON job per line of standard input, one answer per line.

A process of its own, so that it can become another user before it begins, and be killed.
"""

from __future__ import annotations

# A user who may not read the standard library must have these already.
import encodings.ascii
import encodings.idna  # noqa: F401
import json
import os
import sys
import threading
from dataclasses import asdict
from typing import Any

from sample_entries import DEMO, make_entry
from skillwire.limits import Limits
from skillwire.sandbox import SandboxPlan, bubblewrap, parse_grant
from skillwire.skill import parse_uri
from skillwire.trust import check_entry, verify_file

SKILL = "skill://acme/refunds"


def answer(job: dict[str, Any]) -> dict[str, Any]:
    contents = {path: text.encode() for path, text in job.get("files", {}).items()}
    entry = check_entry(make_entry(files=contents))
    files = [verify_file(entry, parse_uri(f"{SKILL}/{path}"), data, DEMO) for path, data in contents.items()]
    folder = job.get("folder", "/")
    plan = SandboxPlan(
        script=job["script"],
        interpreter=tuple(job.get("interpreter", ["/usr/bin/python3", "-B"])),
        arguments=tuple(job.get("arguments", [])),
        grants=tuple(parse_grant(text, folder) for text in job.get("grants", [])),
        folder=folder,
        system=bubblewrap.system_folders(),
        variables=job.get("variables", {}),
        work=job.get("work", ""),
        limits=Limits(**job.get("limits", {})),
    )
    try:
        return asdict(bubblewrap.run(plan, files))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    user = int(sys.argv[1])
    if os.getuid() != user:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if not os.access(sys.executable, os.X_OK):
        sys.executable = "/usr/bin/python3"
    lock = threading.Lock()

    def work(line: str) -> None:
        job = json.loads(line)
        text = json.dumps({"id": job["id"], **answer(job)})
        with lock:
            print(text, flush=True)

    threads: list[threading.Thread] = []
    for line in sys.stdin:
        threads.append(threading.Thread(target=work, args=[line]))
        threads[-1].start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
