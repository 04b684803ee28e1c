"""Name the tests that failed in the last run: `python tools/failed.py MOST CACHE`, with the cache of pytest.

Ends with 1 if there are more than MOST, or none: then it is no use to run them again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main() -> None:
    most, cache = sys.argv[1:]
    failed = sorted(json.loads((Path(cache) / "v/cache/lastfailed").read_text("utf-8")))
    if not 0 < len(failed) <= int(most):
        sys.exit(1)
    print("\nThese tests failed and are run again, one by one. One that passes now is flaky: fix it.")
    print(*failed, sep="\n", end="\n\n", flush=True)


if __name__ == "__main__":
    main()
