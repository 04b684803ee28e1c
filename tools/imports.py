"""The imports between the modules of Skillwire, from their source: nothing is imported to find them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = "skillwire"
SOURCE = Path(__file__).parent.parent / "src"


@dataclass(frozen=True, slots=True)
class Import:
    """`importer` names `imported` on `line`. A module of ours is named in full, down to its file."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def read_package(source: Path = SOURCE) -> dict[str, str]:
    """Give the text of every module under `source`, by module name; a package goes by its `__init__`."""
    return {
        ".".join(file.relative_to(source).with_suffix("").parts): file.read_text("utf-8")
        for file in sorted((source / PACKAGE).rglob("*.py"))
    }


def imports_of(modules: Mapping[str, str]) -> list[Import]:
    """Find every import, wherever it stands: in functions and under TYPE_CHECKING too."""
    return [
        Import(importer, _module_of(name, modules), line)
        for importer, text in modules.items()
        for name, line in _names(importer, ast.parse(text), modules)
    ]


def _names(importer: str, tree: ast.Module, modules: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    yield alias.name, node.lineno
            case ast.ImportFrom():
                base = _absolute(importer, node)
                for alias in node.names:
                    # `from skillwire.skill import uris` names a module, `... .uris import x` a value in one.
                    name = f"{base}.{alias.name}"
                    yield (name if _module_of(name, modules) in modules else base), node.lineno
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(value=ast.Name(id="importlib"), attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name, node.lineno
            case _:
                pass


def _absolute(importer: str, node: ast.ImportFrom) -> str:
    if node.level == 0:
        return node.module or ""
    # The last part of a module's name is its file, `__init__` included: one dot takes it off.
    return ".".join([*importer.split(".")[: -node.level], *([node.module] if node.module else [])])


def _module_of(name: str, modules: Mapping[str, str]) -> str:
    return f"{name}.__init__" if f"{name}.__init__" in modules else name


def package_of(module: str) -> str:
    """The package of a module, or the name of one that is in none; `""` is Skillwire itself."""
    parts = module.split(".")
    return "" if len(parts) == 1 or parts[1] == "__init__" else parts[1]


def is_ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE


def is_inner(module: str) -> bool:
    """Whether a module of ours is inside of a package, and not its public API."""
    return module.count(".") > 1 and not module.endswith(".__init__")
