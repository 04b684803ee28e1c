"""Shell completion: what is offered, and that it works in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillwire.cli.config import Provider, candidates
from terminals import Terminal

BIN = Path(sys.executable).parent
PROVIDERS: dict[str, Provider] = {
    "skill": lambda: ["refunds", "review", "tidy"],
    "server": lambda: ["docs", "shop"],
    "agent": lambda: ["claude-code"],
}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["serv"], ["serve", "servers"]),
        (["--ver"], ["--verbose", "--version"]),
        (["help", "sh"], ["show"]),
        (["frobnicate", ""], []),
        (["servers", ""], ["add", "import", "list", "remove", "show"]),
        (["servers", "--ch"], ["--check"]),
        (["servers", "remove", ""], ["docs", "shop"]),
        (["show", "re"], ["refunds", "review"]),
        (["show", "--on", "s"], ["shop"]),
        (["show", "--on=shop", "t"], ["tidy"]),
        (["show", "--text", "t"], ["tidy"]),
        (["serve", "x", "--tools", "a"], ["always", "auto"]),
        (["serve", "--no-w"], ["--no-watch"]),
        (["serve", ""], [":directory"]),
        (["list", "--config", ""], [":file"]),
        (["verify", "--", "nod"], [":file"]),
        (["list", "word"], []),
        (["config", "completion", ""], ["bash", "fish", "zsh"]),
        (["-q", "serv"], []),
        ([], None),
    ],
)
def test_the_last_word_is_completed(words: list[str], offered: list[str] | None) -> None:
    found = candidates(words, PROVIDERS)  # type: ignore[arg-type]
    if offered is None:
        assert {"serve", "help", "--help"} <= set(found)
    elif words == ["servers", ""]:
        assert set(offered) <= set(found)
    else:
        assert found == offered


SHELLS = Path(__file__).parent.parent.parent / ".envs/shells"
LINES = {
    "skillwire roll": "rollback",
    "skillwire show ti": "tidy",
    "skillwire servers remove s": "shop",
    "skillwire list --no-c": "--no-config",
}


def shell_program(name: str) -> str:
    """A shell of this machine, or of the packages that `make environments` unpacks; skips without either."""
    unpacked = [SHELLS / "bin" / name, SHELLS / "usr/bin" / name]
    found = shutil.which(name) or next((str(file) for file in unpacked if file.exists()), None)
    if found is None:
        pytest.skip(f"{name} is not installed, and there are no Debian packages here to take it from")
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a skill and a server to complete."""
    skill = tmp_path / ".agents/skills/tidy"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: Tidies.\n---\n", "utf-8")
    (tmp_path / "skillwire.toml").write_text('[servers.shop]\nurl = "https://shop.example/mcp"\n', "utf-8")
    return tmp_path


def environment_in(home: Path) -> dict[str, str]:
    variables = {
        name: str(home / name.lower()) for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
    }
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    libraries = next((str(folder) for folder in SHELLS.glob("usr/lib/*-linux-gnu")), "")
    return {**os.environ, **variables, "HOME": str(home), "PATH": path, "LD_LIBRARY_PATH": libraries}


def expect_completions(home: Path, shell: str, *words: str) -> None:
    """A shell that is given the lines as arguments prints what each is completed with."""
    command = [shell_program(shell), *words, *LINES]
    ran = subprocess.run(
        command, cwd=home, env=environment_in(home), capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == list(LINES.values())
    assert ran.stderr == ""


@pytest.mark.process
def test_bash_completes_commands_options_and_names(home: Path) -> None:
    script = """
        source <(skillwire config completion bash)
        for line in "$@"; do
            COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$line"; COMP_POINT=${#line}
            _skillwire
            echo "${COMPREPLY[*]}"
        done
    """
    expect_completions(home, "bash", "-c", script, "bash")


@pytest.mark.process
def test_fish_completes_commands_options_and_names(home: Path) -> None:
    script = "skillwire config completion fish | source; for line in $argv; complete -C $line; end"
    expect_completions(home, "fish", "--no-config", "-c", script)


@pytest.mark.process
def test_zsh_completes_commands_options_and_names(home: Path) -> None:
    """In a real interactive zsh on a terminal: only its line editor completes."""
    program = shell_program("zsh")
    rc = home / "zsh"
    rc.mkdir()
    if program.startswith(str(SHELLS)):  # What was unpacked elsewhere does not find its own modules.
        (rc / ".zshenv").write_text(
            f"module_path=({SHELLS}/usr/lib/*-linux-gnu/zsh/*)\nfpath=({SHELLS}/usr/share/zsh/functions/**/*(/))\n"
        )
    (rc / ".zshrc").write_text(
        "autoload -U compinit; compinit -u -D\n"
        "source <(skillwire config completion zsh)\n"
        'show() { zle complete-word; print -r -- "<$BUFFER>"; zle kill-whole-line }\n'
        "zle -N show; bindkey '^T' show; print ready\n"
    )
    env = {**environment_in(home), "ZDOTDIR": str(rc), "TERM": "dumb"}
    terminal = Terminal("-i", program=program, env=env, cwd=home)
    terminal.wait_for("ready")
    for line, word in LINES.items():
        terminal.type(f"{line}\x14")
        terminal.wait_for(f"<{line.rpartition(' ')[0]} {word} >")
    terminal.type("exit\r")
    terminal.end()
