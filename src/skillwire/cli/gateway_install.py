"""`skillwire gateway install` and `uninstall`: the gateway in the configuration of a client."""

from __future__ import annotations

from skillwire.cli.output import info, printable
from skillwire.cli.parser import UsageError


def install(*, client: str, url: str | None, token_env: str | None, dry_run: bool, as_json: bool) -> None:
    """Write one entry into the configuration of a client."""
    from skillwire.cli.client_install import install_entry
    from skillwire.cli.output import write
    from skillwire.cli.screen import show_json

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
    from skillwire.cli.client_install import config_path, uninstall_entry
    from skillwire.cli.commands.gateway import CLIENTS
    from skillwire.cli.install_setup import ask_yes, can_ask, nobody_to_ask, run
    from skillwire.cli.output import write
    from skillwire.cli.screen import Screen, show_json
    from skillwire.errors import ApprovalRequired

    named = tuple(dict.fromkeys(clients)) or CLIENTS
    found = {client: uninstall_entry(client) for client in named}
    changes = [change for change in found.values() if change is not None]
    if not as_json:
        for client in clients:
            if found[client] is None:
                info(f"{printable(str(config_path(client)))} has no entry of the gateway: nothing to remove.")
        for change in changes:
            write(change.diff())
        if not changes and not clients:
            info(f"No client has an entry of the gateway ({', '.join(CLIENTS)}): nothing to remove.")
    if changes and not dry_run and not yes:
        what = "this entry" if len(changes) == 1 else "these entries"
        if not can_ask():
            raise nobody_to_ask(f"{what} would be removed")
        if not run(ask_yes(Screen(errors=True), f"Remove {what}?")):
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
    from skillwire.host.config.file import load_config

    here = [one for one in load_config(fill=False).configured if one.of_project and one.used]
    if here:
        names = ", ".join(printable(one.label) for one in here)
        info(
            f"The client starts the gateway elsewhere, so it does not see {names} of "
            f"{printable(str(here[0].file))}: `skillwire servers add NAME URL --user` adds a server for "
            "every directory."
        )
