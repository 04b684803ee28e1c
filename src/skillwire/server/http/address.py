"""Address: where to listen."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from skillwire.errors import SourceError
from skillwire.issues import shown


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def shown_host(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host


def parse_address(text: str) -> Address:
    """An address from `8000`, `:8000`, `host:8000` or `[::1]:8000`, or a `SourceError`."""
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else ""
    if not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise SourceError(f"{shown(text)!r} is not an address; write HOST:PORT, such as 127.0.0.1:8000")
    return Address(host or "127.0.0.1", int(port))
