"""Output of the command line, without anything that could control a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, TextIO

from skillwire.errors import SourceError
from skillwire.text import counted as counted
from skillwire.text import human_size as human_size


def printable(text: str) -> str:
    """Text on one line, with control characters made visible."""
    from skillwire.text import shown

    return shown(text, 2000)


_verbosity = 0


def set_verbosity(*, quiet: bool, verbose: bool) -> None:
    """For this process: print only results and errors, or also progress."""
    global _verbosity
    _verbosity = 1 if verbose else -1 if quiet else 0


def verbosity() -> int:
    """Below 0 with `--quiet`, above 0 with `--verbose`."""
    return _verbosity


def info(text: str = "") -> None:
    """A line for the user, on standard error, which no client reads. Not printed with `--quiet`."""
    if _verbosity >= 0:
        print_stderr(text)


def error(text: str, *, command: str = "") -> None:
    """Print what went wrong, as one line on standard error."""
    print_stderr(f"{' '.join(filter(None, ['skillwire', command]))}: {printable(text)}")


def print_stderr(text: str = "") -> None:
    """A line on standard error, whatever the verbosity."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - closed by whoever started us
        return  # Printing to `None` prints to standard output.
    with suppress(OSError):
        # This is the one place that prints there.
        print(_encodable(text, sys.stderr), file=sys.stderr, flush=True)  # noqa: T201


class OutputError(SourceError):
    """Standard output cannot be written, for example because the disk is full."""


def write(text: str) -> None:
    """Write what the user asked for to standard output. What the terminal cannot encode is escaped."""
    with _output_errors():
        print(_encodable(text, sys.stdout), flush=True)  # noqa: T201 - see above


def is_terminal(stream: TextIO | None) -> bool:
    """Whether a standard stream is a terminal. It is `None` if whoever started us closed it, and may be
    anything that a program has put in its place."""
    return stream is not None and hasattr(stream, "isatty") and stream.isatty()


def write_bytes(data: bytes) -> None:
    """Bytes unchanged, on standard output; as text, where a program has put a stream of text in its place."""
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison] - closed by whoever started us
        return
    with _output_errors():
        buffer: BinaryIO | None = getattr(sys.stdout, "buffer", None)
        if buffer is None:
            sys.stdout.write(data.decode("utf-8", "backslashreplace"))
            sys.stdout.flush()
            return
        buffer.write(data)
        buffer.flush()


def _encodable(text: str, stream: TextIO) -> str:
    # A stream in memory has no encoding: it takes every text.
    encoding: str | None = getattr(stream, "encoding", None)
    return text if encoding is None else text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def _output_errors() -> Generator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(
            f"the output cannot be written: {error.strerror}; free some space, or write elsewhere"
        ) from None


def matching(count: int) -> str:
    """How many skills are on disk as the lock file pins them, as a sentence."""
    return f"{counted(count, 'skill')} {'matches' if count == 1 else 'match'} skillwire.lock."
