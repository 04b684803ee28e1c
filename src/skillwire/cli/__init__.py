"""The command line. Here are the entry point and the only `except`; each group of commands has a file."""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130
OUTPUT_CLOSED = 141


def main() -> None:
    """Run `skillwire`. Whatever goes wrong is one line that says what to do, and an exit code of its own."""
    _open_standard_descriptors()
    # Modules and entries, all that a start makes, stay. To look for garbage among them takes a tenth of it.
    gc.disable()
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.enable()


def _run(words: list[str]) -> int:
    from skillwire.cli.line import read_line, run_line
    from skillwire.cli.output import OutputError
    from skillwire.cli.output import error as print_error
    from skillwire.cli.parser import UsageError
    from skillwire.errors import SkillwireError

    name = ""
    try:
        line = read_line(words)
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
        # The reader of our output went away, as `head` does. Nothing more can be written to it.
        _discard_output()
        return OUTPUT_CLOSED


def _discard_output() -> None:
    """Send what is still in the buffer nowhere: or the interpreter would fail on it once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _open_standard_descriptors() -> None:
    """Fill 0, 1 and 2 where somebody closed them: or a file of ours would get the number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number is this one.
