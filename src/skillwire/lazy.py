"""Imports on first use, so that a program only imports what it needs: of public names, and of the MCP SDK.

An import that fails because an extra is not installed says which one, and how to install it.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from importlib import import_module

from skillwire.version import pip_command

_sdk = threading.Lock()


def import_sdk() -> None:
    """Import the MCP SDK. Its modules import each other in a circle, so two threads must not begin at once:
    one of them would find a module that is not complete.
    """
    with _sdk:
        import_module("mcp")


def missing_package(error: ModuleNotFoundError, extra: str) -> ModuleNotFoundError:
    """The error to raise when a package of an extra is not installed: it says how to install it."""
    return ModuleNotFoundError(f"{error.msg}. To install it: {pip_command(extra)}", name=error.name)


def export(package: str, names: Mapping[str, str], *, extra: str = "") -> None:
    """Make `package` export names. `names` maps each of its modules to the names, in one string.

    `extra` is the one that its modules need, if Skillwire alone is not enough.
    The package repeats them as imports under `TYPE_CHECKING`, for type checkers; a test compares the two.
    """
    homes = {name: f"{package}.{module}" for module, line in names.items() for name in line.split()}
    module = sys.modules[package]

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            home = import_module(homes[name])
        except ModuleNotFoundError as error:
            if not extra or (error.name or "").startswith("skillwire") or pip_command(extra) in error.msg:
                raise
            raise missing_package(error, extra) from None
        value = getattr(home, name)
        setattr(module, name, value)
        return value

    def names_of() -> list[str]:
        return sorted({*vars(module), *homes})

    vars(module).update(__getattr__=get, __dir__=names_of, __all__=sorted(homes))
