"""What the command line prints, without anything that could control a terminal."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress

from skillwire.errors import SourceError
from skillwire.words import counted as counted
from skillwire.words import human_size as human_size


def printable(text: str) -> str:
    """Text on one line, with control characters made visible."""
    from skillwire.issues import shown

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
    """What went wrong, as one line on standard error."""
    print_stderr(f"{' '.join(filter(None, ['skillwire', command]))}: {printable(text)}")


def print_stderr(text: str = "") -> None:
    """A line on standard error, whatever the verbosity."""
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - closed by whoever started us
        return  # Printing to `None` prints to standard output.
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)  # noqa: T201 - this is the one place that prints there


class OutputError(SourceError):
    """Standard output cannot be written, for example because the disk is full."""


def write(text: str) -> None:
    """What the user asked for, on standard output. What the terminal cannot encode is escaped."""
    encoding = sys.stdout.encoding
    with _output_errors():
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)  # noqa: T201 - see above


def write_bytes(data: bytes) -> None:
    """Bytes unchanged, on standard output."""
    with _output_errors():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


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
