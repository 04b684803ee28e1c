"""A limit: a loop that answers each line of standard input with one of a fixed length.

bare_stdio.py READ_BYTES GET_BYTES
"""

from __future__ import annotations

import sys


def main() -> None:
    read, get = (b"x" * (int(argument) - 1) + b"\n" for argument in sys.argv[1:])
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    for line in source:
        sink.write(read if b'"resources/read"' in line else get)
        sink.flush()


if __name__ == "__main__":
    main()
