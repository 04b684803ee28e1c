"""A stdio server whose list of skills is a unit again and again: `python long_answers.py UNIT SIZE SENT`.

The unit is in a file. Another file gets a byte for each list that is sent.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from wild_stdio import CACHED, CAPABILITIES

DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "protocolVersion": "2025-11-25",
    "capabilities": CAPABILITIES,
    "serverInfo": {"name": "w", "version": "1"},
    **CACHED,
}


def main(unit: str, size: int, sent: Path) -> None:
    skills = ",".join([unit] * (size // (len(unit) + 1)))
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        if request["method"] in ("server/discover", "initialize"):
            result = json.dumps(DISCOVERED)
        else:
            is_list = request["method"] == "skills/list"
            result = f'{{"skills": [{skills if is_list else ""}], {json.dumps(CACHED)[1:]}'
            with sent.open("ab") as stream:
                stream.write(b"x" * is_list)
        head = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": "@"})
        sys.stdout.write(head.replace('"@"', result) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_text("utf-8"), int(sys.argv[2]), Path(sys.argv[3]))
