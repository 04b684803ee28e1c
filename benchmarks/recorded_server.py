"""A server over stdio that takes almost no processor time: it sends the recorded answers of another server.

recorded_server.py RECORD DELAY_SECONDS

RECORD has two lines for each method: its name, and the result as JSON. `skills/list` is answered late. Twenty
of these start at once, so it imports only what the interpreter has in memory anyway.
"""

from __future__ import annotations

import sys
import time


def main() -> None:
    with open(sys.argv[1]) as file:  # noqa: PTH123 - pathlib is an import
        lines = file.read().splitlines()
    results = dict(zip(lines[::2], lines[1::2], strict=True))
    delay = float(sys.argv[2])
    for line in sys.stdin:
        _, has_id, rest = line.partition('"id":')
        if not has_id:
            continue
        identity = rest.partition(",")[0].rstrip("}\n")
        method = next((name for name in results if f'"{name}"' in line), "")
        said = (
            f'"result":{results[method]}' if method else '"error":{"code":-32601,"message":"No such method"}'
        )
        if method == "skills/list":
            time.sleep(delay)
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{identity},{said}}}\n')
        sys.stdout.flush()


if __name__ == "__main__":
    main()
