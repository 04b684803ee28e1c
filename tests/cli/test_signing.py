"""`skillwire sign`, `keygen` and `verify-signature`, with a real server where one is needed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import Run, as_person, new_user
from folder_server import FolderServer
from skillwire.sources.directory import authoring

SAMPLES = Path(__file__).parents[2] / "examples/skills"


@pytest.fixture(autouse=True)
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    directory = new_user(tmp_path, monkeypatch)
    shutil.copytree(SAMPLES, directory / "skills")
    return directory


def sign_a_skill(run: Run) -> None:
    """Sign one of the samples with the new key of a publisher."""
    run("sign", "--new-key", "acme.pem")
    run("sign", "skills/code-review", "--key", "acme.pem")


def test_a_folder_is_signed_and_checked_and_a_change_is_named(run: Run, work: Path) -> None:
    made = run("sign", "--new-key", "acme.pem")
    assert made.code == 0
    assert "acme.pub" in made.out
    skill = work / "skills/code-review"
    assert run("sign", "--check", skill, "--key", "acme.pub").code == 6
    signed = run("sign", skill, "--key", "acme.pem")
    assert signed.out.startswith("Signed code-review, 2 files: ")
    good = run("sign", "--check", skill, "--key", "acme.pub")
    assert (good.code, good.out) == (0, f"{skill}: signed by acme over exactly these files\n")
    (skill / "references/checklist.md").write_text("other\n")
    bad = run("sign", "--check", skill, "--key", "acme.pub")
    assert bad.code == 6
    assert "signed by acme, but 1 file differs\n  differs: references/checklist.md" in bad.out


def test_a_skill_of_a_server_is_checked_by_a_publisher_of_the_configuration(
    run: Run, work: Path, folders: FolderServer
) -> None:
    sign_a_skill(run)
    (work / "config.toml").write_text('[publishers.acme]\nkey = "acme.pub"\n')
    host = (
        "--config",
        "config.toml",
        "--no-default-directories",
        "--server",
        f"docs={folders.at('skills')}",
    )
    good = run("sign", "--check", "code-review", "--publisher", "acme", "--json", *host)
    assert good.document["signature"]["state"] == "signed"
    assert good.document["signature"]["publisher"] == "acme"
    unsigned = run("sign", "--check", "incident-report", *host)
    assert (unsigned.code, unsigned.out) == (6, "incident-report: not signed\n")
    unknown = run("sign", "--check", "code-review", "--publisher", "nobody", *host)
    assert unknown.code == 4
    assert "no publisher is called nobody" in unknown.err


FRONTMATTERS = {
    "a block of text at the end": (
        "---\nname: code-review\ndescription: |\n  Review code.\n  Use when asked.\n---\n"
    ),
    "a value without quotes": "---\nname: code-review\ndescription: Review: code when asked.\n---\n",
    "another name": "---\nname: reviews\ndescription: Review code when asked.\n---\n",
    "no valid YAML": "---\nname: [code-review\n---\n",
    "none": "# Review code\n",
}


def signed_with(work: Path, text: str) -> Path:
    """A skill with this SKILL.md, whose bytes are signed whatever they say."""
    skill = work / "skills/code-review"
    (skill / "SKILL.md").write_text(text)
    folder = authoring.read_files(skill)
    authoring.sign_folder(folder, authoring.load_private_key(work / "acme.pem"))
    return skill


@pytest.mark.parametrize("what", FRONTMATTERS)
def test_a_signature_is_over_bytes_and_needs_no_frontmatter(run: Run, work: Path, what: str) -> None:
    run("sign", "--new-key", "acme.pem")
    skill = signed_with(work, FRONTMATTERS[what])
    for name in (skill, skill / "SKILL.md", "skills/code-review"):
        good = run("sign", "--check", name, "--key", "acme.pub")
        assert (good.code, good.out) == (0, f"{name}: signed by acme over exactly these files\n")
    (skill / "SKILL.md").write_text(FRONTMATTERS[what] + "more\n")
    bad = run("sign", "--check", skill, "--key", "acme.pub")
    assert bad.code == 6
    assert "differs: SKILL.md" in bad.out


@pytest.mark.parametrize("what", ["a block of text at the end", "a value without quotes"])
def test_every_way_to_name_a_skill_has_the_same_verdict(
    run: Run, work: Path, folders: FolderServer, what: str
) -> None:
    """By its directory, by the name of a served and of a local skill, and in the lock after it was added."""
    run("sign", "--new-key", "acme.pem")
    skill = signed_with(work, FRONTMATTERS[what])
    (work / "config.toml").write_text('[publishers.acme]\nkey = "acme.pub"\n')
    alone = ("--config", "config.toml", "--no-default-directories")
    served = (*alone, "--server", f"docs={folders.at('skills')}")
    local = (*alone, "--dir", "skills")
    verdicts = [
        run("sign", "--check", skill, "--json", *alone).document["signature"],
        run("sign", "--check", "code-review", "--json", *served).document["signature"],
        run("sign", "--check", "code-review", "--json", *local).document["signature"],
    ]
    assert verdicts[0]["state"] == "signed"
    assert verdicts == [verdicts[0]] * 3


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["sign", "skills/code-review"], 2, "give --key FILE, or --keyless"),
        (["sign", "skills/code-review", "--key", "k", "--keyless"], 2, "give --key FILE, or --keyless"),
        (["sign", "skills/code-review", "--keyless", "--cert", "c"], 2, "--cert needs --key"),
        (["sign", "skills/code-review", "--key", "nowhere.pem"], 4, "nowhere.pem cannot be read"),
        (["sign", "skills", "--key", "k"], 4, "is not a skill"),
        (["sign", "skills/code-review", "--key", "SKILL"], 3, "is not a private key in PEM"),
        (["sign", "--new-key", "x.pem", "--password-env", "NOT_SET"], 2, "NOT_SET is not set"),
        (["sign", "--check", "skills/code-review", "--key", "SKILL"], 3, "is not a public key in PEM"),
        (["sign", "--check", "skills/code-review", "--root", "SKILL"], 3, "is not a certificate in PEM"),
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
    assert run("sign", "--new-key", "acme.pem").code == 0
    again = run("sign", "--new-key", "acme.pem")
    assert again.code == 4
    assert "already exists" in again.err


def test_list_and_show_say_who_signed_each_skill(run: Run, work: Path, folders: FolderServer) -> None:
    sign_a_skill(run)
    run("sign", "skills/git-commit-review", "--key", "acme.pem")
    (work / "skills/git-commit-review/more.md").write_text("More.\n")
    run("sign", "--new-key", "other.pem")
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


def test_what_a_required_publisher_did_not_sign_is_listed_as_refused(
    run: Run, work: Path, folders: FolderServer
) -> None:
    sign_a_skill(run)
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
    # All of the server that wait: what its publisher signed, and not what nobody may approve.
    ended = as_person(run, "approve", "--all", "--on", "docs", *host)
    assert ended.out.count("Approved ") == 1
    assert "Approved code-review" in ended.out
    refused = as_person(run, "approve", "release-notes", *host)
    assert (refused.code, "the publisher acme is required" in refused.err) == (7, True)


def test_a_directory_can_require_a_publisher(run: Run, work: Path) -> None:
    sign_a_skill(run)
    (work / "config.toml").write_text(
        f'[publishers.acme]\nkey = "acme.pub"\n[sources."{work}/skills"]\nrequire = "acme"\n'
    )
    host = ("--config", "config.toml", "--no-default-directories", "--dir", "skills")
    assert run("load", "code-review", *host).code == 0
    refused = run("load", "release-notes", *host)
    assert (refused.code, "the publisher acme is required" in refused.err) == (7, True)


def test_lint_compares_a_signature_with_the_folder(run: Run, work: Path) -> None:
    run("sign", "--new-key", "acme.pem")
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


def test_a_key_is_made_in_a_folder_that_is_not_there_yet(run: Run, work: Path) -> None:
    made = run("sign", "--new-key", "keys/deep/acme.pem")
    assert (made.code, made.err) == (0, "")
    assert (work / "keys/deep/acme.pub").is_file()
    assert (work / "keys").stat().st_mode & 0o077 == 0
    (work / "file").write_bytes(b"")
    refused = run("sign", "--new-key", "file/acme.pem")
    assert refused.code == 4
    assert refused.err.count("\n") == 1
    assert "cannot be written" in refused.err
