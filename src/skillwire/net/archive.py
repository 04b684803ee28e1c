"""Archives of one skill: bounded reading, reproducible writing.

Reading never touches the file system. The formats are read here and not by `tarfile` and `zipfile`, which
build everything that an archive declares before anybody can object: a global header of tar is copied into
each member, and a zip of 748 bytes with bz2 takes a gigabyte. Only what every unpacker reads alike is
accepted: plain files and folders, stored or deflated, each name once and in UTF-8. Anything else is refused.
"""

from __future__ import annotations

import io
import re
import stat
import struct
import tarfile
import zlib
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from skillwire.errors import FormatError, LimitExceeded
from skillwire.limits import DEFAULT_LIMITS, Limits
from skillwire.skill import SKILL_FILE, check_files, folders_of, is_skill_file, safe_path
from skillwire.text import shown

_ZIP: Final = b"PK"
_GZIP: Final = b"\x1f\x8b"
# Deflate, no flags, no time, best compression, unknown system.
_GZIP_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
_CHUNK: Final = 64 * 1024
_RULE: Final = "archive"

_BLOCK: Final = 512
_MOST_HEADER: Final = 64 * 1024  # The longest pax or GNU header before a file.
_MOST_PADDING: Final = 1024 * 1024
_HARMLESS_PAX: Final = frozenset(
    {"path", "mtime", "atime", "ctime", "uid", "gid", "uname", "gname", "comment"}
)
_NUMERIC_PAX: Final = frozenset({"mtime", "atime", "ctime", "uid", "gid"})
_PAX_NUMBER: Final = re.compile(rb"-?[0-9]{1,18}(?:\.[0-9]{1,18})?")
_IGNORED_PAX: Final = ("LIBARCHIVE.", "SCHILY.", "RHT.", "APPLE.", "MSWINDOWS.")

_STORED, _DEFLATED = 0, 8
_LOCAL: Final = struct.Struct("<4s5HLLLHH")
_CENTRAL: Final = struct.Struct("<4s6H3L5H2L")
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_ENCRYPTED: Final = 0x1 | 0x40 | 0x2000
_PATCHED: Final = 0x20
_UTF8: Final = 0x800
_NEWEST_ZIP: Final = 46
_UNIX: Final = (3, 19)  # Unix and macOS.
_UNICODE_PATH: Final = 0x7075


class ArchiveFile(NamedTuple):
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
    members = _zip_members(data, budget) if data.startswith(_ZIP) else _tar_members(data, budget)
    files: list[ArchiveFile] = []
    folders: dict[str, None] = {}
    try:
        for member in members:
            if isinstance(member, ArchiveFile):
                files.append(member)
            else:
                folders[member] = None
        check_files((file.path for file in files), folders)
    except FormatError as error:
        if error.issues[0].rule == _RULE:
            raise
        raise _refused(error.issues[0].message) from None
    return tuple(sorted(files, key=lambda file: file.path))


def split_skills(
    files: Iterable[ArchiveFile], *, nested: bool = False, limits: Limits = DEFAULT_LIMITS
) -> dict[str, tuple[ArchiveFile, ...]]:
    """The files of every skill among files, by the folder that contains it, with paths relative to that.

    A skill inside another one is part of it. With `nested` it is there by itself as well (FMT-8).
    """
    listed = tuple(files)
    roots = {file.path[: -len(SKILL_FILE)].rstrip("/") for file in listed if is_skill_file(file.path)}
    skills: dict[str, list[ArchiveFile]] = {}
    most = limits.nested_skills if nested else 1
    for file in listed:
        for folder in islice(filter(roots.__contains__, folders_of(file.path)), most):
            path = file.path[len(folder) + 1 :] if folder else file.path
            skills.setdefault(folder, []).append(ArchiveFile(path, file.data, file.executable))
    return {folder: tuple(skills[folder]) for folder in sorted(skills)}


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
        tar.write(bytes(-len(file.data) % _BLOCK))
    tar.write(bytes(2 * _BLOCK))
    plain = tar.getvalue()
    # The header is built here, because Python's and zlib's differ between versions and systems.
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflate.compress(plain) + deflate.flush()
    return _GZIP_HEADER + body + struct.pack("<LL", zlib.crc32(plain), len(plain) & 0xFFFFFFFF)


class _Budget:
    """The remaining budget for unpacking, reduced before each file is unpacked."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._members = 0
        self._bytes = 0

    def member(self) -> None:
        self._members += 1
        if self._members > self.limits.archive_files:
            raise LimitExceeded(
                f"the archive has more than {self.limits.archive_files:,} files: "
                "ask for a smaller one, or raise archive_files"
            )

    def take(self, size: int) -> None:
        self._bytes += size
        if self._bytes > self.limits.unpacked_bytes:
            raise LimitExceeded(
                f"the archive unpacks to more than {self.limits.unpacked_bytes:,} bytes: "
                "ask for a smaller one, or raise unpacked_bytes"
            )


# tar


def _tar_members(data: bytes, budget: _Budget) -> Iterator[ArchiveFile | str]:
    """The files, and the paths of folders."""
    stream = _Stream(_gunzipped(data) if data.startswith(_GZIP) else _chunks(data))
    name: str | None = None  # From a header that belongs to the next file; empty if it gives no name.
    while True:
        header = stream.read(_BLOCK)
        if not header.strip(b"\0"):
            break
        kind, size = header[156:157], _number(header, 124, 12)
        _check_header(header)
        if kind in (b"x", b"L"):
            if size > _MOST_HEADER:
                raise _refused(f"a header has more than {_MOST_HEADER:,} bytes")
            if name is not None:
                raise _refused("a file has two headers")
            content = stream.read_padded(size)
            name = _pax_path(content) if kind == b"x" else _name(content.rstrip(b"\0"))
            continue
        path = name or _ustar_name(header)
        name = None
        budget.member()
        if kind == b"5" or (kind == b"\0" and path.endswith("/")):
            if size:
                raise _refused(f"the folder {shown(path)} has content")
            if folder := _folder(path, budget):
                yield folder
            continue
        if kind == b"g":
            raise _refused("it has a header for all files, as `git archive` writes: make it with tar")
        if kind not in (b"0", b"\0"):
            raise _refused(f"{shown(path)} is a link or a device")
        plain = safe_path(path, limits=budget.limits)
        budget.take(size)
        yield ArchiveFile(plain, stream.read_padded(size), bool(_number(header, 100, 8) & 0o111))
    padding = 0
    while rest := stream.read_some():
        padding += len(rest)
        if padding > _MOST_PADDING:
            raise LimitExceeded(
                f"the archive has more than {_MOST_PADDING:,} bytes after its end: pack it again"
            )
        if name is not None or rest.strip(b"\0"):
            raise _refused("something follows its end")


def _check_header(header: bytes) -> None:
    if sum(header) - sum(header[148:156]) + 8 * ord(" ") != _number(header, 148, 8):
        raise _refused("a header is damaged")
    # Only ustar has a prefix there. Readers disagree on anything else.
    if header[257:263] != b"ustar\0" and header[345:500].strip(b"\0"):
        raise _refused("a header is not ustar")


def _number(header: bytes, start: int, length: int) -> int:
    """An octal number. Other notations are for sizes beyond all limits."""
    field = header[start : start + length].rstrip(b" \0").lstrip(b" ")
    if field.strip(b"01234567"):
        raise _refused("it cannot be unpacked: a header is damaged")
    return int(field or b"0", 8)


def _ustar_name(header: bytes) -> str:
    name, prefix = (field.partition(b"\0")[0] for field in (header[:100], header[345:500]))
    return _name(prefix + b"/" + name if prefix else name)


def _pax_path(content: bytes) -> str:
    """The path in a pax header, empty if it has none. A key that changes what follows is refused."""
    path = ""
    at = 0
    while at < len(content):
        digits, space, _ = content[at : at + 20].partition(b" ")
        if not space or not digits.isdigit() or len(digits) > 6:
            raise _refused("a header is damaged")
        end = at + int(digits)
        record = content[at + len(digits) + 1 : end]
        key, equals, value = record.partition(b"=")
        if end > len(content) or not equals or not value.endswith(b"\n"):
            raise _refused("a header is damaged")
        word = _name(key)
        if word == "path":
            path = _name(value[:-1])
        elif word in _NUMERIC_PAX and not _PAX_NUMBER.fullmatch(value[:-1]):
            raise _refused(f"a header has a {word} that is not a number")
        elif word not in _HARMLESS_PAX and not word.startswith(_IGNORED_PAX):
            raise _refused(f"a header has the field {shown(word, 40)}, which is not read here")
        at = end
    return path


def _name(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused("a name is not UTF-8") from None


def _folder(path: str, budget: _Budget) -> str:
    """The path of a folder, empty for the archive's own."""
    plain = path.rstrip("/")
    return "" if plain in ("", ".") and not path.startswith("/") else safe_path(plain, limits=budget.limits)


class _Stream:
    """Exact reads from chunks, so that an unpacked archive is never in memory as a whole."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read_some(self) -> bytes:
        """The next bytes; empty at the end."""
        rest, self._rest = self._rest or next(self._chunks, b""), b""
        return rest

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes."""
        parts: list[bytes] = []
        missing = size
        while missing:
            chunk = self.read_some()
            if not chunk:
                raise _refused("it cannot be unpacked: it is cut off")
            part, self._rest = chunk[:missing], chunk[missing:]
            parts.append(part)
            missing -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read_padded(self, size: int) -> bytes:
        """The content of a member, and the rest of its last block."""
        content = self.read(size)
        self.read(-size % _BLOCK)
        return content


def _chunks(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK))


def _gunzipped(data: bytes) -> Generator[bytes]:
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    at = 0
    piece = b""
    while not unpacker.eof:
        if not piece:
            piece = data[at : at + _CHUNK]
            at += len(piece)
        try:
            chunk = unpacker.decompress(piece, _CHUNK)
        except zlib.error as error:
            raise _refused(f"it cannot be unpacked: {shown(str(error), 200)}") from None
        if not chunk and not piece:
            raise _refused("it cannot be unpacked: it is cut off")
        piece = unpacker.unconsumed_tail
        if chunk:
            yield chunk
    if unpacker.unused_data.strip(b"\0") or data[at:].strip(b"\0"):
        raise _refused("something follows its end")


# zip


@dataclass(frozen=True, slots=True)
class _ZipRow:
    """A file of a zip, as its directory describes it."""

    name: bytes
    flags: int
    method: int
    checksum: int
    packed: int
    size: int
    mode: int
    start: int


def _zip_members(data: bytes, budget: _Budget) -> Iterator[ArchiveFile | str]:
    """The files, and the paths of folders."""
    end = 0
    rows, directory = _zip_rows(data, budget)
    for row in sorted(rows, key=lambda row: row.start):
        if row.start < end:
            raise _refused("its files overlap")
        begin = _content_start(data, row)
        end = begin + row.packed
        if end > directory:
            raise _refused("it cannot be unpacked: it is cut off")
        path = _name(row.name)
        if path.endswith("/") or stat.S_ISDIR(row.mode):
            if row.size or not path.endswith("/"):
                raise _refused(f"the folder {shown(path)} has content")
            if folder := _folder(path, budget):
                yield folder
            continue
        if stat.S_IFMT(row.mode) not in (0, stat.S_IFREG):
            raise _refused(f"{shown(path)} is a link or a device")
        plain = safe_path(path, limits=budget.limits)
        budget.take(row.size)
        content = _inflated(data[begin:end], row) if row.method == _DEFLATED else data[begin:end]
        if len(content) != row.size or zlib.crc32(content) != row.checksum:
            raise _refused(f"{shown(path)} is damaged")
        yield ArchiveFile(plain, content, bool(row.mode & 0o111))


def _zip_rows(data: bytes, budget: _Budget) -> tuple[list[_ZipRow], int]:
    """The rows of the directory at the end of a zip, and where it starts."""
    place = data.rfind(_END_MARK, max(0, len(data) - _END.size - 0xFFFF))
    if place < 0 or len(data) < place + _END.size:
        raise _refused("it cannot be unpacked: it is cut off")
    _, disk, first, here, count, size, start, comment = _END.unpack_from(data, place)
    if disk or first or here != count or 0xFFFF in (here, count) or start + size != place:
        raise _refused("it cannot be unpacked: it has several parts, or something before its start")
    if place + _END.size + comment != len(data):
        raise _refused("something follows its end")
    rows: list[_ZipRow] = []
    at = start
    for _ in range(count):
        budget.member()
        if at + _CENTRAL.size > place:
            raise _refused("its directory is damaged")
        fields = _CENTRAL.unpack_from(data, at)
        mark, made_by, needed, flags, method, _, _, checksum, packed, unpacked, n, extra, note = fields[:13]
        part, _, mode, offset = fields[13:]
        name_end = at + _CENTRAL.size + n
        name = data[at + _CENTRAL.size : name_end]
        if mark != b"PK\x01\x02" or part or len(name) != n or name_end + extra + note > place:
            raise _refused("its directory is damaged")
        if not name.isascii() and made_by >> 8 not in _UNIX:
            # `unzip` takes them for an older encoding, marked or not.
            raise _refused("a name is not ASCII in a zip of another system than Unix")
        _check_zip_row(name, flags, method, data[name_end : name_end + extra])
        if needed > _NEWEST_ZIP:
            raise _refused("it is of a newer format")
        rows.append(_ZipRow(name, flags, method, checksum, packed, unpacked, mode >> 16, offset))
        at = name_end + extra + note
    if at != place:
        raise _refused("its directory is damaged")
    return rows, start


def _check_zip_row(name: bytes, flags: int, method: int, extra: bytes) -> None:
    if flags & _ENCRYPTED:
        raise _refused("it is encrypted")
    if flags & _PATCHED or method not in (_STORED, _DEFLATED):
        raise _refused("a file is compressed by something other than deflate")
    if not flags & _UTF8 and not name.isascii():
        raise _refused("a name is not marked as UTF-8")
    if b"\0" in name:
        raise _refused("a name has a zero byte")
    while len(extra) >= 4:
        kind, size = struct.unpack_from("<HH", extra)
        # Unpackers use this name instead of the other one, after five bytes of version and checksum.
        if kind == _UNICODE_PATH and extra[4 : 4 + size][5:] != name:
            raise _refused("a file has two names")
        extra = extra[4 + size :]


def _content_start(data: bytes, row: _ZipRow) -> int:
    """Where the content of a file starts, behind a header that says the same as the directory."""
    if row.start + _LOCAL.size > len(data):
        raise _refused("it cannot be unpacked: it is cut off")
    mark, _, flags, method, _, _, checksum, packed, size, n, extra = _LOCAL.unpack_from(data, row.start)
    name_start = row.start + _LOCAL.size
    is_later = bool(flags & 0x8)  # The sizes are then behind the content, and zero here.
    if (
        mark != b"PK\x03\x04"
        or data[name_start : name_start + n] != row.name
        or method != row.method
        or (flags ^ row.flags) & (_ENCRYPTED | _UTF8)
        or (checksum, packed, size)
        not in ((row.checksum, row.packed, row.size), *(((0, 0, 0),) if is_later else ()))
    ):
        raise _refused("its directory does not match its files")
    _check_zip_row(row.name, flags, method, data[name_start + n : name_start + n + extra])
    return name_start + n + extra


def _inflated(packed: bytes, row: _ZipRow) -> bytes:
    unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        content = unpacker.decompress(packed, row.size + 1)
    except zlib.error as error:
        raise _refused(f"it cannot be unpacked: {shown(str(error), 200)}") from None
    if not unpacker.eof or unpacker.unused_data:
        raise _refused(f"{shown(_name(row.name))} is damaged")
    return content


def _refused(message: str) -> FormatError:
    return FormatError.of(
        rule=_RULE,
        message=f"the archive is not used: {message}",
        fix="ask its publisher for one with plain files",
    )
