"""What version 0.1 left on disk, as it wrote it itself (`version-0.1/make.py`): nothing of it is lost."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from command_line import Ended, Run
from skillwire.cli import main
from skillwire.host.config.trust import SeenFile, TrustedFiles
from skillwire.skill.digests import digest_of

LEFT = Path(__file__).parent / "version-0.1"
SKILLWIRE = str(Path(sys.executable).parent / "skillwire")
DOCS = f'command = "{SKILLWIRE}"\nargs = ["serve", "{LEFT / "served"}"]\n'


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    shutil.copytree(LEFT / "data", tmp_path / "xdg_data_home/skillwire")
    shutil.copytree(LEFT / "cache", tmp_path / "xdg_cache_home/skillwire/files")
    config = tmp_path / "xdg_config_home/skillwire/skillwire.toml"
    config.parent.mkdir(parents=True)
    config.write_text(f"[servers.docs]\n{DOCS}")
    directory = tmp_path / "work"
    directory.mkdir()
    monkeypatch.chdir(directory)
    return directory


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    def start(*arguments: str | Path) -> Ended:
        monkeypatch.setattr(sys, "argv", ["skillwire", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Ended(ended.value.code, out, err)

    return start


def states(run: Run) -> dict[str, tuple[str, bool, bool]]:
    return {
        one["handle"]: tuple(one["approval"][key] for key in ("state", "allowed_tools", "execute_code"))
        for one in run("list", "--json").document["skills"]
    }


@pytest.mark.process
def test_approvals_grants_and_cached_files_are_migrated_once(run: Run, tmp_path: Path) -> None:
    first = run("list", "--json").document
    assert "3 approvals of version 0.1 were migrated" in str(first["problems"])
    assert states(run) == {
        "letters": ("changed", False, False),
        "refunds": ("approved", True, False),
        "returns": ("approved", False, True),
    }
    assert run("list", "--json").document["problems"] == []
    assert run("load", "refunds").code == 0
    # What had been approved of a skill that changed is still there to compare with.
    shown = run("show", "letters").out
    assert "│ -How version one does letters." in shown
    assert "│ +How version two does letters." in shown
    assert {one["approved_how"] for one in run("approvals", "list", "--json").document["approvals"]} == {
        "version 0.1"
    }
    folders = [path.name for path in (tmp_path / "xdg_cache_home/skillwire/files").iterdir()]
    assert len(folders) == 1
    assert folders[0].startswith("docs~")


@pytest.mark.process
def test_approvals_of_a_label_that_two_servers_have_are_named_and_asked_again(run: Run, work: Path) -> None:
    """Version 0.1 kept approvals by label alone: nobody can tell of which of the two they were."""
    # Another project that the user trusted calls another server by the same name.
    file = work.parent / "skillwire.toml"
    file.write_text('[servers.docs]\nurl = "https://docs.example/mcp"\n')
    trusted = TrustedFiles(work.parent / "xdg_data_home/skillwire/trusted")
    trusted.trust(SeenFile(file, digest_of(file.read_bytes())))
    document = run("list", "--json").document
    assert "approvals of version 0.1 for docs may be of another server of that name" in str(
        document["problems"]
    )
    assert {state for state, _, _ in states(run).values()} == {"new"}


def test_trust_in_a_projects_file_is_still_there() -> None:
    trusted = TrustedFiles(LEFT / "data/trusted")
    file = Path("/tmp/skillwire-0.1/project/skillwire.toml")
    digest = digest_of((LEFT / "skillwire.toml").read_bytes())
    assert trusted.trusts(SeenFile(file, digest))
    assert not trusted.trusts(SeenFile(file, digest_of(b"changed")))
    assert not trusted.trusts(SeenFile(Path("/elsewhere/skillwire.toml"), digest))
    assert [record.path for record in trusted.records()] == [file]
