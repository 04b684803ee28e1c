"""Turn pip's output into one line that moves: which package is being fetched, and how many there were so far.

Runs on any Python 3.11, before anything is installed. What is neither a package nor routine is passed on, so
that errors stay visible.
"""

from __future__ import annotations

import re
import sys

_FETCHED = re.compile(r"\s*(?:Collecting|Obtaining) ([^\s<>=!~;\[(]+)")
_ROUTINE = re.compile(
    r"\s*(?:Collecting|Obtaining|Using cached|Downloading|Requirement already|Installing|Attempting|Saved|"
    r"Found existing|Uninstalling|Successfully|Looking in|Preparing|Getting requirements|Checking|Building|"
    r"Created wheel|Stored in|Processing|Resuming|Link requires|$)"
)


def main() -> None:
    moving = sys.stderr.isatty()
    count = 0
    for line in sys.stdin:
        if match := _FETCHED.match(line):
            count += 1
            if moving:
                sys.stderr.write(f"\r\033[K  {count} packages: {match[1]}")
            elif count % 20 == 0:
                sys.stderr.write(f"  {count} packages\n")
        elif line.startswith("Installing"):
            sys.stderr.write(("\r\033[K" if moving else "") + f"  installing {count} packages\n")
        elif not _ROUTINE.match(line):
            sys.stdout.write(line)
        sys.stderr.flush()


if __name__ == "__main__":
    main()
