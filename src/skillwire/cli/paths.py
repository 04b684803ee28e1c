"""`skillwire paths`: where Skillwire stores its files."""

from __future__ import annotations


def paths(*, as_json: bool) -> None:
    """Show where configuration, approvals and caches are stored."""
    from skillwire.cli.output import printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.config.file import project_file
    from skillwire.host.directories import state_places
    from skillwire.install.state import StateFiles
    from skillwire.sources.directory.scan_cache import scan_cache_directory

    places = state_places()
    named = {
        "config": places.config,
        "project": project_file(),
        "approvals": places.approvals,
        "trusted": places.trusted,
        "logins": places.logins,
        "cache": places.cache,
        "installs": StateFiles.of_user().folder,
    }
    indexes = scan_cache_directory()
    if indexes is not None:
        named["indexes"] = indexes
    if as_json:
        show_json(
            {"paths": {name: {"path": str(path), "exists": path.exists()} for name, path in named.items()}}
        )
        return
    Screen().pairs(
        (name, printable(str(path)) + ("" if path.exists() else "  (does not exist yet)"))
        for name, path in named.items()
    )
