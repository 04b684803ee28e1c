"""The command line. Here are the entry point and the only `except`; each group of commands has a file."""

from __future__ import annotations

import atexit
import gc
import os
import sys

INTERRUPTED = 130
OUTPUT_CLOSED = 141


def main() -> None:
    """Run `skillwire`. An error is one line that says what to do, with its own exit code."""
    _open_standard_descriptors()
    # What a start creates is never garbage. Looking for garbage in it would take a tenth of the start, and as
    # long again at the end, when everything is given back anyway.
    gc.disable()
    atexit.register(gc.freeze)
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.enable()


def _run(words: list[str]) -> int:
    from skillwire.cli.line import parse_line, run_line
    from skillwire.cli.output import OutputError
    from skillwire.cli.output import error as print_error
    from skillwire.errors import SkillwireError, UsageError

    name = ""
    try:
        line = parse_line(words)
        name = line.name
        return run_line(line)
    except UsageError as error:
        command = error.command or name
        see = f"skillwire {command} --help" if command else "skillwire --help"
        print_error(f"{error} (see: {see})", command=command)
        return error.exit_code
    except OutputError as error:
        _discard_output()
        print_error(str(error))
        return error.exit_code
    except SkillwireError as error:
        print_error(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader of the output closed it, as `head` does. Nothing more can be written.
        _discard_output()
        return OUTPUT_CLOSED


def _discard_output() -> None:
    """Discard what is still in the buffer: otherwise the interpreter would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _open_standard_descriptors() -> None:
    """Reopen descriptors 0, 1 and 2 if they are closed: otherwise another file would get the number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number is this one.
