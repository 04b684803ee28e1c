"""The public API, read from the source: what each package exports, and which types its signatures name."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"
PACKAGES = (
    "skillwire",
    "skillwire.server",
    "skillwire.access",
    "skillwire.consent",
    "skillwire.host",
    "skillwire.sources",
    "skillwire.sandbox",
    "skillwire.chat",
    "skillwire.evals",
    "skillwire.install",
    "skillwire.gateway",
    "skillwire.adapters",
    "skillwire.ui",
    "skillwire.registry",
    "skillwire.conformance",
    "skillwire.clients",
    "skillwire.trust",
    "skillwire.catalog",
    "skillwire.wire",
    "skillwire.skill",
)
"""Every public package; everything else is internal, except for `ADAPTERS`."""
ADAPTERS = tuple(
    f"skillwire.adapters.{file.stem}"
    for file in sorted((SOURCE / "skillwire/adapters").glob("*.py"))
    if file.stem not in ("__init__", "calls")
)
"""The public modules: each imports a package that most users do not have, so no package exports its names."""


@dataclass(frozen=True, slots=True)
class Name:
    """Something that a module defines."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@cache
def tree_of(module: str) -> ast.Module | None:
    """The syntax tree of a module of ours, or `None`."""
    path = SOURCE.joinpath(*module.split("."))
    for file in (path.with_suffix(".py"), path / "__init__.py"):
        if file.is_file():
            return ast.parse(file.read_text("utf-8"))
    return None


@cache
def imports_of(module: str) -> dict[str, Name]:
    """The names that a module imports from ours, under `TYPE_CHECKING` and in functions too."""
    found: dict[str, Name] = {}
    for node in ast.walk(tree_of(module) or ast.Module([], [])):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("skillwire"):
            for alias in node.names:
                found[alias.asname or alias.name] = Name(node.module or "", alias.name)
    return found


@cache
def definition_of(name: Name) -> tuple[Name, ast.stmt] | None:
    """Where a name is defined, followed through imports."""
    for node in (tree_of(name.module) or ast.Module([], [])).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef() if node.name == name.name:
                return name, node
            case ast.Assign(targets=[ast.Name(id=target)]) if target == name.name:
                return name, node
            case ast.AnnAssign(target=ast.Name(id=target)) if target == name.name:
                return name, node
            case _:
                pass
    imported = imports_of(name.module).get(name.name)
    return definition_of(imported) if imported and imported != name else None


def exports_of(package: str) -> dict[str, Name]:
    """What a package exports, by the name that it has there."""
    if tree_of(package) is None:
        return {}
    return {
        name: home
        for name, home in imports_of(package).items()
        if not name.startswith("_") and home.module not in ("skillwire.lazy", "skillwire.version")
    }


def public_definitions() -> dict[Name, str]:
    """Every definition that a public package exports, with the first package that does."""
    found: dict[Name, str] = {}
    for package in PACKAGES:
        for name in exports_of(package).values():
            defined = definition_of(name)
            if defined is not None:
                found.setdefault(defined[0], package)
    return found | dict.fromkeys(adapter_definitions(), "skillwire.adapters")


def adapter_definitions() -> list[Name]:
    """What the public modules of `skillwire.adapters` define."""
    return [
        Name(module, node.name)
        for module in ADAPTERS
        for node in (tree_of(module) or ast.Module([], [])).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
    ]


def types_in(name: Name, node: ast.stmt) -> set[Name]:
    """The definitions of ours that the signature of a public definition names."""
    found: set[Name] = set()
    for expression in _annotations(node):
        for part in ast.walk(expression):
            text = part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else None
            if text is not None and _is_expression(text):
                found |= {
                    used
                    for inner in ast.walk(ast.parse(text, mode="eval"))
                    if isinstance(inner, ast.Name) and (used := _resolve(name.module, inner.id))
                }
            elif isinstance(part, ast.Name) and (used := _resolve(name.module, part.id)):
                found.add(used)
    return found - {name}


def _resolve(module: str, name: str) -> Name | None:
    defined = definition_of(Name(module, name))
    return defined[0] if defined and not isinstance(defined[1], ast.FunctionDef) else None


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _annotations(node: ast.stmt) -> list[ast.expr]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            arguments += [extra for extra in (node.args.vararg, node.args.kwarg) if extra]
            found = [argument.annotation for argument in arguments if argument.annotation]
            return [*found, *([node.returns] if node.returns else [])]
        case ast.ClassDef():
            inner = [
                child
                for child in node.body
                if not getattr(child, "name", "").startswith("_") or getattr(child, "name", "") == "__init__"
            ]
            fields = [child for child in inner if isinstance(child, ast.AnnAssign)]
            public = [child for child in fields if not ast.unparse(child.target).startswith("_")]
            methods = [child for child in inner if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)]
            return [
                *(base for base in node.bases if not ast.unparse(base).startswith("_")),
                *(child.annotation for child in public),
                *(annotation for method in methods for annotation in _annotations(method)),
            ]
        case ast.Assign() if isinstance(node.value, ast.BinOp | ast.Subscript):
            return [node.value]  # an alias of types
        case ast.AnnAssign():
            is_alias = ast.unparse(node.annotation).endswith("TypeAlias")
            return [node.value if is_alias and node.value else node.annotation]
        case _:
            return []


def unexported_types() -> dict[str, str]:
    """The types in public signatures that no public package exports, each with a place that names it."""
    public = public_definitions()
    missing: dict[str, str] = {}
    for name in public:
        defined = definition_of(name)
        for used in types_in(name, defined[1]) if defined else ():
            if used not in public:
                missing.setdefault(str(used), str(name))
    return missing
