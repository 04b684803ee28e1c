"""The command line. Each group of commands has a file; this one has the entry and the only `except`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run `skillwire`. Whatever goes wrong is one line that says what to do, and an exit code of its own."""
    import typer

    from skillwire.cli.app import app
    from skillwire.cli.output import complain
    from skillwire.errors import SkillwireError

    try:
        code = app(sys.argv[1:] or ["--help"], standalone_mode=False)
    except typer.Abort:
        sys.exit(130)
    except typer.TyperException as error:
        complain(f"{error.format_message()} Try 'skillwire --help'.")
        sys.exit(error.exit_code)
    except SkillwireError as error:
        complain(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away, as `head` does. Nothing more can be said to it.
        sys.stderr.close()
        sys.exit(141)
    sys.exit(code if isinstance(code, int) else 0)
