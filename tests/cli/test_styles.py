"""`--style`: a person sees what a model would see in another host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Run, person, runner
from folder_server import FolderServer
from trees import write, write_skill


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    folders: FolderServer,
) -> Run:
    """Runs a command in an empty directory with one skill of a project and a server that has two, one of
    the same name."""
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    write_skill(tmp_path / "work/.agents/skills/refunds")
    write_skill(tmp_path / "work/served/refunds", {"rules.md": b"Others."})
    write_skill(tmp_path / "work/served/db/migrate", {"guide.md": b"More."})
    monkeypatch.chdir(tmp_path / "work")

    return runner(monkeypatch, capsys, after=("--server", f"shop={folders.at('served')}"))


@pytest.mark.parametrize(
    ("style", "rows"),
    [
        (
            "goose",
            [("refunds", "local · project"), ("migrate", "MCP · shop"), ("shop__refunds", "MCP · shop")],
        ),
        (
            "gemini",
            [("refunds", "local · project"), ("migrate", "[mcp:shop]"), ("shop/refunds", "[mcp:shop]")],
        ),
        ("wayland", [("refunds", "local · project"), ("shop:db:migrate", "<mcp:shop:db:migrate>")]),
    ],
)
def test_list_has_the_names_and_marks_of_a_style(run: Run, style: str, rows: list[tuple[str, str]]) -> None:
    code, out, _ = run("list", "--style", style)
    assert code == 0
    for name, mark in rows:
        assert any(line.startswith(f"{name} ") and mark in line for line in out.splitlines()), out
    if style == "goose":
        assert "it can be loaded as shop__refunds" in out


def test_catalog_prints_the_models_text_and_with_json_its_tools(run: Run) -> None:
    code, out, _ = run("list", "--for-model", "--style", "codex")
    assert code == 0
    assert out.startswith("## Skills\n")
    assert "(uri: skill://db/migrate/SKILL.md, server: shop)" in out
    assert ".agents/skills/refunds/SKILL.md)" in out
    code, out, _ = run("list", "--for-model", "--style", "gemini", "--json")
    document: dict[str, Any] = json.loads(out)
    assert document["style"] == "gemini"
    assert [tool["name"] for tool in document["tools"]] == ["activate_skill", "read_mcp_resource"]
    _, out, _ = run("list", "--for-model")
    assert out.startswith("<available_skills>")


def test_load_prints_the_skill_in_a_style_once_it_is_approved(run: Run) -> None:
    code, _, err = run("load", "--style", "gemini", "migrate")
    assert code == 7
    assert "skillwire show migrate" in err
    assert "--style gemini`" in err
    with person("y"):
        assert run("approve", "migrate", "--style", "gemini")[0] == 0
    code, out, _ = run("load", "--style", "gemini", "migrate")
    assert code == 0
    assert '<instructions trust="untrusted">' in out
    assert "<file>skill://db/migrate/guide.md</file>" in out
    # An approval is for the skill, whatever a style calls it.
    assert "More." in run("load", "--style", "wayland", "shop:db:migrate", "guide.md")[1]


def test_the_style_of_the_configuration_counts_for_commands_unless_they_name_another(
    run: Run, tmp_path: Path
) -> None:
    config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
    write(config, b'style = "goose"\n')

    def names(*arguments: str) -> set[str]:
        code, out, err = run("list", "--json", *arguments)
        assert code == 0, err
        return {skill["handle"] for skill in json.loads(out)["skills"]}

    assert names() == {"refunds", "migrate", "shop__refunds"}
    assert names("--style", "wayland") == {"refunds", "shop:db:migrate", "shop:refunds"}
    code, out, err = run("list", "--for-model")
    assert code == 0, err
    assert (
        out
        == run("list", "--for-model", "--style", "goose")[1]
        != run("list", "--for-model", "--style", "spec")[1]
    )
    write(config, b'style = "emacs"\n')
    code, out, err = run("list")
    assert (code, out) == (4, "")
    assert err.startswith(f"skillwire: the key style of {config}: no style is called emacs: choose from ")


def test_an_unknown_style_is_one_line(run: Run) -> None:
    code, out, err = run("list", "--style", "emacs")
    assert (code, out) == (2, "")
    assert err.startswith(
        "skillwire list: --style: no style is called emacs: "
        "choose from spec, claude, codex, gemini, goose, wayland"
    )
