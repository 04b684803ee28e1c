"""`skillwire gateway callers`, `add-caller` and `remove-caller`: who may use a gateway."""

from __future__ import annotations

from pathlib import Path

from skillwire.cli.output import info, printable, write
from skillwire.cli.parser import UsageError
from skillwire.cli.screen import Screen, show_json
from skillwire.gateway.callers import new_token, parse_callers, read_caller_file, with_caller, without_caller
from skillwire.host.config.edit import write_config


def list_callers(*, tokens: Path | None, as_json: bool) -> None:
    """Who may use a gateway, and what each may see."""
    path = _file(tokens)
    callers = sorted(parse_callers(read_caller_file(path), str(path)).values(), key=lambda one: one.name)
    if as_json:
        rows = [
            {
                "name": caller.name,
                "labels": None if caller.labels is None else sorted(caller.labels),
                "include": list(caller.include),
                "exclude": list(caller.exclude),
                "credentials": sorted(caller.credentials),
            }
            for caller in callers
        ]
        show_json({"callers": rows})
        return
    screen = Screen()
    for caller in callers:
        screen.line((printable(caller.name), "bold"))
        screen.pairs(
            [
                ("servers", "all" if caller.labels is None else printable(", ".join(sorted(caller.labels)))),
                ("include", printable(", ".join(caller.include))),
                ("exclude", printable(", ".join(caller.exclude))),
                ("credentials", printable(", ".join(sorted(caller.credentials)))),
            ]
        )
    if not callers:
        screen.line("There are no callers.")


def add_caller(
    *,
    name: str,
    tokens: Path | None,
    label: tuple[str, ...],
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    replace: bool,
    as_json: bool,
) -> None:
    """Add a caller to a file, and print their token once."""
    path = _file(tokens)
    token = new_token()
    text = with_caller(
        _text(path), name, token, labels=label, include=include, exclude=exclude, replace=replace
    )
    write_config(path, text)
    if as_json:
        show_json({"caller": name, "token": token, "file": str(path)})
        return
    info(f"Added {printable(name)} to {printable(str(path))}. This token is not shown again:")
    write(token)


def remove_caller(*, name: str, tokens: Path | None, as_json: bool) -> None:
    """Revoke a caller."""
    path = _file(tokens)
    write_config(path, without_caller(_text(path), name))
    if as_json:
        show_json({"removed": name, "file": str(path)})
    else:
        info(f"{printable(name)} can no longer use the gateway.")


def _file(tokens: Path | None) -> Path:
    if tokens is None:
        raise UsageError("--tokens is missing: write --tokens FILE, as for `skillwire gateway`")
    return tokens


def _text(path: Path) -> str:
    return read_caller_file(path) if path.exists() else ""
