"""The version, as a constant: asking the installed package for it takes longer than many an answer."""

VERSION = "0.1.0"


def pip_command(extra: str = "") -> str:
    """The command that installs Skillwire, with the packages of an extra. It is on no package index yet."""
    name = f"skillwire[{extra}]" if extra else "skillwire"
    return f"pip install '{name} @ git+https://github.com/skillwire/skillwire'"
