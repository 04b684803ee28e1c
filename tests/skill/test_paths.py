"""Paths of a skill's files: plain ones, sets that can be files, and what is possible on every system."""

from __future__ import annotations

from dataclasses import replace

import pytest

from skillwire.errors import FormatError
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import check_files, file_conflicts, is_plain_path, safe_path
from skillwire.skill.files import check_portable


@pytest.mark.parametrize("path", ["SKILL.md", "a/b/c.md", "a b/ü.txt", ".hidden/x", "a" * 255])
def test_a_plain_path_is_itself(path: str) -> None:
    assert safe_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "/a", "a//b", "a/../b", "a/.", "a\\b", "C:/a", "C:", "a\nb", "a\x7fb", "\ud800"],
)
def test_a_path_that_could_leave_its_folder_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match="is not plain"):
        safe_path(path)
    # The drive is a matter of one system: there the installer refuses every colon.
    assert is_plain_path(path) is path.startswith("C:")


@pytest.mark.parametrize("path", ["/".join(["a" * 200] * 6), "/".join(["ü" * 100] * 6), "/".join("a" * 65)])
def test_a_path_that_is_too_long_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match="is too long"):
        safe_path(path)
    assert safe_path(path, limits=replace(DEFAULT_LIMITS, path_bytes=2_000, directory_depth=100)) == path


@pytest.mark.parametrize("path", ["a" * 256, "x/" + "ü" * 128])
def test_a_name_that_no_file_system_has_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match="is too long"):
        safe_path(path)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["SKILL.md", "SKILL.md"], "is listed twice"),
        (["SKILL.md", "SKILL.md/x"], "lies below a file"),
        (["a/b", "a/b/c/d"], "lies below a file"),
    ],
)
def test_paths_that_cannot_all_be_files_are_refused(paths: list[str], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        check_files(paths)


def test_every_conflict_is_found_once() -> None:
    paths = ["a", "b/c/d", "a/b/c", "a/b/d", "b/c/e", "a/b/c", "ab/x"]
    assert [(one.kind, one.path) for one in file_conflicts(paths)] == [
        ("twice", "a/b/c"),
        ("in-file", "a/b/c"),
        ("in-file", "a/b/d"),
    ]


def test_a_file_may_lie_below_a_folder_but_not_be_one() -> None:
    check_files(["a/b", "a-b"], ["a", "c"])
    for folder in ("a/b", "a/b/c"):
        with pytest.raises(FormatError, match="lies below a file"):
            check_files(["a/b"], [folder])


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["SKILL.md", "skill.MD"], "are the same name"),
        (["a/x", "A/y"], "are the same name"),
        (["caf\u00e9", "cafe\u0301"], "are the same name"),
        (["aux.md"], "the name of a device"),
        (["a?"], "contains"),
        (["a."], "ends with a space or a dot"),
        (["../x"], "is not plain"),
    ],
)
def test_what_is_published_must_be_possible_on_every_system(paths: list[str], reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        check_portable(paths)
