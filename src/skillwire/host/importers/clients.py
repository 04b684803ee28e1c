"""Where each client keeps its servers, and the reader for each file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, TypeAlias

from skillwire.host.importers import readers
from skillwire.host.importers.base import ClientFile, Reader, Surroundings

_Row: TypeAlias = tuple[str, Reader, Iterable[Path]]
_OPENCODE: Final = ("opencode.json", "opencode.jsonc")


def client_files(around: Surroundings) -> list[ClientFile]:
    """Every file to look at, the user's first, so that a project cannot take the name of a user's server."""
    known: dict[Path, ClientFile] = {}
    for of_project, rows in ((False, _of_user(around)), (True, _of_project(around.project))):
        for client, read, paths in rows:
            for path in paths:
                known.setdefault(path, ClientFile(client=client, path=path, read=read, of_project=of_project))
    return list(known.values())


def _of_user(around: Surroundings) -> Iterator[_Row]:
    home, config, windows = around.home, around.config, around.platform == "win32"
    claude = around.directory("CLAUDE_CONFIG_DIR", home)
    yield "Claude Code", readers.read_claude_user, [claude / ".claude.json"]
    claude = around.directory("CLAUDE_CONFIG_DIR", home / ".claude")
    yield "Claude Code", readers.read_claude_settings, [claude / "settings.json"]
    yield "Claude Desktop", readers.read_claude_desktop, [config / "Claude/claude_desktop_config.json"]
    yield "Cursor", readers.read_cursor, [home / ".cursor/mcp.json"]
    editions = [config / edition / "User" for edition in ("Code", "Code - Insiders")]
    yield "VS Code", readers.read_vscode, [folder / "mcp.json" for folder in editions]
    yield "VS Code", readers.read_vscode_settings, [folder / "settings.json" for folder in editions]
    codex = around.directory("CODEX_HOME", home / ".codex")
    yield "Codex", readers.read_codex, [codex / "config.toml"]
    yield "Gemini CLI", readers.read_gemini, [home / ".gemini/settings.json"]
    goose = config / "Block/goose/config" if windows else around.xdg / "goose"
    yield "Goose", readers.read_goose, [goose / "config.yaml"]
    windsurf = [home / ".codeium" / folder for folder in ("windsurf", "windsurf-next")]
    yield "Windsurf", readers.read_cursor, [folder / "mcp_config.json" for folder in windsurf]
    zed = config / "Zed" if windows else around.xdg / "zed"
    yield "Zed", readers.read_zed, [zed / "settings.json"]
    copilot = around.directory("COPILOT_HOME", home / ".copilot")
    yield "Copilot CLI", readers.read_copilot, [copilot / "mcp-config.json"]
    settings = [copilot / file for file in ("config.json", "settings.json")]
    yield "Copilot CLI", readers.read_copilot_settings, settings
    opencode = [around.xdg / "opencode" / file for file in ("config.json", *_OPENCODE)]
    if named := around.environment.get("OPENCODE_CONFIG"):
        opencode.append(Path(named))
    yield "opencode", readers.read_opencode, opencode
    wayland = [config / "wayland-core"]
    if data := around.environment.get("XDG_DATA_HOME"):
        wayland.insert(0, Path(data) / "wayland-core")
    if named := around.environment.get("WAYLAND_HOME"):
        wayland.insert(0, Path(named))
    yield "Wayland", readers.read_wayland, [folder / "config.toml" for folder in wayland]


def _of_project(project: Path) -> Iterator[_Row]:
    yield "Claude Code", readers.read_claude_project, [project / ".mcp.json"]
    settings = [project / ".claude" / file for file in ("settings.json", "settings.local.json")]
    yield "Claude Code", readers.read_claude_settings, settings
    yield "Cursor", readers.read_cursor, [project / ".cursor/mcp.json"]
    yield "VS Code", readers.read_vscode, [project / ".vscode/mcp.json"]
    yield "Codex", readers.read_codex, [project / ".codex/config.toml"]
    yield "Gemini CLI", readers.read_gemini, [project / ".gemini/settings.json"]
    yield "Zed", readers.read_zed, [project / ".zed/settings.json"]
    yield "Copilot CLI", readers.read_copilot, [project / ".github/mcp.json"]
    folders = (project, project / ".opencode")
    yield "opencode", readers.read_opencode, [folder / file for folder in folders for file in _OPENCODE]
    wayland = [project / ".wayland-core.toml", project / ".wayland-core/config.toml"]
    yield "Wayland", readers.read_wayland, wayland
