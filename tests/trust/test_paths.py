from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sample_entries import checked, file_uri
from skillwire.errors import FormatError, UnlistedFile
from skillwire.skill import skill_root
from skillwire.trust import CheckedEntry, shown_path, skill_file
from skillwire.trust.verify import skill_directory

ENTRY = checked(files={"references/GUIDE.md": b"", "100%.md": b"", "100%25.md": b"", "a b/ü.txt": b""})
DYNAMIC_ENTRY = checked(dynamic=True)
ROOT = skill_root(ENTRY.uri)


@pytest.mark.requirement("FMT-10")
@pytest.mark.parametrize(
    ("path", "file"),
    [
        ("SKILL.md", "SKILL.md"),
        ("references/GUIDE.md", "references/GUIDE.md"),
        ("./references/GUIDE.md", "references/GUIDE.md"),
        ("references%2FGUIDE.md", "references/GUIDE.md"),
        (f"{ROOT}/references/GUIDE.md", "references/GUIDE.md"),
        ("100%25.md", "100%.md"),
        ("100%2525.md", "100%25.md"),
        ("100%.md", "100%.md"),
        ("a b/ü.txt", "a b/ü.txt"),
        ("a%20b/%C3%BC.txt", "a b/ü.txt"),
    ],
)
def test_a_path_starts_at_the_skills_directory(path: str, file: str) -> None:
    assert skill_file(ENTRY, path) == file_uri(ENTRY.uri, file)


@pytest.mark.requirement("VER-3", "FMT-9")
@pytest.mark.parametrize("entry", [ENTRY, DYNAMIC_ENTRY], ids=["listed", "dynamic"])
@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "../other/SKILL.md",
        "references/../SKILL.md",
        "%2e%2e/other",
        "a//b",
        "a\\b",
        "a%00b",
        "skill://acme/other/SKILL.md",
        "other://acme/refunds/SKILL.md",
        "file:///etc/passwd",
        "://",
        "\ud800",
    ],
)
def test_a_path_that_leaves_the_skill_is_no_file_of_it(entry: CheckedEntry, path: str) -> None:
    with pytest.raises(UnlistedFile) as caught:
        skill_file(entry, path)
    assert str(caught.value).isprintable()


@pytest.mark.requirement("VER-3")
def test_an_unlisted_path_is_refused_unless_the_skill_lists_nothing() -> None:
    with pytest.raises(UnlistedFile):
        skill_file(ENTRY, "references/OTHER.md")
    with pytest.raises(UnlistedFile):
        skill_file(ENTRY, "references")
    assert skill_file(DYNAMIC_ENTRY, "made/up.md") == f"{ROOT}/made/up.md"


@pytest.mark.parametrize("path", ["", ".", "/", ROOT, f"{ROOT}/"])
def test_the_empty_path_is_the_skills_own_directory(path: str) -> None:
    assert skill_directory(ENTRY, path) == ROOT


def test_a_directory_is_one_that_has_files() -> None:
    assert skill_directory(ENTRY, "references/") == f"{ROOT}/references"
    assert skill_directory(ENTRY, "a%20b") == f"{ROOT}/a%20b"
    assert skill_directory(DYNAMIC_ENTRY, "any") == f"{ROOT}/any"
    for path in ("nowhere", "..", "SKILL.md"):
        with pytest.raises(UnlistedFile):
            skill_directory(ENTRY, path)


@pytest.mark.requirement("SEC-11")
@given(st.text(min_size=1, max_size=12))
def test_whatever_is_shown_is_one_plain_line_and_is_read_back(name: str) -> None:
    try:
        entry = checked(files={f"dir/{name}": b"x"})
    except FormatError:
        return
    shown = shown_path(f"dir/{name}")
    assert not set(shown) & set("<>\"'&`\n\x1b\u202e")
    assert skill_file(entry, shown) == file_uri(entry.uri, f"dir/{name}")
