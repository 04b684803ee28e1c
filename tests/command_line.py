"""A command of `skillwire`, run in this process, and how it ended."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest

import skillwire
from skillwire.consent import PersonTerminal


class Ended(NamedTuple):
    code: int | str | None
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        assert self.code == 0, self.err
        return json.loads(self.out)


Run: TypeAlias = Callable[..., Ended]
OURS = f'File "{Path(skillwire.__file__).parent}'


def runner(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *before: str,
    after: tuple[str, ...] = (),
) -> Run:
    """Runs `skillwire` in this process, with these words before and after those of each call."""
    from skillwire.cli import main

    def start(*words: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["skillwire", *before, *map(str, words), *after])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        # A script of a skill may print one of its own.
        assert "Traceback" not in err or OURS not in err
        return Ended(ended.value.code, out, err)

    return start


def hiding(run: Run, secrets: Callable[[], Iterable[str]]) -> Run:
    """The same, and nothing that it prints has one of the secrets."""

    def start(*words: object) -> Ended:
        ended = run(*words)
        for secret in secrets():
            assert secret not in ended.out + ended.err
        return ended

    return start


def new_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str = "work") -> Path:
    """A home with nothing in it, and an empty working directory, which is returned."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    directory = tmp_path / work
    directory.mkdir(exist_ok=True)
    monkeypatch.chdir(directory)
    return directory


def new_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with nothing in it, which is returned and which no variable moves, and an empty working
    directory."""
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "home"


class _Shown(io.StringIO):
    """What is shown to a person, which goes to standard error, where a test sees it."""

    def write(self, text: str, /) -> int:
        sys.stderr.write(text)
        return super().write(text)


Answer: TypeAlias = str | Callable[[str], str]
"""What is typed; or a function that is called while the question is open, with all that was shown so far, and
returns what is typed."""


class Person(PersonTerminal):
    """A person at a terminal of this process, who gives these answers, the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        import pty

        self._keyboard, terminal = pty.openpty()
        self._shown = _Shown()
        super().__init__(os.fdopen(terminal, encoding="utf-8"), self._shown)
        self._next = list(answers)

    def type(self, text: str) -> None:
        """Type a line; Enter need not be written, and Ctrl-D takes its place."""
        os.write(self._keyboard, (text if text.endswith(("\n", "\x04")) else f"{text}\n").encode())

    async def answer(self) -> str:
        said = self._next.pop(0) if len(self._next) > 1 else self._next[0]
        self.type(said if isinstance(said, str) else said(self._shown.getvalue()))
        return await super().answer()

    def leave(self) -> None:
        self._answers.close()
        os.close(self._keyboard)


@contextmanager
def person(*answers: Answer) -> Generator[Person]:
    """For as long as this lasts, a person is there to be asked."""
    one = Person(*answers)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("skillwire.cli.host_options.person_terminal", lambda: one)
            yield one
    finally:
        one.leave()


def as_person(run: Run, *words: object, answers: tuple[Answer, ...] = ("y",)) -> Ended:
    """A command that a person runs, who answers with these lines what they are asked."""
    with person(*answers):
        return run(*words)


def approved(run: Run, name: str, *options: str) -> Ended:
    """Approve a skill as it is shown."""
    return as_person(run, "approve", name, *options)
