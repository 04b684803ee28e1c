"""A server over stdio that costs next to nothing: it answers with what another one was recorded to answer.

recorded_server.py RECORD DELAY_SECONDS

RECORD is a JSON object of results by method. `skills/list` is answered late.
"""

from __future__ import annotations

import json
import sys
import time


def main() -> None:
    with open(sys.argv[1]) as file:  # noqa: PTH123 - pathlib is an import more
        results = json.load(file)
    delay = float(sys.argv[2])
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        answer = {"jsonrpc": "2.0", "id": request["id"]}
        if request["method"] in results:
            answer["result"] = results[request["method"]]
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        if request["method"] == "skills/list":
            time.sleep(delay)
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
