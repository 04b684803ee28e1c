"""A real file system that does not tell `A` from `a`, as those of macOS and Windows: in memory, over FUSE.

    python tests/install/caseless_disk.py FOLDER

Mounts itself on the folder, prints `ready`, and serves until it is unmounted. It needs root and /dev/fuse. A
name is stored as it was given first, and found in any case and any spelling of its accents.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

_REQUEST = struct.Struct("<IIQQIIII")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_MOST = 128 * 1024
_NO_REPLACE, _EXCHANGE = 1, 2


@dataclass
class Node:
    """A file, a folder or a link."""

    number: int
    mode: int
    data: bytearray = field(default_factory=bytearray)
    names: dict[str, tuple[bytes, int]] = field(default_factory=dict[str, tuple[bytes, int]])
    """Of a folder: what is in it, by the folded name."""
    changed: int = 0


def fold(name: bytes) -> str:
    return unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape")).casefold()


class CaselessDisk:
    """The nodes, and what the kernel asks of them by number of the request."""

    def __init__(self) -> None:
        self.nodes = {1: Node(1, stat.S_IFDIR | 0o755)}
        self._next = 2
        self._clock = 1_700_000_000
        self.calls: dict[int, Callable[[Node, bytes], bytes | None]] = {
            1: self.lookup,
            2: lambda node, body: None,  # forget
            3: lambda node, body: self.attributes_out(node),
            4: self.set_attributes,
            5: lambda node, body: bytes(node.data),  # readlink
            6: self.symlink,
            9: self.mkdir,
            10: self.unlink,
            11: self.rmdir,
            12: lambda node, body: self.rename(node, body, 8),
            14: lambda node, body: struct.pack("<QII", 0, 0, 0),  # open
            15: self.read,
            16: self.write,
            17: lambda node, body: struct.pack(
                "<5Q4I24x", 10**6, 10**6, 10**6, 10**6, 10**6, 4096, 255, 4096, 0
            ),
            18: lambda node, body: b"",  # release
            20: lambda node, body: b"",  # fsync
            25: lambda node, body: b"",  # flush
            26: self.init,
            27: lambda node, body: struct.pack("<QII", 0, 0, 0),  # opendir
            28: self.readdir,
            29: lambda node, body: b"",  # releasedir
            30: lambda node, body: b"",  # fsyncdir
            35: self.create,
            42: lambda node, body: None,  # batch forget
            45: lambda node, body: self.rename(node, body, 16),
        }

    def serve(self, device: int) -> None:
        while True:
            try:
                request = os.read(device, _MOST + 4096)
            except InterruptedError:
                continue
            except OSError:
                return  # Unmounted.
            _, call, unique, number, *_ = _REQUEST.unpack_from(request)
            error, answer = 0, b""
            try:
                action = self.calls[call]
                given = action(self.nodes.get(number) or self.nodes[1], request[_REQUEST.size :])
                if given is None:
                    continue
                answer = given
            except KeyError:
                error = errno.ENOSYS
            except OSError as problem:
                error = problem.errno or errno.EIO
            os.write(device, _ANSWER.pack(_ANSWER.size + len(answer), -error, unique) + answer)

    def init(self, node: Node, body: bytes) -> bytes:
        return struct.pack("<IIIIHHIIHHI28x", 7, 31, 0, 0, 16, 12, _MOST, 1, 0, 0, 0)

    def lookup(self, node: Node, body: bytes) -> bytes:
        return self.entry_out(self.child(node, body.rstrip(b"\0")))

    def set_attributes(self, node: Node, body: bytes) -> bytes:
        valid, _, _, size = struct.unpack_from("<IIQQ", body)
        (mode,) = struct.unpack_from("<I", body, 68)
        if valid & 1:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        if valid & 8:
            node.data = node.data[:size] + bytes(max(size - len(node.data), 0))
        self.touch(node)
        return self.attributes_out(node)

    def symlink(self, node: Node, body: bytes) -> bytes:
        name, target = body.split(b"\0")[:2]
        made = self.add(node, name, stat.S_IFLNK | 0o777)
        made.data += target
        return self.entry_out(made)

    def mkdir(self, node: Node, body: bytes) -> bytes:
        mode, umask = struct.unpack_from("<II", body)
        return self.entry_out(self.add(node, body[8:].rstrip(b"\0"), stat.S_IFDIR | (mode & ~umask & 0o7777)))

    def create(self, node: Node, body: bytes) -> bytes:
        flags, mode, umask = struct.unpack_from("<III", body)
        name = body[16:].rstrip(b"\0")
        if fold(name) in node.names and not flags & os.O_EXCL:
            made = self.child(node, name)
        else:
            made = self.add(node, name, stat.S_IFREG | (mode & ~umask & 0o7777))
        return self.entry_out(made) + struct.pack("<QII", 0, 0, 0)

    def unlink(self, node: Node, body: bytes) -> bytes:
        name = body.rstrip(b"\0")
        self.child(node, name)
        del node.names[fold(name)]
        self.touch(node)
        return b""

    def rmdir(self, node: Node, body: bytes) -> bytes:
        if self.child(node, body.rstrip(b"\0")).names:
            raise OSError(errno.ENOTEMPTY, "")
        return self.unlink(node, body)

    def rename(self, node: Node, body: bytes, start: int) -> bytes:
        (into,) = struct.unpack_from("<Q", body)
        flags = struct.unpack_from("<I", body, 8)[0] if start == 16 else 0
        old, new = body[start:].split(b"\0")[:2]
        target = self.nodes[into]
        moved = self.child(node, old)
        there = target.names.get(fold(new))
        if flags & _EXCHANGE:
            if there is None:
                raise OSError(errno.ENOENT, "")
            node.names[fold(old)] = (node.names[fold(old)][0], there[1])
            target.names[fold(new)] = (there[0], moved.number)
            return b""
        if there is not None and there[1] != moved.number:
            if flags & _NO_REPLACE:
                raise OSError(errno.EEXIST, "")
            if self.nodes[there[1]].names:
                raise OSError(errno.ENOTEMPTY, "")
        del node.names[fold(old)]
        target.names[fold(new)] = (new, moved.number)
        self.touch(node)
        self.touch(target)
        return b""

    def read(self, node: Node, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        return bytes(node.data[offset : offset + size])

    def write(self, node: Node, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        data = body[40 : 40 + size]
        node.data += bytes(max(offset - len(node.data), 0))
        node.data[offset : offset + size] = data
        self.touch(node)
        return struct.pack("<II", size, 0)

    def readdir(self, node: Node, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        rows = [(b".", node.number), (b"..", 1), *node.names.values()]
        listed = b""
        for place, (name, number) in enumerate(rows[offset:], offset + 1):
            kind = stat.S_IFMT(self.nodes[number].mode) >> 12
            row = struct.pack("<QQII", number, place, len(name), kind) + name
            row += bytes(-len(row) % 8)
            if len(listed) + len(row) > size:
                break
            listed += row
        return listed

    def child(self, node: Node, name: bytes) -> Node:
        found = node.names.get(fold(name))
        if found is None:
            raise OSError(errno.ENOENT, "")
        return self.nodes[found[1]]

    def add(self, node: Node, name: bytes, mode: int) -> Node:
        if fold(name) in node.names:
            raise OSError(errno.EEXIST, "")
        made = self.nodes[self._next] = Node(self._next, mode)
        node.names[fold(name)] = (name, self._next)
        self._next += 1
        self.touch(node)
        self.touch(made)
        return made

    def touch(self, node: Node) -> None:
        self._clock += 1
        node.changed = self._clock

    def attributes(self, node: Node) -> bytes:
        size, at = len(node.data), node.changed
        links = 2 if stat.S_ISDIR(node.mode) else 1
        return _ATTRIBUTES.pack(
            node.number, size, -(-size // 512), at, at, at, 0, 0, 0, node.mode, links, 0, 0, 0, 4096, 0
        )

    def attributes_out(self, node: Node) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self.attributes(node)

    def entry_out(self, node: Node) -> bytes:
        # Nothing may be remembered by the kernel: it would remember one spelling of a name.
        return struct.pack("<QQQQII", node.number, 0, 0, 0, 0, 0) + self.attributes(node)


def main() -> None:
    folder = Path(sys.argv[1])
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other"
    library = ctypes.CDLL(None, use_errno=True)
    if library.mount(b"caseless", os.fsencode(folder), b"fuse", 0, options.encode()) != 0:
        sys.exit(f"cannot be mounted: {os.strerror(ctypes.get_errno())}")
    print("ready", flush=True)
    CaselessDisk().serve(device)


if __name__ == "__main__":
    main()
