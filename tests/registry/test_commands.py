"""`skillwire publish` and `skillwire registry`, as an operator uses them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from command_line import Ended, Run
from interop.processes import SKILLWIRE, listening
from registry.test_app import INITIALIZE, STREAM_HEADERS, folder
from skillwire.errors import SkillNotFound, SourceError
from skillwire.registry import Store, View
from skillwire.registry import upkeep as backups
from skillwire.registry.queries import SkillQueries
from skillwire.registry.schema import blobs
from skillwire.skill import DYNAMIC, parse_uri
from waiting import PATIENCE


@pytest.fixture
def place(tmp_path: Path, run: Run) -> str:
    """The URL of a new registry with the namespace `acme`."""
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    assert run("registry", "init", "--store", url).code == 0
    assert run("registry", "namespace", "acme", "--store", url).code == 0
    return url


def test_a_day_with_a_registry(run: Run, place: str, tmp_path: Path):
    first = folder(tmp_path / "1", "pdf", {"a.md": b"one"}, "1.0.0")
    second = folder(tmp_path / "2", "pdf", {"a.md": b"two"}, "1.1.0")
    published = run("publish", str(first), "--store", place, "--namespace", "acme")
    assert published.out.startswith("Published acme/pdf 1.0.0  sha256:")
    assert run("publish", str(first), "--store", place, "--namespace", "acme").out.startswith(
        "Already published"
    )
    assert run("publish", str(second), "--store", place, "--namespace", "acme").code == 0
    conflict = folder(tmp_path / "3", "pdf", {"a.md": b"three"}, "1.1.0")
    refused = run("publish", str(conflict), "--store", place, "--namespace", "acme")
    assert refused.code == 13
    assert "publish under a new one" in refused.err

    assert run("registry", "yank", "acme/pdf", "1.1.0", "--reason", "leaks-a-key", "--store", place).code == 0
    assert run("registry", "promote", "acme/pdf", "1.0.0", "--store", place).code == 0
    rows = run("registry", "list", "acme/pdf", "--json", "--store", place).document["versions"]
    assert [(row["version"], row["yanked"], row["channels"]) for row in rows] == [
        ("1.1.0", "leaks-a-key", []),
        ("1.0.0", None, ["stable"]),
    ]
    heads, newest, oldest = run("registry", "list", "acme/pdf", "--store", place).out.splitlines()
    assert heads.split() == ["VERSION", "PUBLISHED", "SIZE", "BY", "STATUS"]
    status = heads.index("STATUS")
    assert newest[status:] == "withdrawn: leaks-a-key"
    assert oldest[status:] == "stable"

    assert run("registry", "audit", "--verify", "--store", place).out.startswith("Intact: 5 lines")
    actions = [
        line["action"] for line in run("registry", "audit", "--json", "--store", place).document["lines"]
    ]
    assert actions == ["namespace", "publish", "publish", "yank", "promote"]
    assert run("registry", "prune", "--keep", "1", "--store", place).out.startswith("Deleted 0 versions")
    assert run("registry", "check", "--store", place).out == f"Intact: {place}\n"


def test_a_version_withdrawn_without_a_reason_is_listed_as_withdrawn(run: Run, place: str, tmp_path: Path):
    skill = folder(tmp_path / "1", "pdf", {"a.md": b"one"}, "1.0.0")
    run("publish", str(skill), "--store", place, "--namespace", "acme")
    assert run("registry", "yank", "acme/pdf", "1.0.0", "--store", place).code == 0
    heads, row = run("registry", "list", "acme/pdf", "--store", place).out.splitlines()
    assert row[heads.index("STATUS") :] == "withdrawn"


def test_a_token_is_shown_once_and_revoked_by_name(run: Run, place: str):
    added = run(
        "registry", "tokens", "add", "ci", "--role", "publish", "--namespace", "acme", "--store", place
    )
    secret = added.out.strip()
    assert secret.startswith("skr_")
    listed = run("registry", "tokens", "--store", place)
    heads, row = listed.out.splitlines()
    assert heads.split() == ["NAME", "CHANNEL", "CREATED", "PERMISSIONS"]
    assert row[heads.index("PERMISSIONS") :] == "publish in acme"
    assert secret not in listed.out
    assert run("registry", "tokens", "add", "ci", "--store", place).code == 3
    assert run("registry", "tokens", "revoke", "ci", "--store", place).code == 0
    assert "revoked" in run("registry", "tokens", "list", "--store", place).out
    assert run("registry", "tokens", "revoke", "ci", "--store", place).code == 8


def test_a_role_is_granted_listed_and_revoked_where_it_was_granted(run: Run, place: str):
    where = ("--namespace", "acme", "--store", place)
    added = run("registry", "grants", "add", "group:writers", "publish", *where)
    assert added.out == "Granted publish in acme to group:writers\n"
    heads, row = run("registry", "grants", "--store", place).out.splitlines()
    assert heads.split() == ["SUBJECT", "NAMESPACE", "ROLE"]
    assert row.split() == ["group:writers", "acme", "publish"]

    elsewhere = run("registry", "grants", "revoke", "group:writers", "--store", place)
    assert elsewhere.code == 8
    assert "group:writers has no role that was granted in every namespace" in elsewhere.err
    assert "skillwire registry grants lists" in elsewhere.err
    unknown = run("registry", "grants", "revoke", "group:writers", "--namespace", "new", "--store", place)
    assert unknown.code == 8
    assert len(run("registry", "list", "--json", "--store", place).document["namespaces"]) == 1

    revoked = run("registry", "grants", "revoke", "group:writers", *where)
    assert revoked.out == "Revoked the role of group:writers in acme\n"
    assert "registry grants add SUBJECT ROLE" in run("registry", "grants", "list", "--store", place).err
    actions = [
        json.loads(line["details"])["role"]
        for line in run("registry", "audit", "--json", "--store", place).document["lines"]
        if line["action"] == "grant"
    ]
    assert actions == ["publish", "none"]


def test_a_backup_is_restored_by_command(run: Run, place: str, tmp_path: Path):
    skill = folder(tmp_path / "1", "pdf", {"a.md": b"one"})
    run("publish", str(skill), "--store", place, "--namespace", "acme")
    file = tmp_path / "all.backup"
    assert run("registry", "backup", str(file), "--store", place).code == 0
    assert file.stat().st_mode & 0o077 == 0
    assert run("registry", "backup", str(file), "--store", place).code == 4

    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert run("registry", "restore", str(file), "--store", other).code == 0
    assert run("registry", "list", "acme/pdf", "--json", "--store", other).document["versions"]


def test_an_interrupted_backup_and_check_say_how_they_continue(
    run: Run, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(backups, "_BATCH", 1)
    skill = folder(tmp_path / "1", "pdf", {"a.md": b"one"})
    run("publish", str(skill), "--store", place, "--namespace", "acme")
    file = tmp_path / "all.backup"
    with monkeypatch.context() as patched:
        patched.setattr(backups, "_pages", interrupted)
        broken = run("registry", "backup", str(file), "--store", place)
        patched.setattr(backups, "_version_batches", interrupted)
        stopped = run("registry", "check", "--store", place)
    assert f"{file}.part has what was written so far: the same command continues with it" in broken.err
    assert broken.code == 4
    again = run("registry", "backup", str(file), "--store", place)
    assert f"Continuing with what is in {file}.part" in again.err
    assert again.code == 0

    words = stopped.err.partition("Continue with: skillwire ")[2].split()[:4]
    assert words[:3] == ["registry", "check", "--after"]
    assert run(*words, "--store", place).out.startswith("Intact: ")
    assert run("registry", "check", "--after", "version:1", "--store", place).code == 0
    assert run("registry", "check", "--after", "half", "--store", place).code == 2


def interrupted(*_given: object) -> Iterator[Any]:
    raise SourceError("the registry's database does not answer: try again later")
    yield


def test_what_comes_next_names_the_registry_that_was_made(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert run("registry", "init").err.endswith("tokens add NAME --role admin\n")
    made = run("registry", "init", "--store", "sqlite:///my registry.db")
    assert made.err.endswith("tokens add NAME --role admin --store 'sqlite:///my registry.db'\n")


def test_a_backup_that_is_not_there_leaves_nothing_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert run("registry", "restore", "nowhere.backup", "--store", "sqlite:///new.db").code == 4
    assert not list(tmp_path.iterdir())


def test_damage_has_an_exit_code_of_its_own(run: Run, place: str, tmp_path: Path):
    skill = folder(tmp_path / "1", "pdf", {"a.md": b"one"})
    run("publish", str(skill), "--store", place, "--namespace", "acme")
    store = Store(place)
    with store.writing() as connection:
        connection.execute(blobs.update().values(data=b"wrong"))
    store.close()

    ended = run("registry", "check", "--store", place)

    assert ended.code == 6
    assert ended.out.startswith("Damaged: the file sha256:")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["publish", "SKILL"], 2, "--to URL"),
        (["publish", "SKILL", "--store", "STORE"], 2, "--namespace"),
        (["publish", "SKILL", "--store", "STORE", "--namespace", "nothing"], 8, "registry namespace nothing"),
        (["publish", "SKILL", "--to", "ftp://x"], 4, "https://HOST"),
        (["publish", "SKILL", "--to", "http://127.0.0.1:9"], 4, "cannot be reached"),
        (["publish", "NOTHING", "--store", "STORE", "--namespace", "acme"], 4, "NOTHING"),
        (["publish", "SKILL", "--store", "mysql://x", "--namespace", "acme"], 4, "postgresql://"),
        (["registry", "list", "acme/", "--store", "STORE"], 2, "NAMESPACE/NAME"),
        (["registry", "list", "acme/none", "--store", "STORE"], 8, "no skill acme/none"),
        (["registry", "grants", "add", "nobody", "read", "--store", "STORE"], 3, "token:NAME"),
        (["registry", "grants", "add", "anyone", "admin", "--store", "STORE"], 3, "anyone"),
        (["registry", "grants", "add", "--store", "STORE"], 2, "registry grants add SUBJECT ROLE"),
        (["registry", "grants", "add", "anyone", "--store", "STORE"], 2, "registry grants add SUBJECT ROLE"),
        (["registry", "grants", "revoke", "--store", "STORE"], 2, "registry grants revoke SUBJECT"),
        (["registry", "grants", "revoke", "anyone", "read", "--store", "STORE"], 2, "takes no ROLE"),
        (["registry", "grants", "revoke", "nobody", "--store", "STORE"], 3, "token:NAME"),
        (["registry", "tokens", "add", "--store", "STORE"], 2, "NAME"),
        (["registry", "namespace", "Bad Name", "--store", "STORE"], 3, "lowercase"),
        (["registry", "namespace", "acme", "--signer", "x", "--store", "STORE"], 2, "belong together"),
        (["registry", "check", "--store", "sqlite:////nowhere/registry.db"], 4, "registry init"),
        (["registry", "promote", "acme/pdf", "9", "--store", "STORE"], 8, "no acme/pdf 9"),
        (["publish", "SKILL", "--to", "https://x", "--store", "STORE"], 2, "--to URL"),
        (["serve", "SKILL", "--store", "STORE"], 2, "only a registry"),
        (["serve", "--store", "STORE", "--locked", "x.lock"], 2, "no --locked"),
        (["serve", "--store", "STORE", "--http", "127.0.0.1:0", "--token-file", "x"], 2, "no --token-file"),
        (["serve", "--store", "STORE", "--http", "127.0.0.1:0", "--well-known"], 2, "no --well-known"),
        (["serve", "--store", "STORE", "--unlisted", "a*"], 2, "no --unlisted"),
        (["serve", "--store", "STORE", "--strict", "--no-scan-cache"], 2, "no --strict, --no-scan-cache"),
        (["serve", "--store", "STORE", "--cache-scope", "public"], 2, "no --cache-scope"),
        (["serve", "--store", "STORE", "--stateless"], 2, "needs --http"),
        (["serve", "--store", "STORE", "--oauth-issuer", "https://x"], 2, "needs --http"),
        (["serve", "SKILL", "--channel", "beta"], 2, "add --store URL"),
        (["serve", "SKILL", "--http", "127.0.0.1:0", "--oauth-issuer", "https://x"], 2, "add --store URL"),
        (
            ["serve", "--store", "STORE", "--http", "127.0.0.1:0", "--oauth-issuer", "https://x"],
            2,
            "together",
        ),
    ],
)
def test_bad_input_gets_one_line_and_its_exit_code(
    run: Run, place: str, tmp_path: Path, words: list[str], code: int, says: str
):
    skill = folder(tmp_path, "pdf", {})
    known = {"STORE": place, "SKILL": str(skill)}
    ended = run(*(known.get(word, word) for word in words))
    assert ended.code == code, ended.err
    assert says in ended.err


def test_a_version_comes_from_the_option_or_the_frontmatter(run: Run, place: str, tmp_path: Path):
    skill = tmp_path / "plain"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: plain\ndescription: Does one thing.\n---\nx\n")
    refused = run("publish", str(skill), "--store", place, "--namespace", "acme")
    assert refused.code == 3
    assert "--release" in refused.err
    done: Any = json.loads(
        run("publish", str(skill), "--store", place, "--namespace", "acme", "--release", "3", "--json").out
    )
    assert done["published"][0]["version"] == "3"


def test_the_store_in_the_environment_is_used_by_every_command(
    run: Run, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    skill = str(folder(tmp_path, "pdf", {}))
    monkeypatch.setenv("SKILLWIRE_STORE", place)
    assert run("publish", skill, "--namespace", "acme").out.startswith("Published acme/pdf 1.0.0")
    assert "1.0.0" in run("registry", "list", "acme/pdf").out
    assert f"--store={place}" in run("serve", "--print-config", "claude-desktop").out
    # What the command line names counts before it.
    assert run("publish", skill, "--to", "http://127.0.0.1:9").code == 4
    assert "--store" not in run("serve", skill, "--print-config", "claude-desktop").out
    other = f"sqlite:///{tmp_path / 'other.db'}"
    assert other in run("registry", "init", "--store", other).out


def test_a_client_is_told_where_a_registry_is_and_which_variable_has_its_token(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    local = run("serve", "--store", "sqlite:///registry.db", "--print-config", "claude-desktop")
    assert f"--store=sqlite:///{tmp_path / 'registry.db'}" in local.out
    remote = run(
        *("serve", "--store", "postgresql://x/y", "--http", "127.0.0.1:8000", "--print-config", "claude-code")
    )
    assert "SKILLWIRE_REGISTRY_TOKEN" in remote.out


@pytest.mark.process
def test_serve_opens_the_store_of_the_environment(place: str):
    done = subprocess.run(
        [*SKILLWIRE, "serve"],
        env={**os.environ, "SKILLWIRE_STORE": place},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert f"Serving 0 skills of {place} over stdio" in done.stderr


@pytest.mark.process
def test_serve_passes_its_options_on_to_the_registry(run: Run, place: str):
    run("registry", "grants", "add", "anyone", "read", "--store", place)
    command = ["serve", "--store", place, "--http", "127.0.0.1:0", "--stateless", "--name", "ours"]
    with (
        listening([*SKILLWIRE, *command, "--instructions", "Ask first."]) as url,
        httpx.Client(timeout=PATIENCE) as client,
    ):
        answer = client.post(url, json=INITIALIZE, headers=STREAM_HEADERS)
    assert "mcp-session-id" not in answer.headers
    result = answer.json()["result"]
    assert (result["serverInfo"]["name"], result["instructions"]) == ("ours", "Ask first.")


def test_a_registry_is_listed_with_its_namespaces_skills_and_channels(run: Run, place: str, tmp_path: Path):
    for number, version in enumerate(("1.0.0", "1.1.0")):
        skill = folder(tmp_path / str(number), "pdf", {"a.md": version.encode()}, version)
        run("publish", str(skill), "--store", place, "--namespace", "acme")
    run("registry", "namespace", "acme", "--quota-mb", "5", "--store", place)

    bare = run("registry", "--store", place)
    heads, row = bare.out.splitlines()
    assert heads.split() == ["NAMESPACE", "SKILLS", "VERSIONS", "SIZE", "QUOTA", "SIGNER"]
    assert row.split()[:3] == ["acme", "1", "2"]
    listed = run("registry", "list", "acme", "--json", "--store", place).document
    assert listed["skills"] == [
        {"name": "pdf", "versions": 2, "revoked": [], "channels": {"stable": "1.1.0"}}
    ]


def test_an_earlier_version_does_not_move_the_channel_back_and_says_how_to(
    run: Run, place: str, tmp_path: Path
):
    later = folder(tmp_path / "later", "pdf", {"a.md": b"later"}, "2.0.0")
    assert run("publish", str(later), "--store", place, "--namespace", "acme").code == 0
    earlier = folder(tmp_path / "earlier", "pdf", {"a.md": b"earlier"}, "1.0.1")
    published = run("publish", str(earlier), "--store", place, "--namespace", "acme")
    assert "stable stays at 2.0.0" in published.err
    assert "skillwire registry promote acme/pdf 1.0.1 --channel stable" in published.err

    withdrawn = run("registry", "yank", "acme/pdf", "2.0.0", "--store", place)
    assert "stable no longer has acme/pdf" in withdrawn.err
    assert "promote acme/pdf VERSION" in withdrawn.err


@pytest.mark.process
def test_administrators_work_over_http_within_their_namespaces(
    run: Run, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    for number, version in enumerate(("1.0.0", "1.1.0")):
        skill = folder(tmp_path / str(number), "pdf", {"a.md": version.encode()}, version)
        run("publish", str(skill), "--store", place, "--namespace", "acme")

    def token(name: str, *words: str) -> str:
        return run("registry", "tokens", "add", name, *words, "--store", place).out.strip()

    admin, of_acme = (
        token("admin", "--role", "admin"),
        token("acme", "--role", "admin", "--namespace", "acme"),
    )
    publisher = token("ci", "--role", "publish")
    with listening([*SKILLWIRE, "serve", "--store", place, "--http", "127.0.0.1:0"]) as url:

        def as_(secret: str, *words: str) -> Ended:
            monkeypatch.setenv("SKILLWIRE_REGISTRY_TOKEN", secret)
            return run("registry", *words, "--to", url)

        assert as_(of_acme, "yank", "acme/pdf", "1.1.0", "--reason", "broken").code == 0
        assert as_(of_acme, "promote", "acme/pdf", "1.0.0").code == 0
        assert "role admin in every namespace" in as_(of_acme, "tokens").err
        assert as_(publisher, "yank", "acme/pdf", "1.0.0").code != 0
        assert as_("skr_" + "x" * 43, "list").code != 0
        assert as_(admin, "grants", "add", "group:writers", "publish", "--namespace", "acme").code == 0
        assert "group:writers" in as_(admin, "grants").out
        assert as_(admin, "tokens", "add", "new", "--role", "read").out.startswith("skr_")
        assert as_(admin, "tokens", "revoke", "new").code == 0
        assert as_(admin, "prune", "--keep", "1").out.startswith("Deleted 0 versions")
        assert as_(admin, "uploads", "--json").document["uploads"] == []
        assert as_(admin, "list", "--json").document["namespaces"][0]["name"] == "acme"
        assert as_(admin, "list", "acme").out.split()[-1] == "1.0.0"
    lines = run("registry", "audit", "--json", "--store", place).document["lines"]
    assert ("token:acme", "yank") in [(line["who"], line["action"]) for line in lines]


def test_the_registry_and_its_database_cannot_both_be_named(run: Run, place: str):
    ended = run("registry", "list", "--to", "https://registry.example", "--store", place)
    assert ended.code == 2
    assert "exclude each other" in ended.err


def written(at: Path, name: str, *, description: str = "Does one thing well. Use when it is due.") -> Path:
    at.mkdir(parents=True, exist_ok=True)
    (at / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {description}\n---\nDo it.\n")
    return at


def test_publish_takes_folders_tries_every_skill_and_names_each(run: Run, place: str, tmp_path: Path):
    skills = tmp_path / "skills"
    folder(skills, "first", {}, "1.0.0")
    folder(skills, "outer", {"notes.md": b"of both"}, "2.0.0")
    written(skills / "outer/parts/inner", "inner")
    # What lint warns of is published, what it calls an error is not.
    written(skills / "wordy", "wordy", description="So many words. " * 71)
    written(skills / "broken", "Not A Name")
    alone = folder(tmp_path, "alone", {}, "1.0.0")

    done = run("publish", str(skills), str(alone), "--store", place, "--namespace", "acme", "--release", "3")
    assert done.code == 11
    assert [line.split()[1] for line in done.out.splitlines()] == [
        "acme/first",
        "acme/outer",
        "acme/inner",
        "acme/wordy",
        "acme/alone",
    ]
    [refused] = done.err.splitlines()
    assert f"{skills / 'broken'} is not published" in refused
    linted = json.loads(run("lint", str(skills), "--errors-only", "--json").out)
    errors = {issue["skill"] for issue in linted["issues"] if issue["severity"] == "error"}
    assert errors == {str(skills / "broken")}


def test_a_nested_skill_has_the_version_of_the_skill_around_it_and_can_be_asked_for(
    run: Run, place: str, tmp_path: Path
):
    outer = folder(tmp_path, "outer", {}, "2.0.0")
    inner = written(outer / "parts/inner", "inner")
    (inner / "a.md").write_text("of inner")
    document = run("publish", str(outer), "--store", place, "--namespace", "acme", "--json").document
    assert [(one["skill"], one["version"]) for one in document["published"]] == [
        ("acme/outer", "2.0.0"),
        ("acme/inner", "2.0.0"),
    ]
    catalog = SkillQueries(Store(place), View())
    entry = catalog.entry(parse_uri("skill://acme/outer/parts/inner/SKILL.md"))
    assert entry.name == "inner"
    assert entry.resources is not DYNAMIC
    assert [file.uri.removeprefix("skill://acme/outer/parts/inner/") for file in entry.resources] == [
        "SKILL.md",
        "a.md",
    ]
    assert [one.uri for one in catalog.page(None, 10)] == [
        "skill://acme/inner/SKILL.md",
        "skill://acme/outer/SKILL.md",
    ]
    with pytest.raises(SkillNotFound):
        catalog.entry(parse_uri("skill://acme/outer/parts/SKILL.md"))


def test_after_a_registry_that_cannot_be_reached_nothing_else_is_tried(run: Run, tmp_path: Path):
    for name in ("first", "second"):
        folder(tmp_path / "skills", name, {})
    ended = run("publish", str(tmp_path / "skills"), "--to", "http://127.0.0.1:9")
    assert ended.code == 4
    first, second = ended.err.splitlines()
    assert "cannot be reached" in first
    assert "not tried" in second
