"""The version, as a constant: asking the installed package for it takes longer than many an answer."""

import sys

VERSION = "0.1.0"


def pip_command(extra: str = "") -> str:
    """The command that installs Skillwire here, with the packages of an extra. It is on no package index yet.

    What pipx or uv installed for the user alone is installed by them again, since pip would not reach it.
    """
    name = f"skillwire[{extra}]" if extra else "skillwire"
    return f"{_installer(sys.prefix)} '{name} @ git+https://github.com/skillwire/skillwire'"


def _installer(prefix: str) -> str:
    folders = prefix.replace("\\", "/").split("/")[:-1]
    if folders[-2:] == ["pipx", "venvs"]:
        return "pipx install --force"
    if folders[-2:] == ["uv", "tools"]:
        return "uv tool install --force"
    return "pip install"
