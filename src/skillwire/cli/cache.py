"""`skillwire cache`: the cache of verified files, and the scan caches of served directories."""

from __future__ import annotations

from pathlib import Path

from skillwire.errors import SkillNotFound


def list_files(*, as_json: bool) -> None:
    """List the cached files by server."""
    from skillwire.cli.output import counted, human_size, printable
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.cache import SkillCache
    from skillwire.host.directories import state_places

    files = sorted(SkillCache(state_places().cache).files(), key=lambda file: (file.origin, file.uri))
    scan_caches = {str(path): path.stat().st_size for path in _scan_caches()}
    if as_json:
        show_json(
            {
                "files": [
                    {"server": file.origin.label, "uri": file.uri, "size": file.size, "path": str(file.path)}
                    for file in files
                ],
                "scan_caches": [{"size": size, "path": path} for path, size in scan_caches.items()],
                # The name that version 0.1 used.
                "indexes": [{"size": size, "path": path} for path, size in scan_caches.items()],
            }
        )
        return
    screen = Screen()
    for label in dict.fromkeys(file.origin.label for file in files):
        of_server = [file for file in files if file.origin.label == label]
        total = human_size(sum(file.size for file in of_server))
        screen.line((label, "bold"), f"  {counted(len(of_server), 'file')}, {total}")
        for file in of_server:
            screen.line(f"  {human_size(file.size):>9}  {printable(file.uri)}")
    if scan_caches:
        total = human_size(sum(scan_caches.values()))
        screen.line(f"{counted(len(scan_caches), 'scan cache')} of served directories, {total}")
    if not files and not scan_caches:
        screen.line("The cache is empty.")


def clear(
    *,
    server: str | None,
    as_json: bool,
) -> None:
    """Remove the cached files and the scan caches. Files are fetched and verified again when needed."""
    from skillwire.cli.output import counted
    from skillwire.cli.screen import Screen, show_json
    from skillwire.host.cache import SkillCache
    from skillwire.host.directories import state_places
    from skillwire.trust.origin import Origin

    kept = SkillCache(state_places().cache)
    origins = sorted({file.origin for file in kept.files()})
    if server is not None:
        wanted = Origin.mcp(server)
        if wanted not in origins:
            known = ", ".join(origin.label for origin in origins) or "none"
            raise SkillNotFound(f"no files of a server called {server} are cached; known: {known}")
        origins = [wanted]
    removed = {origin.label: kept.remove_server(origin) for origin in origins}
    scan_caches = [] if server is not None else _scan_caches()
    for file in scan_caches:
        file.unlink(missing_ok=True)
    if as_json:
        count = len(scan_caches)
        show_json({"removed": removed, "scan_caches": count, "indexes": count})  # 0.1 called them indexes.
        return
    more = f" and {counted(len(scan_caches), 'scan cache')}" if scan_caches else ""
    Screen().line(f"Removed {counted(sum(removed.values()), 'file')}{more}.")


def path(*, as_json: bool) -> None:
    """Print the directory of the cache."""
    from skillwire.cli.output import write
    from skillwire.cli.screen import show_json
    from skillwire.host.directories import state_places

    place = str(state_places().cache)
    if as_json:
        show_json({"path": place})
    else:
        write(place)


def _scan_caches() -> list[Path]:
    """The scan caches of directories that were served."""
    from skillwire.sources.directory.scan_cache import scan_cache_directory, scan_caches_in

    folder = scan_cache_directory()
    return [] if folder is None else sorted(scan_caches_in(folder))
