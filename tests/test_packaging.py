"""What the package declares is what it needs."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


# The packages of agent frameworks are installed apart: what each of their modules comes from.
FRAMEWORKS = {
    "agent_framework": "agent-framework-core",
    "agents": "openai-agents",
    "fastmcp": "fastmcp",
    "google": "google-adk",
    "langchain_core": "langchain",
    "langgraph": "langchain",
    "opentelemetry": "opentelemetry-api",
}


def _normalized(requirement: str) -> str:
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def _imported() -> dict[str, str]:
    """The top-level packages that the source imports, wherever the import stands, each with a file."""
    found: dict[str, str] = {}
    for file in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names = [node.module]
            for name in names:
                found.setdefault(name.partition(".")[0], str(file.relative_to(ROOT)))
    return found


def test_every_imported_package_is_declared() -> None:
    extras = PROJECT["project"].get("optional-dependencies", {})
    requirements = [
        *PROJECT["project"]["dependencies"],
        *(item for extra in extras.values() for item in extra),
    ]
    declared = set(map(_normalized, requirements))
    distributions = _distributions()
    undeclared = {
        module: file
        for module, file in _imported().items()
        if module != "skillwire"
        and module not in sys.stdlib_module_names
        and not {
            _normalized(name)
            for name in (*distributions.get(module, [module]), FRAMEWORKS.get(module, module))
        }
        & declared
    }
    assert undeclared == {}


def test_every_declared_package_is_imported() -> None:
    distributions = _distributions()
    imported = {_normalized(name) for module in _imported() for name in distributions.get(module, [module])}
    assert {_normalized(item) for item in PROJECT["project"]["dependencies"]} <= imported


def test_every_package_that_make_installs_is_pinned_with_its_hashes() -> None:
    files = [*ROOT.glob("requirements/*.txt"), *ROOT.glob("tests/environments/*.txt")]
    entries = {file: file.read_text("utf-8").replace("\\\n", " ").splitlines() for file in files}
    loose = [
        f"{file.name}: {entry}"
        for file, lines in entries.items()
        for entry in lines
        if not re.fullmatch(r"[\w.-]+==\S+( ; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+", entry)
    ]
    assert loose == []
    pinned = {_normalized(entry) for entry in entries[ROOT / "requirements/dev.txt"]}
    groups = PROJECT["dependency-groups"]
    named = [item for group in groups.values() for item in group if isinstance(item, str)]
    assert {_normalized(item) for item in [*PROJECT["project"]["dependencies"], *named]} <= pinned


def test_every_list_of_packages_pins_the_same_versions() -> None:
    development = set((ROOT / "requirements/dev.txt").read_text("utf-8").splitlines())
    for name in ("unit", "user"):
        assert set((ROOT / f"requirements/{name}.txt").read_text("utf-8").splitlines()) <= development


def test_development_tools_are_no_extra() -> None:
    assert "dev" not in PROJECT["project"].get("optional-dependencies", {})
