"""Archives of one skill: safe and bounded reading, reproducible writing.

Reading never touches the file system. An archive with a path that leaves it, a link, a device, a duplicate
name or a file below a file is refused, and every limit applies before memory is used.
"""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final

from skillwire.errors import FormatError, LimitExceeded
from skillwire.issues import shown
from skillwire.limits import DEFAULT_LIMITS, Limits

_ZIP: Final = b"PK"
_GZIP: Final = b"\x1f\x8b"
# Deflate, no flags, no time, best compression, unknown system.
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
_CHUNK: Final = 64 * 1024
# A header without content is 512 bytes; this many may come with the files.
_TAR_OVERHEAD: Final = 3 * 512


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """One file: its path with `/`, its bytes, and whether it is executable."""

    path: str
    data: bytes
    executable: bool = False


def archive_file(path: str, data: bytes) -> ArchiveFile:
    """A file to archive. MCP has no file modes, so a file that begins like a script is executable."""
    return ArchiveFile(path, data, data.startswith(b"#!"))


def read_archive(data: bytes, *, limits: Limits = DEFAULT_LIMITS) -> tuple[ArchiveFile, ...]:
    """The files of a `.tar.gz`, `.tar` or `.zip`, in the order of their paths.

    Raises `FormatError` for anything unsafe, `LimitExceeded` for anything too large.
    """
    if len(data) > limits.archive_bytes:
        raise LimitExceeded(
            f"the archive has {len(data):,} bytes, at most {limits.archive_bytes:,} are read: "
            "ask for a smaller one, or raise archive_bytes"
        )
    budget = _Budget(limits)
    try:
        rows = list(_zip_files(data, budget) if data.startswith(_ZIP) else _tar_files(data, budget))
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise _refused(f"it cannot be unpacked: {shown(str(error), 200)}") from None
    except (ValueError, RuntimeError, NotImplementedError, UnicodeError, OverflowError) as error:
        raise _refused(f"it cannot be unpacked: {shown(str(error), 200)}") from None
    files: dict[str, ArchiveFile] = {}
    for row in rows:
        if row.path in files:
            raise _refused(f"{shown(row.path)} is in it twice")
        files[row.path] = row
    for path in files:
        parent = path
        while "/" in parent:
            parent = parent.rpartition("/")[0]
            if parent in files:
                raise _refused(f"{shown(path)} lies below a file")
    return tuple(files[path] for path in sorted(files))


def is_archive(data: bytes) -> bool:
    """Whether bytes begin like an archive."""
    return data.startswith((_ZIP, _GZIP)) or data[257:262] == b"ustar"


def write_tar_gz(files: Iterable[ArchiveFile]) -> bytes:
    """A reproducible `.tar.gz`: sorted, without times and owners.

    Names are in the plain ustar header if they fit, which every reader supports.
    """
    tar = io.BytesIO()
    for file in sorted(files, key=lambda file: file.path):
        info = tarfile.TarInfo(safe_path(file.path))
        info.size = len(file.data)
        info.mode = 0o755 if file.executable else 0o644
        try:
            header = info.tobuf(tarfile.USTAR_FORMAT, "utf-8", "strict")
        except ValueError:
            header = info.tobuf(tarfile.PAX_FORMAT, "utf-8", "strict")
        tar.write(header)
        tar.write(file.data)
        tar.write(bytes(-len(file.data) % 512))
    tar.write(bytes(1024))
    plain = tar.getvalue()
    # The header is built here, because Python's and zlib's differ between versions and systems.
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(plain) + deflate.flush()
    return _GZIP_HEADER + body + struct.pack("<LL", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)


def safe_path(path: str) -> str:
    """The path in plain segments, or a `FormatError` if it could leave the archive."""
    while path.startswith("./"):
        path = path[2:]
    segments = path.split("/")
    if (
        any(segment in ("", ".", "..") for segment in segments)
        or "\\" in path
        or any(char < " " or char == "\x7f" or "\ud800" <= char <= "\udfff" for char in path)
        or (len(segments[0]) == 2 and segments[0][1] == ":")
    ):
        raise _refused(f"the path '{shown(path)}' is not plain")
    return path


class _Budget:
    """The remaining budget for unpacking, reduced before each file is unpacked."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._files = 0
        self._bytes = 0

    def file(self) -> None:
        self._files += 1
        if self._files > self._limits.archive_files:
            raise LimitExceeded(
                f"the archive has more than {self._limits.archive_files:,} files: "
                "ask for a smaller one, or raise archive_files"
            )

    def take(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self._limits.unpacked_bytes:
            raise LimitExceeded(
                f"the archive unpacks to more than {self._limits.unpacked_bytes:,} bytes: "
                "ask for a smaller one, or raise unpacked_bytes"
            )

    @property
    def tar_bytes(self) -> int:
        """The maximum size of a tar file with the allowed content."""
        return self._limits.unpacked_bytes + _TAR_OVERHEAD * (self._limits.archive_files + 2)


def _tar_files(data: bytes, budget: _Budget) -> Iterator[ArchiveFile]:
    plain = _gunzip(data, budget) if data.startswith(_GZIP) else data
    with tarfile.open(fileobj=io.BytesIO(plain), mode="r:") as tar:
        for member in tar:
            if member.isdir():
                budget.file()
                continue
            if not member.isreg() or member.issparse():
                raise _refused(f"{shown(member.name)} is a link or a device")
            budget.file()
            budget.take(member.size)
            stream = tar.extractfile(member)
            content = b"" if stream is None else stream.read(member.size)
            if len(content) != member.size:
                raise _refused(f"{shown(member.name)} is cut off")
            yield ArchiveFile(safe_path(member.name), content, bool(member.mode & 0o111))


def _gunzip(data: bytes, budget: _Budget) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        plain = stream.read(budget.tar_bytes + 1)
    if len(plain) > budget.tar_bytes:
        budget.take(len(plain))
        raise LimitExceeded("the archive unpacks to more than is allowed: ask for a smaller one")
    return plain


def _zip_files(data: bytes, budget: _Budget) -> Iterator[ArchiveFile]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for info in archive.infolist():
            budget.file()
            mode = info.external_attr >> 16
            if info.is_dir():
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise _refused(f"{shown(info.filename)} is a link or a device")
            if info.flag_bits & 0x1:
                raise _refused("it is encrypted")
            # On Windows, `filename` has backslashes replaced by slashes; the original name counts.
            path = safe_path(info.orig_filename)
            with archive.open(info) as stream:
                yield ArchiveFile(path, _read(stream, budget), bool(mode & 0o111))


def _read(stream: IO[bytes], budget: _Budget) -> bytes:
    """Read everything, counting bytes as they arrive, because the size in a zip's directory may be wrong."""
    chunks: list[bytes] = []
    while chunk := stream.read(_CHUNK):
        budget.take(len(chunk))
        chunks.append(chunk)
    return b"".join(chunks)


def _refused(message: str) -> FormatError:
    return FormatError.of(
        rule="archive",
        message=f"the archive is not used: {message}",
        fix="ask its publisher for one with plain files",
    )
