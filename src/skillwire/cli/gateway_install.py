"""`skillwire gateway install` and `uninstall`: one entry in the configuration of a client. The rest stays.

The file is edited as text, so comments and layout stay. What is about to be written is parsed and compared:
it must be the previous content with the entry added or removed, or nothing is written.
"""

from __future__ import annotations

import difflib
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from skillwire.cli.output import info, printable
from skillwire.clients import (
    BaseDirectories,
    Client,
    ClientConfig,
    ClientServer,
    render_entry,
    writable_clients,
)
from skillwire.clients.edit import (
    ENTRY,
    with_json,
    with_toml,
    with_yaml,
    without_json,
    without_toml,
    without_yaml,
)
from skillwire.errors import SourceError, UsageError
from skillwire.files import make_folder, write_atomic
from skillwire.host import ClientFile, client_files

_EDITS: Final[dict[str, Callable[[str, str], str]]] = {".toml": with_toml, ".yaml": with_yaml}
_REMOVALS: Final[dict[str, Callable[[str, str], tuple[str, str]]]] = {
    ".toml": without_toml,
    ".yaml": without_yaml,
}
"""Which edits a file needs, by its suffix; otherwise those of JSON."""


def install(*, client: str, url: str | None, token_env: str | None, dry_run: bool, as_json: bool) -> None:
    """Write one entry into the configuration of a client."""
    from skillwire.cli.output import show_json, write

    if token_env and not url:
        raise UsageError("--token-env needs --url: a gateway that the client starts has no token")
    if url and not url.startswith(("http://", "https://")):
        raise UsageError(
            "--url is not an http:// or https:// URL: give the URL of the gateway's MCP endpoint"
        )
    change = install_entry(client, url=url or "", token_variable=token_env or "")
    if not dry_run:
        change.apply()
    if as_json:
        show_json(change.as_json() | {"written": not dry_run})
        return
    if change.is_nothing:
        info(f"{printable(str(change.path))} has this entry already.")
    else:
        write(change.diff())
        if dry_run:
            info(f"Nothing was written. Without --dry-run, this goes into {printable(str(change.path))}")
        else:
            backup = f"; the previous file is {printable(str(change.backup))}" if change.backup else ""
            info(f"Wrote {printable(str(change.path))}{backup}. {change.next_step}")
    if not url:
        _warn_of_project_servers()


def uninstall(*, clients: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove the entry that `install` wrote, from the clients that are named or from all that have it."""
    from skillwire.cli.host_options import person_screen
    from skillwire.cli.install_setup import ask_yes, can_ask, nobody_to_ask, run
    from skillwire.cli.output import show_json, write
    from skillwire.errors import ApprovalRequired

    named = tuple(dict.fromkeys(clients)) or tuple(writable_clients())
    found = {client: uninstall_entry(client) for client in named}
    changes = [change for change in found.values() if change is not None]
    if not as_json:
        for client in clients:
            if found[client] is None:
                info(f"{printable(str(config_path(client)))} has no entry of the gateway: nothing to remove.")
        for change in changes:
            write(change.diff())
        if not changes and not clients:
            info(
                f"No client has an entry of the gateway ({', '.join(writable_clients())}): nothing to remove."
            )
    if changes and not dry_run and not yes:
        what = "this entry" if len(changes) == 1 else "these entries"
        if not can_ask():
            raise nobody_to_ask(f"{what} would be removed")
        if not run(ask_yes(person_screen(), f"Remove {what}?")):
            raise ApprovalRequired("nothing was removed", reason="denied", origin="", uri="")
    if not dry_run:
        for change in changes:
            change.apply()
    if as_json:
        show_json({"removed": [change.as_json() for change in changes], "written": not dry_run})
    elif changes and dry_run:
        info("Nothing was written. Without --dry-run, this is removed.")
    elif changes:
        for change in changes:
            info(
                f"Removed the entry from {printable(str(change.path))}; the previous file is "
                f"{printable(str(change.backup))}. {change.next_step}"
            )


def _warn_of_project_servers() -> None:
    """A client starts the gateway in another directory, where the file of this project is not read."""
    from skillwire.host import load_config

    here = [one for one in load_config(fill=False).configured if one.of_project and one.used]
    if here:
        names = ", ".join(printable(one.label) for one in here)
        info(
            f"The client starts the gateway elsewhere, so it does not see {names} of "
            f"{printable(str(here[0].file))}: `skillwire servers add NAME URL --user` adds a server for "
            "every directory."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A change to a client's file, not written yet."""

    client: str
    path: Path
    before: str | None
    """The text of the file; `None` if there is none yet."""
    after: str
    next_step: str
    removed: str = ""
    """The text of the entry that is removed; empty if one is added."""

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after

    @property
    def backup(self) -> Path | None:
        """Where the previous file is saved."""
        return None if self.before is None else self.path.with_name(f"{self.path.name}.before-skillwire")

    def diff(self) -> str:
        """The lines that change, without those around them: other entries may have secrets."""
        if self.removed:
            lines = (f"-{line}" for line in self.removed.splitlines())
            return "\n".join([f"--- {self.path}", f"+++ {self.path}", *lines])
        before, after = self.before or "", self.after
        if "\n" not in before.strip():
            # The whole file is one line: show what is put into it.
            start = _shared_start(before, after)
            end = _shared_start(before[start:][::-1], after[start:][::-1])
            before, after = before[start : len(before) - end], after[start : len(after) - end]
        name = str(self.path)
        lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, n=0, lineterm="")
        return "\n".join(lines)

    def apply(self) -> None:
        """Save the previous file beside it, and write the new text in one step."""
        if self.is_nothing:
            return
        path = self.path.resolve()
        try:
            make_folder(path.parent)
            mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
            if self.before is not None and self.backup is not None:
                write_atomic(self.backup, self.before.encode("utf-8"), mode=mode)
            write_atomic(path, self.after.encode("utf-8"), mode=mode)
        except OSError as error:
            raise SourceError(f"{self.path} cannot be written: {error.strerror}") from None

    def as_json(self) -> dict[str, object]:
        backup = str(self.backup) if self.backup and not self.is_nothing else None
        return {"client": self.client, "file": str(self.path), "backup": backup, "diff": self.diff()}


def _shared_start(one: str, other: str) -> int:
    """How many characters both texts start with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def install_entry(client: str, *, url: str = "", token_variable: str = "") -> ConfigChange:
    """The change that makes a client use the gateway: one that it starts, or one at a URL."""
    known, config, file = _client(client)
    before = _read(file.path)
    server = ClientServer(
        name=ENTRY, command=() if url else _command(), url=url, token_variable=token_variable
    )
    return ConfigChange(
        client=client,
        path=file.path,
        before=before,
        after=_with_line_endings(before or "", lambda text: edited(known, file, text, server)),
        next_step=config.next_step,
    )


def uninstall_entry(client: str) -> ConfigChange | None:
    """The change that removes what `install_entry` wrote; `None` if the client has no such entry."""
    known, config, file = _client(client)
    before = _read(file.path)
    if before is None or not before.strip():
        return None
    key = config.key
    removed = ""

    def edit(text: str) -> str:
        nonlocal removed
        after, removed = _REMOVALS.get(file.path.suffix, without_json)(text, key)
        return after

    try:
        values = file.parse(before)
        entry = _table(_table(values).get(key)).get(ENTRY)
        if entry is None:
            return None
        if not _is_gateway(_table(entry)):
            raise SourceError(
                f"the entry {ENTRY} in {file.path} is not a gateway, so `gateway install` did not write it: "
                "remove it by hand if you do not need it"
            )
        after = _with_line_endings(before, edit)
        rest = file.parse(after)
        is_right = _without(rest) == _without(values) and ENTRY not in _table(_table(rest).get(key))
    except ValueError as error:
        raise SourceError(f"{file.path} cannot be edited: {error}; nothing was changed") from None
    if not is_right:
        raise SourceError(
            f"{file.path} has a layout that cannot be edited: remove the entry {ENTRY} under {key} by hand"
        )
    return ConfigChange(
        client=client,
        path=file.path,
        before=before,
        after=after,
        next_step=f"Restart {known.name} to stop using the gateway.",
        removed=removed,
    )


def config_path(client: str) -> Path:
    """The file that the entry of a client is in, whether or not it exists."""
    return _client(client)[2].path


def _client(id_: str) -> tuple[Client, ClientConfig, ClientFile]:
    """A client, and the file of the user to edit: the first of its kind that exists, or else the first."""
    client = writable_clients()[id_]
    config = client.config
    assert config is not None  # noqa: S101 - a client without one is not writable
    of_user = [
        one
        for one in client_files(BaseDirectories.here())
        if one.client == client.name and not one.of_project
    ]
    same = [one for one in of_user if one.read is of_user[0].read]
    return client, config, next((one for one in same if one.path.exists()), same[0])


def _read(path: Path) -> str | None:
    """The text of a file with its own line endings; `None` if there is no file."""
    try:
        return path.read_bytes().decode("utf-8") if path.exists() else None
    except (OSError, UnicodeError) as error:
        raise SourceError(f"{path} cannot be read: {error}") from None


def _with_line_endings(text: str, edit: Callable[[str], str]) -> str:
    """An edited text with the line endings that it had."""
    if "\r\n" not in text or text.count("\n") != text.count("\r\n"):
        return edit(text)
    return edit(text.replace("\r\n", "\n")).replace("\n", "\r\n")


def _is_gateway(entry: dict[str, Any]) -> bool:
    """Whether an entry starts a gateway, or reaches a server at a URL."""
    words: list[object] = []
    for key in ("command", "cmd", "args"):
        value = entry.get(key)
        words += cast("list[object]", value) if isinstance(value, list) else [value]
    return (
        "gateway" in words
        or "mcp-remote" in words
        or bool({"url", "httpUrl", "serverUrl", "uri"} & entry.keys())
    )


def _command() -> tuple[str, ...]:
    """The gateway as a client starts it: from anywhere, and without the PATH of this shell."""
    program = shutil.which("skillwire")
    return (*((program,) if program else (sys.executable, "-m", "skillwire")), "gateway")


def edited(client: Client, file: ClientFile, text: str, server: ClientServer) -> str:
    """The text of a client's file with the entry, or a `SourceError` if its layout cannot be edited."""
    snippet = render_entry(client, server)
    key = client.config.key if client.config else ""
    try:
        before = file.parse(text) if text.strip() else None
        after = _EDITS.get(file.path.suffix, with_json)(text, snippet)
        values = file.parse(after)
        is_right = _without(values) == _without(before) and ENTRY in _table(_table(values).get(key))
    except ValueError as error:
        raise SourceError(f"{file.path} cannot be edited: {error}; nothing was changed") from None
    if not is_right:
        raise SourceError(f"{file.path} has a layout that cannot be edited; add this by hand:\n{snippet}")
    return after


def _table(values: object) -> dict[str, Any]:
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {}


def _without(values: object) -> dict[str, Any]:
    """Return the values of a file without our entry."""
    rest = dict(_table(values))
    for key, value in rest.items():
        if isinstance(value, dict):
            rest[key] = {name: one for name, one in cast("dict[str, Any]", value).items() if name != ENTRY}
    return {key: value for key, value in rest.items() if value != {}}
