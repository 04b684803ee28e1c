"""Every shell line of the README, of the guides and of some other pages runs, page by page.

A page is one session of a shell in a clean home, in a folder that has the examples of a checkout and nothing
else. Commands of Skillwire run in this process, with a person who says yes; a server that a page starts runs
in the background until the page ends. Files that a page shows are written where it shows them.
"""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from command_line import Run, as_person
from served import Served
from terminals import Terminal

pytestmark = pytest.mark.process

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs/guides").glob("*.md"))]
OTHER_PAGES = ("clients", "evaluation", "serving", "signing", "styles", "writing-skills")
"""Pages on one subject whose lines need a folder of skills and nothing else."""
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w./-]+\.\w+)\n")
"""The first line of a block that is the content of a file."""

CANNOT_RUN = {
    "skillwire servers login": "needs a server with a login, and a browser: tests/cli/test_login.py has both",
    "skillwire sign --check docs/pdf": "needs a server and a publisher: tests/cli/test_signing.py has both",
}
"""What lines begin with that cannot succeed here, with the reason. They are run and must fail."""


def lines_of(block: str) -> list[str]:
    """The lines of a block of shell, each as a shell would read it, without its comment."""
    joined = block.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if shlex.split(line, comments=True)]


class Session:
    """The shell of one page."""

    def __init__(self, run: Run, stack: ExitStack) -> None:
        self._run = run
        self._stack = stack
        self._ports: dict[str, int] = {}

    def write(self, name: str, content: str) -> None:
        file = Path(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._local(content), "utf-8")

    def run(self, line: str, *, succeeds: bool) -> None:
        words = [os.path.expandvars(word) for word in shlex.split(self._local(line), comments=True)]
        program, *arguments = words
        if program != "skillwire":
            self._in_shell(line)
        elif arguments[0] == "chat" and "-p" not in arguments:
            self._talk(arguments)
        elif arguments[0] == "ui":
            self._until_interrupted(arguments, says="http://127.0.0.1:")
        elif "--watch" in arguments:
            self._until_interrupted(arguments, says="skills checked")
        elif self._stays(arguments):
            self._start(arguments)
        else:
            self._in_process(arguments, succeeds=succeeds)

    def _local(self, text: str) -> str:
        """The text with free ports in place of those that it names."""
        return re.sub(
            r"((?:127\.0\.0\.1|0\.0\.0\.0):)(\d+)", lambda port: port[1] + str(self._port(port[0])), text
        )

    def _port(self, address: str) -> int:
        if address not in self._ports:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                self._ports[address] = free.getsockname()[1]
        return self._ports[address]

    @staticmethod
    def _stays(arguments: list[str]) -> bool:
        if "--print-config" in arguments or "--help" in arguments:
            return False
        match arguments:
            case ["serve" | "gateway"] | ["serve", *_] | ["gateway", "run", *_]:
                return True
            case ["gateway", option, *_]:
                return option.startswith("-")
            case _:
                return False

    def _in_shell(self, line: str) -> None:
        if re.fullmatch(r"python \w+\.py", line):
            # As the program would, in this process, which has imported all that it needs.
            runpy.run_path(line.split()[1], run_name="__main__")
            return
        done = subprocess.run(
            ["sh", "-c", self._local(line)],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"

    def _in_process(self, arguments: list[str], *, succeeds: bool) -> None:
        file = None
        if ">" in arguments:
            *arguments, _, file = arguments
        ended = as_person(self._run, *arguments)
        assert (ended.code == 0) is succeeds, f"skillwire {shlex.join(arguments)}\n{ended.out}{ended.err}"
        if file is not None:
            Path(file).write_text(ended.out, "utf-8")

    def _start(self, arguments: list[str]) -> None:
        """A server, until the page ends; over stdio, until its client leaves, which is at once here."""
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "skillwire", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
        )
        served = Served(process)
        self._stack.callback(served.kill)
        if arguments[0] == "serve" and not {"--http", "--share"} & {*arguments}:
            assert process.wait(120) == 0, served.all_it_said()
        else:
            served.wait_until_it_says(r"http://\S+")

    def _talk(self, arguments: list[str]) -> None:
        """A session on a terminal: one message, its answer after a yes, and the end."""
        terminal = Terminal(*arguments, "--plain")
        terminal.answer("Type a message", "Write release notes\n")
        terminal.answer("Load it?", "y\n")
        terminal.answer("tokens in", "/quit\n")
        assert terminal.end() == 0, terminal.screen

    @staticmethod
    def _until_interrupted(arguments: list[str], *, says: str) -> None:
        """A command on a terminal, until Ctrl-C."""
        terminal = Terminal(*arguments)
        terminal.wait_for(says)
        terminal.type("\x03")
        assert terminal.end() in (0, 130), terminal.screen


@pytest.fixture
def session(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Session]:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    shutil.copytree(ROOT / "examples", work / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    for name in ("CONFIG", "CACHE", "DATA", "STATE"):
        monkeypatch.delenv(f"XDG_{name}_HOME", raising=False)
    for name in [name for name in os.environ if name.startswith("SKILLWIRE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("BROWSER", "true")  # The program of this name, which shows nothing.
    with ExitStack() as stack:
        yield Session(run, stack)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_shell_line_of_a_page_runs(page: Path, session: Session) -> None:
    assert _run_page(page, session) >= 2


@pytest.mark.parametrize("name", OTHER_PAGES)
def test_every_shell_line_of_a_page_on_one_subject_runs(name: str, session: Session) -> None:
    shutil.copytree("examples/skills", "skills")
    shutil.copytree("skills/code-review", "skills/pdf")
    main_file = Path("skills/pdf/SKILL.md")
    main_file.write_text(main_file.read_text("utf-8").replace("name: code-review", "name: pdf"), "utf-8")
    shutil.copytree("skills", ".agents/skills")
    Path("q.jsonl").write_text('{"question": "review my change", "skill": "code-review"}\n')
    assert _run_page(ROOT / f"docs/{name}.md", session) >= 2


def _run_page(page: Path, session: Session) -> int:
    """Run the lines of a page; how many there are."""
    count = 0
    for block in BLOCK.finditer(page.read_text("utf-8")):
        language, content = block.groups()
        if language == "sh":
            for line in lines_of(content):
                session.run(line, succeeds=not line.startswith(tuple(CANNOT_RUN)))
                count += 1
        elif name := FILE.match(content):
            session.write(name[1], content)
    return count


def test_what_cannot_run_is_on_a_page() -> None:
    pages = [*PAGES, *(ROOT / f"docs/{name}.md" for name in OTHER_PAGES)]
    texts = [page.read_text("utf-8") for page in pages]
    blocks = [block[2] for text in texts for block in BLOCK.finditer(text) if block[1] == "sh"]
    lines = [line for block in blocks for line in lines_of(block)]
    assert [start for start in CANNOT_RUN if not any(line.startswith(start) for line in lines)] == []
