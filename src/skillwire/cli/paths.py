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
    scan_caches = scan_cache_directory()
    if scan_caches is not None:
        named["scan_caches"] = scan_caches
    if as_json:
        if scan_caches is not None:
            named["indexes"] = scan_caches  # The name that version 0.1 used.
        show_json(
            {"paths": {name: {"path": str(path), "exists": path.exists()} for name, path in named.items()}}
        )
        return
    Screen().pairs(
        (name.replace("_", " "), printable(str(path)) + ("" if path.exists() else "  (does not exist yet)"))
        for name, path in named.items()
    )
