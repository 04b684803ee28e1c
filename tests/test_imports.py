"""Imports point one way, and only the modules that use the MCP SDK import it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = "skillwire"
SOURCE = Path(__file__).parent.parent / "src"

# A package may import itself and every package of a lower layer. Server, host and conformance share a layer,
# so they never import each other.
LAYERS: Mapping[str, int] = {
    "errors": 0,
    "issues": 0,
    "limits": 0,
    "version": 0,
    "text": 0,
    "json_types": 0,
    "files": 0,
    "lazy": 0,
    "words": 0,
    "telemetry": 0,
    "collector": 0,
    "skill": 1,
    "trust": 2,
    "catalog": 3,
    "wire": 4,
    "sources": 5,
    "server": 6,
    "host": 6,
    "conformance": 6,
    "install": 7,
    "gateway": 8,
    "adapters": 8,
    "ui": 8,
    "registry": 9,
    "": 9,  # the package itself: public names, no logic
    "cli": 10,
    "__main__": 11,
    "pytest_plugin": 11,
}
LEAVES = {name for name, layer in LAYERS.items() if layer == 0}

SDK = {"mcp", "mcp_types"}
USES_SDK = (
    "skillwire.sources.mcp",
    "skillwire.server",
    "skillwire.host.sessions",
    "skillwire.host.subscriptions",
    "skillwire.host.transports",
    "skillwire.host.sdk",
    "skillwire.host.http.direct",
    "skillwire.host.login.flow",
    "skillwire.gateway",
    "skillwire.adapters.fastmcp",
)


@dataclass(frozen=True, slots=True)
class Import:
    """`importer` names `imported` on `line`. A module of ours is named in full, down to its file."""

    importer: str
    imported: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.imported}"


def read_package(source: Path) -> dict[str, str]:
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
    parts = module.split(".")
    return "" if len(parts) == 1 or parts[1] == "__init__" else parts[1]


def is_ours(module: str) -> bool:
    return module.split(".")[0] == PACKAGE


def problems_of(modules: Mapping[str, str]) -> list[str]:
    """What is wrong with the imports of a package."""
    imports = imports_of(modules)
    return [
        *(
            f"{module} is in no package that has a layer"
            for module in modules
            if package_of(module) not in LAYERS
        ),
        *(
            f"{found}, which is not below it"
            for found in imports
            if is_ours(found.imported) and not _downward(found)
        ),
        *(f"{found}, which is not for this package" for found in imports if _misuses_sdk(found)),
        *_cycle(modules, imports),
    ]


def _downward(found: Import) -> bool:
    importer, imported = package_of(found.importer), package_of(found.imported)
    if importer not in LAYERS or imported not in LAYERS:
        return False
    # Leaves are single files and may import each other; a cycle among them is found separately.
    same = importer == imported or {importer, imported} <= LEAVES
    return same or LAYERS[imported] < LAYERS[importer]


def _misuses_sdk(found: Import) -> bool:
    allowed = any(found.importer == name or found.importer.startswith(f"{name}.") for name in USES_SDK)
    return found.imported.split(".")[0] in SDK and not allowed


def _cycle(modules: Mapping[str, str], imports: list[Import]) -> list[str]:
    graph: dict[str, set[str]] = {module: set() for module in modules}
    for found in imports:
        if found.imported in modules:
            graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["a cycle: " + " → ".join(reversed(error.args[1]))]
    return []


def test_imports_of_skillwire_point_one_way() -> None:
    modules = read_package(SOURCE)
    assert "skillwire.skill.uris" in modules
    assert problems_of(modules) == []


def package(**files: str) -> dict[str, str]:
    """A made-up package: `sources__mcp="import mcp"` is the module `skillwire.sources.mcp`."""
    return {f"{PACKAGE}.{name.replace('__', '.')}": text for name, text in files.items()}


INIT = "skillwire.skill.__init__"


@pytest.mark.parametrize(
    "modules",
    [
        pytest.param(package(cli__serve="from skillwire.server.app import run", server__app=""), id="down"),
        pytest.param(
            package(cli__serve="import skillwire.skill.uris", skill__uris=""), id="down several layers"
        ),
        pytest.param(package(skill__names="from skillwire.errors import E", errors=""), id="a leaf"),
        pytest.param(package(errors="from skillwire.issues import I", issues=""), id="a leaf from a leaf"),
        pytest.param(package(skill__entries="from . import uris", skill__uris=""), id="the same package"),
        pytest.param(package(sources__mcp="import mcp.client"), id="a source that speaks MCP"),
        pytest.param(package(server__app="from mcp_types import Result"), id="a server that speaks MCP"),
        pytest.param(package(host__sessions="import mcp"), id="a connection that speaks MCP"),
        pytest.param(package(skill__names="import mcpx"), id="a package that only looks like the SDK"),
        pytest.param({INIT: "from .names import N", "skillwire.skill.names": ""}, id="a package's own names"),
    ],
)
def test_an_import_that_points_down_is_allowed(modules: dict[str, str]) -> None:
    assert problems_of(modules) == []


@pytest.mark.parametrize(
    ("modules", "fault"),
    [
        pytest.param(
            package(skill__uris="from skillwire.wire.v1 import w", wire__v1=""),
            "skillwire.skill.uris:1 imports skillwire.wire.v1, which is not below it",
            id="up",
        ),
        pytest.param(
            package(server__app="from skillwire.host import host", host__host=""),
            "skillwire.server.app:1 imports skillwire.host.host, which is not below it",
            id="server and host",
        ),
        pytest.param(
            package(errors="import skillwire.skill.names", skill__names=""),
            "skillwire.errors:1 imports skillwire.skill.names, which is not below it",
            id="a leaf that imports a package",
        ),
        pytest.param(
            package(trust__verify="def f():\n    from ..catalog import render", catalog__render=""),
            "skillwire.trust.verify:2 imports skillwire.catalog.render, which is not below it",
            id="up, relative, in a function",
        ),
        pytest.param(
            package(trust__verify="if TYPE_CHECKING:\n    from skillwire.host.host import H", host__host=""),
            "skillwire.trust.verify:2 imports skillwire.host.host, which is not below it",
            id="up, for types alone",
        ),
        pytest.param(
            package(wire__v1="import importlib\nimportlib.import_module('skillwire.cli')", cli__main=""),
            "skillwire.wire.v1:2 imports skillwire.cli, which is not below it",
            id="up, by name",
        ),
        pytest.param(
            {"skillwire.__init__": "", "skillwire.skill.names": "from skillwire import scan"},
            "skillwire.skill.names:1 imports skillwire.__init__, which is not below it",
            id="the package's public names",
        ),
        pytest.param(
            package(utils__strings=""),
            "skillwire.utils.strings is in no package that has a layer",
            id="no package",
        ),
        pytest.param(
            package(wire__v1="from mcp_types import Result"),
            "skillwire.wire.v1:1 imports mcp_types, which is not for this package",
            id="the SDK in a pure package",
        ),
        pytest.param(
            package(sources__mcp_cache="import mcp"),
            "skillwire.sources.mcp_cache:1 imports mcp, which is not for this package",
            id="the SDK in a file of nearly the right name",
        ),
        pytest.param(
            package(host__host="def f():\n    import mcp.client.session"),
            "skillwire.host.host:2 imports mcp.client.session, which is not for this package",
            id="the SDK in a function",
        ),
    ],
)
def test_an_import_that_points_up_is_named(modules: dict[str, str], fault: str) -> None:
    assert problems_of(modules) == [fault]


def test_a_cycle_inside_one_package_is_named() -> None:
    modules = package(
        skill__a="from . import b", skill__b="def f():\n    from .c import x", skill__c="from .a import y"
    )
    [fault] = problems_of(modules)
    assert fault.startswith("a cycle: ")
    assert {"skillwire.skill.a", "skillwire.skill.b", "skillwire.skill.c"} <= set(fault[9:].split(" → "))


def test_a_package_that_imports_from_its_own_init_is_a_cycle() -> None:
    modules = {
        INIT: "from skillwire.skill.names import N",
        "skillwire.skill.names": "",
        "skillwire.skill.uris": "from skillwire.skill import N",
    }
    assert problems_of(modules) == []
    modules["skillwire.skill.names"] = "from skillwire.skill import other"
    assert len(problems_of(modules)) == 1
