"""Shell completion: what is offered, and that a real bash takes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from skillwire.cli.completion import SCRIPTS, Provider, candidates

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
        (["servers", ""], ["add", "import", "list", "remove", "trust"]),
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
        (["completion", ""], ["bash", "fish", "zsh"]),
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


@pytest.mark.process
@pytest.mark.parametrize("shell", sorted(SCRIPTS))
def test_a_script_is_one_that_its_shell_can_read(shell: str, tmp_path: Path) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    file = tmp_path / "script"
    file.write_text(SCRIPTS[shell], "utf-8")
    assert subprocess.run([program, "-n", str(file)], capture_output=True, check=False).returncode == 0


@pytest.mark.process
def test_bash_completes_commands_options_and_names(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    (tmp_path / ".agents/skills/tidy").mkdir(parents=True)
    (tmp_path / ".agents/skills/tidy/SKILL.md").write_text(
        "---\nname: tidy\ndescription: Tidies.\n---\n", "utf-8"
    )
    (tmp_path / "skillwire.toml").write_text('[servers.shop]\nurl = "https://shop.example/mcp"\n', "utf-8")
    script = """
        source <(skillwire completion bash)
        lines=("skillwire cat" "skillwire show ti" "skillwire servers remove s" "skillwire list --no-c")
        for line in "${lines[@]}"; do
            COMP_WORDS=($line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$line"; COMP_POINT=${#line}
            _skillwire
            echo "${COMPREPLY[*]}"
        done
    """
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        env[name] = str(tmp_path / name.lower())
    ran = subprocess.run(
        [bash, "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == ["catalog", "tidy", "shop", "--no-config"]
    assert ran.stderr == ""
