"""`skillwire sign`, `keygen` and `verify-signature`, with a real server where one is needed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from command_line import Ended, Run
from folder_server import FolderServer
from skillwire.cli import main

SAMPLES = Path(__file__).parents[2] / "examples/skills"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    directory = tmp_path / "work"
    directory.mkdir()
    shutil.copytree(SAMPLES, directory / "skills")
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


def test_a_folder_is_signed_and_checked_and_a_change_is_named(run: Run, work: Path) -> None:
    made = run("keygen", "acme.pem")
    assert made.code == 0
    assert "acme.pub" in made.out
    skill = work / "skills/code-review"
    assert run("verify-signature", skill, "--key", "acme.pub").code == 6
    signed = run("sign", skill, "--key", "acme.pem")
    assert signed.out.startswith("Signed code-review, 2 files: ")
    good = run("verify-signature", skill, "--key", "acme.pub")
    assert (good.code, good.out) == (0, f"{skill}: signed by acme over exactly these files\n")
    (skill / "references/checklist.md").write_text("other\n")
    bad = run("verify-signature", skill, "--key", "acme.pub")
    assert bad.code == 6
    assert "signed by acme, but 1 file differs\n  differs: references/checklist.md" in bad.out


@pytest.mark.process
def test_a_skill_of_a_server_is_checked_by_a_publisher_of_the_configuration(
    run: Run, work: Path, folders: FolderServer
) -> None:
    run("keygen", "acme.pem")
    run("sign", "skills/code-review", "--key", "acme.pem")
    (work / "config.toml").write_text('[publishers.acme]\nkey = "acme.pub"\n')
    host = (
        "--config",
        "config.toml",
        "--no-default-directories",
        "--server",
        f"docs={folders.at('skills')}",
    )
    good = run("verify-signature", "code-review", "--publisher", "acme", "--json", *host)
    assert good.document["signature"]["state"] == "signed"
    assert good.document["signature"]["publisher"] == "acme"
    unsigned = run("verify-signature", "incident-report", *host)
    assert (unsigned.code, unsigned.out) == (6, "incident-report: not signed\n")
    unknown = run("verify-signature", "code-review", "--publisher", "nobody", *host)
    assert unknown.code == 4
    assert "no publisher is called nobody" in unknown.err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["sign", "skills/code-review"], 2, "give --key FILE, or --keyless"),
        (["sign", "skills/code-review", "--key", "k", "--keyless"], 2, "give --key FILE, or --keyless"),
        (["sign", "skills/code-review", "--keyless", "--cert", "c"], 2, "--cert needs --key"),
        (["sign", "skills/code-review", "--key", "nowhere.pem"], 4, "nowhere.pem cannot be read"),
        (["sign", "skills", "--key", "k"], 4, "is not a skill"),
        (["sign", "skills/code-review", "--key", "SKILL"], 3, "is not a private key in PEM"),
        (["keygen", "x.pem", "--password-env", "NOT_SET"], 2, "NOT_SET is not set"),
        (["verify-signature", "skills/code-review", "--key", "SKILL"], 3, "is not a public key in PEM"),
        (["verify-signature", "skills/code-review", "--root", "SKILL"], 3, "is not a certificate in PEM"),
    ],
)
def test_what_cannot_work_says_why_in_one_line(
    run: Run, arguments: list[str], code: int, message: str
) -> None:
    replaced = ["skills/code-review/SKILL.md" if one == "SKILL" else one for one in arguments]
    ended = run(*replaced)
    assert ended.code == code, ended.err
    assert message in ended.err
    assert ended.err.count("\n") == 1


def test_a_key_is_never_replaced(run: Run) -> None:
    assert run("keygen", "acme.pem").code == 0
    again = run("keygen", "acme.pem")
    assert again.code == 4
    assert "already exists" in again.err


@pytest.mark.process
def test_list_and_show_say_who_signed_each_skill(run: Run, work: Path, folders: FolderServer) -> None:
    run("keygen", "acme.pem")
    run("sign", "skills/code-review", "--key", "acme.pem")
    run("sign", "skills/git-commit-review", "--key", "acme.pem")
    (work / "skills/git-commit-review/more.md").write_text("More.\n")
    run("keygen", "other.pem")
    run("sign", "skills/incident-report/five-whys", "--key", "other.pem")
    (work / "config.toml").write_text('[publishers.acme]\nkey = "acme.pub"\n')
    host = ("--config", "config.toml", "--no-default-directories")
    server = (*host, "--server", f"docs={folders.at('skills')}")
    words = {
        "code-review": "signed by acme over exactly these files",
        "git-commit-review": "signed by acme, but 1 file differs",
        "five-whys": "signature of an unknown publisher",
        "release-notes": "not signed",
    }
    listed = run("list", "--signed", *server)
    for name, text in words.items():
        [line] = [line for line in listed.out.splitlines() if line.startswith(f"{name} ")]
        assert f"not approved, {text}" in line
        assert f"signature  {text}" in run("show", name, *server).out
        assert run("show", name, "--json", *server).document["signature"]["text"] == text
    assert "signed" not in run("list", *server).out
    documents = run("list", "--signed", "--json", *server).document["skills"]
    assert {one["handle"]: one["signature"]["text"] for one in documents}.items() >= words.items()
    # A directory of the user is read in the same way.
    shown = run("show", "code-review", *host, "--dir", "skills")
    assert "signature  signed by acme over exactly these files" in shown.out
    assert "differs    more.md" in run("show", "git-commit-review", *server).out
    for text in (listed.out, shown.out):
        assert "safe" not in text
        assert "trusted" not in text


@pytest.mark.process
def test_what_a_required_publisher_did_not_sign_is_listed_as_refused(
    run: Run, work: Path, folders: FolderServer
) -> None:
    run("keygen", "acme.pem")
    run("sign", "skills/code-review", "--key", "acme.pem")
    (work / "config.toml").write_text(
        f'[publishers.acme]\nkey = "acme.pub"\n[servers.docs]\nurl = "{folders.at("skills")}"\n'
        'require = "acme"\n'
    )
    host = ("--config", "config.toml", "--no-default-directories")
    out = run("list", *host).out
    assert "release-notes      MCP · docs  refused" in out
    assert "refused    release-notes: the publisher acme is required, and the skill is not signed" in out
    [line] = [line for line in out.splitlines() if line.startswith("code-review ")]
    assert "not approved" in line
    state = run("show", "release-notes", "--json", *host).document["approval"]
    assert (state["state"], "is not signed" in state["problem"]) == ("refused", True)
    digest = run("show", "release-notes", "--json", *host).document["digest"]
    refused = run("approve", "release-notes", "--digest", digest, *host)
    assert (refused.code, "the publisher acme is required" in refused.err) == (7, True)


def test_a_directory_can_require_a_publisher(run: Run, work: Path) -> None:
    run("keygen", "acme.pem")
    run("sign", "skills/code-review", "--key", "acme.pem")
    (work / "config.toml").write_text(
        f'[publishers.acme]\nkey = "acme.pub"\n[sources."{work}/skills"]\nrequire = "acme"\n'
    )
    host = ("--config", "config.toml", "--no-default-directories", "--dir", "skills")
    assert run("load", "code-review", *host).code == 0
    refused = run("load", "release-notes", *host)
    assert (refused.code, "the publisher acme is required" in refused.err) == (7, True)


def test_lint_compares_a_signature_with_the_folder(run: Run, work: Path) -> None:
    run("keygen", "acme.pem")
    skill = work / "skills/code-review"
    run("sign", skill, "--key", "acme.pem")
    assert run("lint", skill).code == 0
    (skill / "references/checklist.md").write_text("- [ ] Other.\n")
    ended = run("lint", skill)
    assert ended.code == 1
    assert "signature-differs" in ended.out
    assert "references/checklist.md" in ended.out
    # A signature that is out of date does not keep anybody from signing again.
    assert run("sign", skill, "--key", "acme.pem").code == 0
    assert run("lint", skill).code == 0
    (skill / "skill.oms.sig").write_text("{}")
    assert "signature-invalid" in run("lint", skill).out
