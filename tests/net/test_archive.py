"""Archives: what is read is plain and within the caps, what is written is the same bytes again."""

from __future__ import annotations

import gzip
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillwire.errors import FormatError, LimitExceeded
from skillwire.limits import DEFAULT_LIMITS
from skillwire.net import ArchiveFile, read_archive, split_skills, write_tar_gz
from skillwire.skill import safe_path

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


def pax_of(headers: dict[str, str]) -> bytes:
    info = member("a", size=3)
    info.pax_headers = headers
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO(b"xyz"))
    return gzip.compress(buffer.getvalue())


def global_pax(size: int = 10) -> bytes:
    buffer = io.BytesIO()
    headers = {"comment": "x" * size}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=headers) as tar:
        tar.addfile(member("a"))
    return gzip.compress(buffer.getvalue())


def zip_of(
    name: str, mode: int = 0, *, method: int = zipfile.ZIP_STORED, extra: bytes = b"", system: int = 3
) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        info = zipfile.ZipInfo(name)
        info.external_attr, info.compress_type, info.extra = mode << 16, method, extra
        info.create_system = system
        archive.writestr(info, b"" if name.endswith("/") else b"x")
    return buffer.getvalue()


def parts_of(data: bytes) -> tuple[bytes, bytes]:
    """The files of a zip, and its directory."""
    start, end = data.index(b"PK\x01\x02"), data.index(b"PK\x05\x06")
    return data[:start], data[start:end]


def overlapping() -> bytes:
    """A zip whose second file lies in the content of the first one."""
    inner, inner_row = parts_of(zip_of("b"))
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a", inner)
    outer, row = parts_of(buffer.getvalue())
    rows = row + inner_row[:42] + struct.pack("<L", outer.index(inner)) + inner_row[46:]
    return outer + rows + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 2, 2, len(rows), len(outer), 0)


def encrypted() -> bytes:
    data = bytearray(zip_of("a"))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def two_checksums() -> bytes:
    """Before a file stands another checksum than in the directory: unpackers differ in what they use."""
    data = bytearray(zip_of("a"))
    data[14] ^= 1
    return bytes(data)


def damaged_header() -> bytes:
    data = bytearray(tar_of(member("a"), compress=False))
    data[100:107] = b"0000755"
    return bytes(data)


def with_gnu_times() -> bytes:
    """A header in GNU's form, with something where another form has the folder."""
    data = bytearray(tar_of(member("a"), compress=False))
    data[257:265] = b"ustar  \0"
    data[345:351] = b"folder"
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_unpacked(method: int) -> None:
    with pytest.raises(FormatError, match="compressed by something other than deflate"):
        read_archive(zip_of("a", method=method))


def test_an_archive_of_git_is_refused_with_what_to_do() -> None:
    with pytest.raises(FormatError, match="make it with tar"):
        read_archive(global_pax())


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
        pytest.param(tar_of(member("a"), member("a", tarfile.DIRTYPE)), id="a file and a folder"),
        pytest.param(tar_of(member("a"), member("a/b", tarfile.DIRTYPE)), id="a folder below a file"),
        pytest.param(tar_of(member("../evil", tarfile.DIRTYPE)), id="a folder that leaves"),
        pytest.param(tar_of(member("a", b"?")), id="an unknown kind"),
        pytest.param(tar_of(member("a"))[:-9] + b"\0" * 9, id="a wrong checksum of gzip"),
        pytest.param(tar_of(member("a")) + b"more", id="something after gzip"),
        pytest.param(tar_of(member("a")) + tar_of(member("b")), id="a second archive after gzip"),
        pytest.param(gzip.compress(tar_of(member("a"), compress=False) + b"x"), id="something after tar"),
        pytest.param(tar_of(member("a"), compress=False)[:512], id="without an end"),
        pytest.param(pax_of({"path": "../evil"}), id="pax: a path that leaves"),
        pytest.param(pax_of({"size": "9"}), id="pax: another size"),
        pytest.param(pax_of({"GNU.sparse.major": "1"}), id="pax: a sparse file"),
        pytest.param(pax_of({"hdrcharset": "BINARY"}), id="pax: another encoding"),
        pytest.param(pax_of({"comment": "x" * 70_000}), id="pax: a long header"),
        pytest.param(global_pax(), id="pax: a header for all files"),
        pytest.param(zip_of("../evil"), id="zip: a path that leaves"),
        pytest.param(zip_of("../evil/"), id="zip: a folder that leaves"),
        pytest.param(zip_of("a", method=zipfile.ZIP_BZIP2), id="zip: bz2"),
        pytest.param(zip_of("a", method=zipfile.ZIP_LZMA), id="zip: LZMA"),
        pytest.param(zip_of("a") + b"x", id="zip: something after its end"),
        pytest.param(b"PK" + zip_of("a"), id="zip: something before its start"),
        pytest.param(zip_of("a").replace(b"a", b"b", 1), id="zip: two names of a file"),
        pytest.param(zip_of("a").replace(b"xPK", b"yPK", 1), id="zip: a wrong checksum"),
        pytest.param(zip_of("a", extra=b"\x75\x70\x06\x00\x01\0\0\0\0b"), id="zip: a second name"),
        pytest.param(zip_of("\xe9").replace(b"\x00\x08", b"\0\0"), id="zip: a name that is not marked"),
        pytest.param(encrypted(), id="zip: encrypted"),
        pytest.param(pax_of({"mtime": "later"}), id="pax: a time that is no number"),
        pytest.param(zip_of("é", system=0), id="zip: a name that unzip spells differently"),
        pytest.param(two_checksums(), id="zip: two checksums of a file"),
        pytest.param(damaged_header(), id="a damaged header"),
        pytest.param(with_gnu_times(), id="a header that readers disagree on"),
        pytest.param(overlapping(), id="zip: files that overlap"),
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


def test_the_skills_of_a_tree_are_found_by_walking_up() -> None:
    files = [ArchiveFile(path, b"") for path in ("a/SKILL.md", "a/x", "a/in/SKILL.md", "a/in/y", "b/z")]
    names = {folder: [file.path for file in members] for folder, members in split_skills(files).items()}
    assert names == {"a": ["SKILL.md", "x", "in/SKILL.md", "in/y"]}
    nested = split_skills(files, nested=True)
    assert [file.path for file in nested["a/in"]] == ["SKILL.md", "y"]
    assert len(nested["a"]) == 4
    assert list(split_skills([ArchiveFile("SKILL.md", b""), ArchiveFile("d/e", b"")])) == [""]


def test_skills_inside_skills_are_split_to_a_limit() -> None:
    deep = [ArchiveFile(f"{'a/' * depth}SKILL.md", b"") for depth in range(1, 40)]
    found = split_skills(deep, nested=True)
    assert [folder.count("/") for folder in found] == [0, 1, 2, 3]


def test_fourteen_thousand_skills_are_split_in_one_pass() -> None:
    files = [ArchiveFile(f"s/{number}/{name}", b"") for number in range(14_400) for name in ("SKILL.md", "b")]
    assert len(split_skills(files, nested=True)) == 14_400
