"""Whatever is typed, `skillwire` answers on a line that says what to do, and never with a traceback."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from pathlib import Path

import pytest

from command_line import Run
from skillwire.cli import main
from skillwire.cli.output import write_bytes
from skillwire.version import VERSION


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["lnt", "."], "skillwire: there is no command 'lnt': did you mean lint? (see: skillwire --help)"),
        (
            ["serve", "--nope", "."],
            "skillwire serve: there is no option --nope (see: skillwire serve --help)",
        ),
        (["approve"], "skillwire approve: NAME is missing: write skillwire approve [OPTIONS] NAME"),
        (["serve", ".", "--page-size", "0"], "skillwire serve: --page-size must be a whole number from 1 to"),
        (["servers", "lst"], "skillwire servers: there is no command 'lst': did you mean list?"),
        (["serve", ".", "--stateless"], "skillwire serve: --stateless needs --http: add --http HOST:PORT"),
    ],
)
def test_a_mistyped_command_is_one_line_and_exit_code_2(
    run: Run, arguments: list[str], complaint: str
) -> None:
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(complaint)
    assert err.rstrip().endswith("--help)")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Usage: skillwire COMMAND"),
        (["--help"], "Usage: skillwire COMMAND"),
        (["-h"], "Usage: skillwire COMMAND"),
        (["help"], "Usage: skillwire COMMAND"),
        (["help", "help"], "Usage: skillwire COMMAND"),
        (["help", "serve"], "Usage: skillwire serve"),
        (["serve", "-h"], "Usage: skillwire serve"),
        (["serve", "x", "--nope", "--help"], "Usage: skillwire serve"),
        (["-h", "serve"], "Usage: skillwire serve"),
        (["servers", "--help"], "Usage: skillwire servers COMMAND"),
        (["help", "servers", "add"], "Usage: skillwire servers add"),
        (["servers", "add", "--no-check", "-h"], "Usage: skillwire servers add"),
        (["--version"], f"skillwire {VERSION}"),
        (["lint", "--help"], "# skillwire-lint-ignore: RULE"),
        (["-V"], f"skillwire {VERSION}"),
    ],
)
def test_help_and_version_are_printed_on_request(run: Run, arguments: list[str], said: str) -> None:
    code, out, err = run(*arguments)
    assert said in out
    assert (code, err) == (0, "")


@pytest.mark.process
def test_the_package_runs_as_a_module() -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "skillwire", "-V"], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"skillwire {VERSION}\n"


@pytest.mark.process
@pytest.mark.parametrize("words", [["--version"], ["--help"], ["help", "servers", "add"]])
def test_help_and_version_import_nothing_but_the_tables(words: list[str]) -> None:
    program = (
        "import sys; from skillwire.cli import main; sys.argv = ['skillwire', *sys.argv[1:]]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    ran = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    packages = {module.partition(".")[0] for module in ran.stderr.split()}
    assert packages.isdisjoint(
        {"mcp", "pydantic", "anyio", "rich", "yaml", "platformdirs", "argparse", "asyncio"}
    )
    ours = {
        module.removeprefix("skillwire.") for module in ran.stderr.split() if module.startswith("skillwire.")
    }
    assert {module for module in ours if not module.startswith("cli")} <= {
        "errors",
        "lazy",
        "version",
        "words",
    }


def test_the_command_reference_is_up_to_date() -> None:
    from tools.commands import reference_page

    page = Path(__file__).parent.parent.parent / "docs/commands.md"
    assert page.read_text("utf-8") == reference_page(), "run: python -m tools.commands > docs/commands.md"


def test_commands_print_to_a_stream_that_has_no_encoding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notebook, or a program that runs a command and collects what it prints."""
    (tmp_path / "pdf").mkdir()
    (tmp_path / "pdf/SKILL.md").write_text(
        "---\nname: pdf\ndescription: Reads PDF files.\n---\nRéad.\n", "utf-8"
    )
    out, err = io.StringIO(), io.StringIO()

    def run(*words: str) -> object:
        monkeypatch.setattr(sys, "argv", ["skillwire", *words])
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as ended,
        ):
            main()
        return ended.value.code

    assert run("lint", str(tmp_path)) in (0, None)
    assert run("--version") in (0, None)
    assert run("lint", str(tmp_path / "nothing")) not in (0, None)
    assert "skillwire" in out.getvalue()
    assert "nothing" in err.getvalue()
    with contextlib.redirect_stdout(out):
        write_bytes(b"R\xc3\xa9ad \xff")
    assert "Réad \\xff" in out.getvalue()
