"""The command line. Each group of commands has a file; this one has the entry and the only `except`."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Run `skillwire`. Whatever goes wrong is one line that says what to do, and an exit code of its own."""
    _open_standard_descriptors()
    # Modules and entries, all that a start makes, stay. To look for garbage among them takes a tenth of it.
    gc.disable()
    try:
        sys.exit(_run())
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        gc.enable()


def _run() -> int:
    from skillwire.cli.output import complain
    from skillwire.cli.quick import read_quickly
    from skillwire.errors import SkillwireError

    words = sys.argv[1:]
    try:
        options = read_quickly(words)
        if options is None:
            return _run_typer(words)
        from skillwire.cli.serve import serve

        serve(options)
    except SkillwireError as error:
        complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 141
    return 0


def _run_typer(words: list[str]) -> int:
    # Imported here: with all that it brings along, it takes longer than a server needs to start.
    import typer

    from skillwire.cli.app import app_for
    from skillwire.cli.output import complain

    app = app_for(words)
    gc.enable()
    try:
        code = app(words or ["--help"], standalone_mode=False)
    except typer.Abort:
        return 130
    except typer.TyperException as error:
        complain(f"{error.format_message()} Try 'skillwire --help'.")
        return error.exit_code
    return code if isinstance(code, int) else 0


def _open_standard_descriptors() -> None:
    """Fill 0, 1 and 2 where somebody closed them: or a file of ours would get the number."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # The lowest free number is this one.
