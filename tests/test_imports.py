"""Imports point one way, and only the modules that use the MCP SDK import it."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter

import pytest
from tools.imports import PACKAGE, Import, imports_of, is_ours, package_of, read_package

# A package may import itself and every package of a lower layer. Server, host and conformance share a layer,
# so they never import each other.
LAYERS: Mapping[str, int] = {
    "errors": 0,
    "limits": 0,
    "version": 0,
    "text": 0,
    "documents": 0,
    "files": 0,
    "lazy": 0,
    "words": 0,
    "reports": 0,
    "telemetry": 0,
    "skill": 1,
    "trust": 2,
    "catalog": 3,
    "wire": 4,
    "net": 5,
    "clients": 5,
    "consent": 6,
    "access": 6,
    "sources": 7,
    "sandbox": 8,
    "server": 9,
    "host": 9,
    "conformance": 9,
    "install": 10,
    "gateway": 11,
    "adapters": 11,
    "ui": 11,
    "registry": 12,
    "": 12,  # the package itself: public names, no logic
    "chat": 13,
    "evals": 14,
    "cli": 15,
    "__main__": 16,
    "pytest_plugin": 16,
}
LEAVES = {name for name, layer in LAYERS.items() if layer == 0}

SDK = {"mcp", "mcp_types"}
USES_SDK = (
    "skillwire.lazy",  # the one lock around the first import
    "skillwire.sources.mcp",
    "skillwire.server",
    "skillwire.host.connection",
    "skillwire.host.transports",
    "skillwire.host.sdk",
    "skillwire.host.http_client",
    "skillwire.host.login_flow",
    "skillwire.gateway",
    "skillwire.adapters.fastmcp",
)


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
    # Leaves may import each other; a cycle among them is found separately.
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
    modules = read_package()
    assert "skillwire.skill.entries" in modules
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
            package(cli__serve="import skillwire.skill.paths", skill__paths=""), id="down several layers"
        ),
        pytest.param(package(skill__names="from skillwire.errors import E", errors=""), id="a leaf"),
        pytest.param(package(errors="from skillwire.limits import L", limits=""), id="a leaf from a leaf"),
        pytest.param(package(skill__entries="from . import uris", skill__uris=""), id="the same package"),
        pytest.param(package(sources__mcp="import mcp.client"), id="a source that speaks MCP"),
        pytest.param(package(server__app="from mcp_types import Result"), id="a server that speaks MCP"),
        pytest.param(package(host__connection="import mcp"), id="a connection that speaks MCP"),
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
            package(skill__paths="from skillwire.wire.v1 import w", wire__v1=""),
            "skillwire.skill.paths:1 imports skillwire.wire.v1, which is not below it",
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
        "skillwire.skill.entries": "from skillwire.skill import N",
    }
    assert problems_of(modules) == []
    modules["skillwire.skill.names"] = "from skillwire.skill import other"
    assert len(problems_of(modules)) == 1
