"""`skillwire serve --share`: a folder of skills for colleagues, with a token, and what they have to do."""

from __future__ import annotations

import os
import socket
import struct
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from skillwire.cli.commands.publish import TOKEN_VARIABLE
from skillwire.cli.output import info, printable, write

_NAME: Final = "skills"
_SIOCGIFCONF: Final = 0x8912
"""Asks Linux for the addresses of all interfaces."""
_ENTRY_BYTES: Final = 40
_MOST_INTERFACES: Final = 256


@dataclass(frozen=True, slots=True)
class Share:
    """An address that skills are served at. `token` is empty if the user's own tokens are used."""

    hosts: tuple[str, ...]
    """The names and addresses that requests may use; the first is shown."""
    token: str
    token_file: Path | None
    url: str | None

    def show(self, count: str, url: str) -> None:
        """Print what colleagues have to do, what is open to whom, and how to end it."""
        from skillwire.clients import ClientServer, shown_entry, writable_clients

        parts = urlsplit(url)
        reached = self.url or f"{parts.scheme}://{self.hosts[0]}:{parts.port}{parts.path}"
        server = ClientServer(name=_NAME, url=reached, token_variable=TOKEN_VARIABLE)
        lines = ["For your colleagues. Put the token into the environment first:", ""]
        lines += [f"    export {TOKEN_VARIABLE}='{self.token or 'THE TOKEN YOU GAVE THEM'}'", ""]
        lines += ["With Skillwire:", ""]
        lines += [f"    skillwire servers add {_NAME} {reached} --token-env {TOKEN_VARIABLE}"]
        lines += [f"    skillwire add {_NAME}", ""]
        for client in writable_clients().values():
            place = client.config.place if client.config is not None else ""
            lines += [f"{client.name}: {place}", ""]
            lines += [f"    {line}" for line in shown_entry(client, server).splitlines()]
            lines.append("")
        write("\n".join(lines).rstrip())
        info(
            f"Everybody who reaches {printable(reached)} and has the token can read {count}; nobody can "
            "write."
        )
        info("Press Ctrl-C to stop serving.")
        if self.token_file is not None:
            file = printable(str(self.token_file))
            info(f"To revoke the token, remove it from {file}: it is refused at once.")
        else:
            info(f"To revoke the token, stop, and start again with another {TOKEN_VARIABLE}.")


def prepare_share(
    http: str,
    allow_host: tuple[str, ...],
    *,
    url: str | None,
    token_file: Path | None,
    is_https: bool,
    yes: bool,
) -> Share:
    """Make a token if there is none, find the address that others reach, and ask before a token is sent in
    the clear."""
    from skillwire.server import parse_address

    address = parse_address(http)
    hosts = [*allow_host] or [address.shown_host]
    if address.host in ("0.0.0.0", "::") and not allow_host:  # noqa: S104 - compared
        hosts = _own_hosts()
    if url is not None and (host := urlsplit(url).hostname):
        hosts.insert(0, host)
    if not (is_https or (url or "").startswith("https://") or address.is_loopback):
        _ask(yes=yes)
    token = ""
    if token_file is None and TOKEN_VARIABLE not in os.environ:
        token_file, token = _shared_token()
    return Share(tuple(dict.fromkeys(hosts)), token, token_file, url)


def _ask(*, yes: bool) -> None:
    from skillwire.cli.host_options import person_screen
    from skillwire.cli.install_setup import ask_yes, can_ask, nobody_to_ask, run
    from skillwire.errors import ApprovalRequired

    info("Without --cert and --key, whoever is on the way can read the token and the skills.")
    if yes:
        return
    if not can_ask():
        raise nobody_to_ask("the token would be sent in the clear")
    if not run(ask_yes(person_screen(), "Serve without https?")):
        raise ApprovalRequired("nothing was served", reason="denied", origin="", uri="")


def _own_hosts() -> list[str]:
    """The addresses of this machine, that of its default route first, and its name. Nothing is sent to find
    them."""
    name = socket.gethostname()
    found: list[str] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with suppress(OSError):
            probe.connect(("192.0.2.1", 9))
            found.append(str(probe.getsockname()[0]))
        found += _interface_addresses(probe)
    with suppress(OSError):
        found += [str(place[0]) for *_, place in socket.getaddrinfo(name, None, socket.AF_INET)]
    return [*dict.fromkeys(host for host in found if not host.startswith("127.")), name]


def _interface_addresses(any_socket: socket.socket) -> list[str]:
    """The IPv4 addresses of all interfaces, which Linux tells; elsewhere none."""
    if sys.platform != "linux":
        return []
    import array
    import fcntl

    entries = array.array("B", bytes(_MOST_INTERFACES * _ENTRY_BYTES))
    place, size = entries.buffer_info()
    with suppress(OSError):
        answer = fcntl.ioctl(any_socket, _SIOCGIFCONF, struct.pack("iL", size, place))
        size = struct.unpack("iL", answer)[0]
        # A name of 16 bytes, then an address: its family, a port, and four bytes.
        starts = range(0, size, _ENTRY_BYTES)
        return [socket.inet_ntoa(entries[start + 20 : start + 24].tobytes()) for start in starts]
    return []


def _shared_token() -> tuple[Path, str]:
    """The file with the token of `--share`, and the token: the one that was made before, or a new one."""
    from skillwire.access import new_token
    from skillwire.files import make_folder, write_atomic
    from skillwire.host import state_paths

    file = state_paths().trusted.parent / "share-tokens"
    try:
        words = file.read_text("utf-8").split()
    except OSError:
        words = []
    if len(words) == 2 and words[0] == "share":
        return file, words[1]
    token = new_token()
    make_folder(file.parent)
    write_atomic(file, f"share {token}\n".encode(), mode=0o600)
    return file, token
