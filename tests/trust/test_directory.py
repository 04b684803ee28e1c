from __future__ import annotations

from dataclasses import dataclass

import pytest

from sample_entries import checked, file_uri
from skillwire.skill import SkillUri, skill_root
from skillwire.trust import DirectoryView
from skillwire.trust.verify import filter_directory, listed_children

FILES = {"references/GUIDE.md": b"guide", "references/deep/x.txt": b"", "LICENSE": b"mit"}
ENTRY = checked(files=FILES)
ROOT = skill_root(ENTRY.uri)


@dataclass(frozen=True)
class Sent:
    uri: str
    is_directory: bool = False


def names(view: DirectoryView) -> list[tuple[str, bool, int | None]]:
    return [(child.name, child.is_directory, child.size) for child in view.children]


def test_the_entry_alone_says_what_a_directory_holds() -> None:
    root = listed_children(ENTRY, ROOT)
    assert [child[:2] for child in names(root)] == [
        ("LICENSE", False),
        ("SKILL.md", False),
        ("references", True),
    ]
    inner = listed_children(ENTRY, SkillUri(f"{ROOT}/references"))
    assert names(inner) == [("GUIDE.md", False, 5), ("deep", True, None)]
    assert listed_children(checked(dynamic=True), ROOT) == DirectoryView(())
    assert root.remark == ""


@pytest.mark.requirement("VER-4", "DIR-1")
def test_a_child_that_the_held_entry_does_not_list_is_not_shown_and_asks_for_a_new_approval() -> None:
    view = filter_directory(
        ENTRY,
        ROOT,
        [
            Sent(f"{ROOT}/SKILL.md"),
            Sent(f"{ROOT}/references", True),
            Sent(f"{ROOT}/new.sh"),
            Sent(f"{ROOT}/more", True),
        ],
    )
    assert [name for name, _, _ in names(view)] == ["SKILL.md", "references"]
    assert view.unlisted == (f"{ROOT}/new.sh", f"{ROOT}/more")
    assert view.rejected == ()
    assert "the skill changed" in view.remark
    assert "approve it again" in view.remark


@pytest.mark.requirement("VER-4")
def test_a_listed_file_that_the_server_no_longer_shows_is_a_change() -> None:
    shown = [Sent(f"{ROOT}/SKILL.md"), Sent(f"{ROOT}/references", True)]
    view = filter_directory(ENTRY, ROOT, shown)
    assert view.missing == (f"{ROOT}/LICENSE",)
    assert "the skill changed" in view.remark
    assert filter_directory(ENTRY, ROOT, [*shown, Sent(f"{ROOT}/LICENSE")]).remark == ""


@pytest.mark.requirement("VER-4")
def test_a_file_that_turned_into_a_directory_is_a_change() -> None:
    view = filter_directory(ENTRY, ROOT, [Sent(f"{ROOT}/LICENSE", True), Sent(f"{ROOT}/references", False)])
    assert view.children == ()
    assert len(view.unlisted) == 2


@pytest.mark.requirement("SEC-10")
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "uri",
    [
        "skill://acme/other/SKILL.md",
        "skill://evil/refunds/SKILL.md",
        "other://acme/refunds/SKILL.md",
        "skill://acme/refunds",
        "skill://acme/refunds-2/x",
        "skill://acme/refunds/../other/x",
        "skill://acme/refunds/%2e%2e/x",
        "skill://acme/refunds/references/GUIDE.md",
        "file:///etc/passwd",
        "/etc/passwd",
        "\x1b[2J",
    ],
)
def test_a_child_outside_the_directory_is_rejected(uri: str, dynamic: bool) -> None:
    view = filter_directory(checked(files=FILES, dynamic=dynamic), ROOT, [Sent(uri)])
    assert (view.children, view.unlisted) == ((), ())
    assert len(view.rejected) == 1
    assert view.rejected[0].isprintable()


@pytest.mark.requirement("SEC-10")
def test_a_directory_outside_the_skill_shows_nothing() -> None:
    elsewhere = SkillUri("skill://acme")
    for entry in (ENTRY, checked(dynamic=True)):
        view = filter_directory(entry, elsewhere, [Sent("skill://acme/x"), Sent(ROOT, True)])
        assert view.children == ()
        assert len(view.rejected) == 2


def test_a_dynamic_skill_shows_what_its_server_says() -> None:
    entry = checked(dynamic=True)
    view = filter_directory(entry, ROOT, [Sent(f"{ROOT}/b b.md"), Sent(f"{ROOT}/a", True)])
    assert names(view) == [("a", True, None), ("b b.md", False, None)]
    assert view.children[1].uri == file_uri(entry.uri, "b b.md")
    assert view.remark == ""
