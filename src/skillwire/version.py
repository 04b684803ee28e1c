"""The version, as a constant, because reading package metadata is slow."""

import sys

VERSION = "0.1.0"


def pip_command(extra: str = "") -> str:
    """The command that installs Skillwire with an extra, in a checkout of it.

    If it was installed by pipx or uv, the command uses the same tool.
    """
    return f"{_installer(sys.prefix)} '.[{extra}]'" if extra else f"{_installer(sys.prefix)} ."


def _installer(prefix: str) -> str:
    folders = prefix.replace("\\", "/").split("/")[:-1]
    if folders[-2:] == ["pipx", "venvs"]:
        return "pipx install --force"
    if folders[-2:] == ["uv", "tools"]:
        return "uv tool install --force"
    return "pip install"
