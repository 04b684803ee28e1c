"""Archives: what is read is plain and within the caps, what is written is the same bytes again."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillwire.errors import FormatError, LimitExceeded
from skillwire.limits import DEFAULT_LIMITS
from skillwire.sources.archive import ArchiveFile, read_archive, safe_path, write_tar_gz

_NAME = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\:"), min_size=1, max_size=120
).filter(lambda name: name not in (".", ".."))


@settings(deadline=None)
@given(st.dictionaries(_NAME, st.tuples(st.binary(max_size=700), st.booleans()), max_size=5))
def test_an_archive_that_was_written_is_read_back(files: dict[str, tuple[bytes, bool]]) -> None:
    rows = tuple(ArchiveFile(f"in/{path}", data, mode) for path, (data, mode) in sorted(files.items()))
    written = write_tar_gz(reversed(rows))
    assert read_archive(written) == rows
    assert write_tar_gz(rows) == written


def test_an_archive_has_no_times_and_no_owners() -> None:
    written = write_tar_gz([ArchiveFile("SKILL.md", b"x"), ArchiveFile("run", b"", executable=True)])
    with tarfile.open(fileobj=io.BytesIO(written)) as tar:
        members = tar.getmembers()
    assert [(one.name, one.mode, one.mtime, one.uid, one.uname) for one in members] == [
        ("SKILL.md", 0o644, 0, 0, ""),
        ("run", 0o755, 0, 0, ""),
    ]
    # The header of gzip: no name, no time.
    assert written[3:8] == bytes(5)


def test_a_zip_is_read_with_its_modes() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("scripts")
        info = zipfile.ZipInfo("scripts/run")
        info.external_attr = 0o100755 << 16
        archive.writestr(info, b"#!")
        archive.writestr("SKILL.md", b"text")
    assert read_archive(buffer.getvalue()) == (
        ArchiveFile("SKILL.md", b"text", executable=False),
        ArchiveFile("scripts/run", b"#!", executable=True),
    )


def tar_of(*members: tarfile.TarInfo, compress: bool = True) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(bytes(member.size)))
    return gzip.compress(buffer.getvalue()) if compress else buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, size: int = 0, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info


def zip_of(name: str, mode: int = 0) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        archive.writestr(info, b"x")
    return buffer.getvalue()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(tar_of(member("../evil")), id="a path that leaves"),
        pytest.param(tar_of(member("a/../../evil")), id="a path that leaves later"),
        pytest.param(tar_of(member("/etc/evil")), id="an absolute path"),
        pytest.param(tar_of(member("C:/evil")), id="a drive"),
        pytest.param(tar_of(member("a\\evil")), id="a backslash"),
        pytest.param(tar_of(member("a\x07b")), id="a control character"),
        pytest.param(tar_of(member("link", tarfile.SYMTYPE, link="/etc")), id="a symbolic link"),
        pytest.param(tar_of(member("link", tarfile.SYMTYPE, link="SKILL.md")), id="a link inside"),
        pytest.param(tar_of(member("link", tarfile.LNKTYPE, link="SKILL.md")), id="a hard link"),
        pytest.param(tar_of(member("dev", tarfile.CHRTYPE)), id="a device"),
        pytest.param(tar_of(member("pipe", tarfile.FIFOTYPE)), id="a pipe"),
        pytest.param(tar_of(member("sparse", tarfile.GNUTYPE_SPARSE)), id="a sparse file"),
        pytest.param(tar_of(member("a"), member("a")), id="a file twice"),
        pytest.param(tar_of(member("a"), member("a/b")), id="a file below a file"),
        pytest.param(zip_of("../evil"), id="zip: a path that leaves"),
        pytest.param(zip_of("/evil"), id="zip: an absolute path"),
        pytest.param(zip_of("link", 0o120777), id="zip: a link"),
        pytest.param(b"PK\x03\x04nonsense", id="zip: damaged"),
        pytest.param(gzip.compress(b"no tar at all" * 100), id="no tar"),
        pytest.param(tar_of(member("a", size=2000))[:-30], id="cut off"),
        pytest.param(tar_of(member("a", size=2000), compress=False)[:1024], id="plain and cut off"),
        pytest.param(b"\x1f\x8bnonsense", id="damaged"),
        pytest.param(b"plain text", id="no archive"),
    ],
)
def test_an_archive_that_is_not_plain_is_refused_whole(data: bytes) -> None:
    with pytest.raises(FormatError) as caught:
        read_archive(data)
    assert caught.value.issues[0].fix
    assert str(caught.value).isprintable()


SMALL = replace(DEFAULT_LIMITS, unpacked_bytes=10_000, archive_files=5, archive_bytes=5_000)


def _zip_bomb() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(1_000_000))
    return buffer.getvalue()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: tar_of(member("a", size=11_000)), id="a large file"),
        pytest.param(lambda: tar_of(member("a", size=6_000), member("b", size=6_000)), id="together"),
        pytest.param(lambda: tar_of(*(member(f"f{n}") for n in range(6))), id="many files"),
        pytest.param(
            lambda: tar_of(*(member(f"d{n}", tarfile.DIRTYPE) for n in range(6))), id="many folders"
        ),
        pytest.param(lambda: gzip.compress(bytes(3_000_000)), id="a bomb"),
        pytest.param(_zip_bomb, id="a zip bomb"),
        pytest.param(lambda: bytes(5_001), id="a long download"),
    ],
)
def test_an_archive_that_is_too_large_is_refused_before_it_is_unpacked(make: Callable[[], bytes]) -> None:
    with pytest.raises(LimitExceeded):
        read_archive(make(), limits=SMALL)


def test_the_limits_are_those_that_the_documentation_names() -> None:
    limits = DEFAULT_LIMITS
    assert (limits.archive_bytes, limits.unpacked_bytes) == (10 * 2**20, 25 * 2**20)
    assert limits.archive_files == 1_000
    many = tar_of(*(member(f"{number}.md") for number in range(1_001)))
    with pytest.raises(LimitExceeded, match="more than 1,000 files"):
        read_archive(many)
    with pytest.raises(LimitExceeded):
        read_archive(tar_of(member("a", size=25 * 2**20 + 1)))


def test_a_leading_dot_is_no_folder() -> None:
    assert safe_path("././a/b") == "a/b"
    [file] = read_archive(tar_of(member("./SKILL.md", size=3)))
    assert file.path == "SKILL.md"
