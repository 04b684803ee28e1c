"""Write docs/reference/ from the docstrings of the public API: `python -m tools.reference`."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

from tools.api import (
    ADAPTERS,
    PACKAGES,
    Name,
    adapter_definitions,
    definition_of,
    exports_of,
    public_definitions,
    tree_of,
)

TARGET = Path(__file__).parent.parent / "docs/reference"
_WIDTH = 100


def pages() -> dict[str, str]:
    """The text of every page, by file name."""
    owners = public_definitions()
    found: dict[str, str] = {}
    rows: list[str] = []
    for package in PACKAGES:
        tree = tree_of(package)
        names = {name: home for name, home in exports_of(package).items() if _is_owner(package, home, owners)}
        if tree is None or not names:
            continue
        file = f"{package}.md"
        about = ast.get_docstring(tree) or ""
        sections = [_section(name, home) for name, home in sorted(names.items(), key=_order)]
        found[file] = "\n".join([f"# {package}", "", about, "", *sections]).rstrip() + "\n"
        rows.append(f"| [`{package}`]({file}) | {about.splitlines()[0] if about else ''} | {len(names)} |")
    found["skillwire.adapters.md"] += _adapters()
    found["README.md"] = "\n".join(
        [
            "# API reference",
            "",
            "Written by `make docs` from the docstrings. A name is described once, on the page of the first",
            "package that exports it. Modules inside these packages are internal, except for the adapters:",
            "each is a module of its own, because it imports its framework.",
            "",
            "| Package | What it has | Names |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )
    return found


def _adapters() -> str:
    """The modules of `skillwire.adapters`, and what each defines."""
    lines = ["", "How to use them: [Agent frameworks](../frameworks.md).", ""]
    for module in ADAPTERS:
        lines += [f"## {module}", "", ast.get_docstring(tree_of(module) or ast.Module([], [])) or "", ""]
        for name in adapter_definitions():
            if name.module == module:
                lines.append(_section(name.name, name).replace("## ", "### "))
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    written = pages()
    for file in TARGET.glob("*.md"):
        if file.name not in written:
            file.unlink()
    for name, text in written.items():
        (TARGET / name).write_text(text, "utf-8")


def _is_owner(package: str, home: Name, owners: dict[Name, str]) -> bool:
    defined = definition_of(home)
    return defined is not None and owners.get(defined[0]) == package


def _order(item: tuple[str, Name]) -> tuple[int, str]:
    """Classes first, then functions, then values; each by name."""
    defined = definition_of(item[1])
    kinds = (ast.ClassDef, ast.FunctionDef | ast.AsyncFunctionDef)
    place = next((at for at, kind in enumerate(kinds) if defined and isinstance(defined[1], kind)), 2)
    return place, item[0].lower()


def _section(name: str, home: Name) -> str:
    defined = definition_of(home)
    assert defined is not None
    where, node = defined
    lines = [f"## {name}", ""]
    match node:
        case ast.ClassDef():
            lines += [*_class(node), ""]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            lines += [*_code(_signature(node)), "", ast.get_docstring(node) or "", ""]
        case _:
            lines += [*_code(ast.unparse(node)), "", _text_after(where, node), ""]
    return "\n".join(lines)


def _class(node: ast.ClassDef) -> list[str]:
    bases = [ast.unparse(base) for base in node.bases if not ast.unparse(base).startswith("_")]
    lines = [*_code(_head(node.name, bases)), "", ast.get_docstring(node) or ""]
    methods = [child for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)]
    for method in methods:
        if method.name == "__init__":
            lines += ["", *_code(_signature(method, name=node.name, skip_self=True))]
    fields = _fields(node)
    if fields:
        lines += ["", "| Field | Type | Meaning |", "|---|---|---|", *fields]
    for method in methods:
        if method.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator) for decorator in method.decorator_list}
        if "overload" in decorators or any(one.endswith(".setter") for one in decorators):
            continue
        if "property" in decorators:
            shown = f"{method.name}: {ast.unparse(method.returns) if method.returns else 'object'}"
        else:
            shown = _signature(method, skip_self="staticmethod" not in decorators)
        lines += [
            "",
            f"### {node.name}.{method.name}",
            "",
            *_code(shown),
            "",
            ast.get_docstring(method) or "",
        ]
    return lines


def _head(name: str, bases: list[str]) -> str:
    return f"class {name}({', '.join(bases)})" if bases else f"class {name}"


def _fields(node: ast.ClassDef) -> list[str]:
    rows: list[str] = []
    for at, child in enumerate(node.body):
        if isinstance(child, ast.AnnAssign):
            name, kind = ast.unparse(child.target), ast.unparse(child.annotation)
            default = (
                ""
                if child.value is None or "field(" in ast.unparse(child.value)
                else ast.unparse(child.value)
            )
        elif isinstance(child, ast.Assign) and len(child.targets) == 1:
            name, kind, default = ast.unparse(child.targets[0]), "", ast.unparse(child.value)
        else:
            continue
        if name.startswith("_"):
            continue
        after = node.body[at + 1] if at + 1 < len(node.body) else None
        meaning = _string(after) or ""
        shown = f"{kind} = {default}" if kind and default else kind or default
        rows.append(f"| `{name}` | `{_cell(shown)}` | {_cell(' '.join(meaning.split()))} |")
    return rows


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _string(node: ast.stmt | None) -> str | None:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return inspect.cleandoc(text)
        case _:
            return None


def _text_after(where: Name, node: ast.stmt) -> str:
    body = (tree_of(where.module) or ast.Module([], [])).body
    at = body.index(node)
    return (_string(body[at + 1]) if at + 1 < len(body) else None) or ""


def _signature(
    node: ast.FunctionDef | ast.AsyncFunctionDef, *, name: str = "", skip_self: bool = False
) -> str:
    arguments = node.args
    if skip_self:
        arguments = ast.arguments(
            arguments.posonlyargs[1:] if arguments.posonlyargs else [],
            arguments.args if arguments.posonlyargs else arguments.args[1:],
            arguments.vararg,
            arguments.kwonlyargs,
            arguments.kw_defaults,
            arguments.kwarg,
            arguments.defaults,
        )
    start = "" if name else "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    end = f" -> {ast.unparse(node.returns)}" if node.returns and not name else ""
    parts = ast.unparse(arguments)
    line = f"{start}{name or node.name}({parts}){end}"
    if len(line) <= _WIDTH:
        return line
    return _long(f"{start}{name or node.name}", parts, end)


def _long(start: str, parts: str, end: str) -> str:
    inner = ",\n    ".join(_split(parts))
    return f"{start}(\n    {inner},\n){end}"


def _split(parts: str) -> list[str]:
    """A list of parameters at its outermost commas."""
    found, depth, last = list[str](), 0, 0
    for at, char in enumerate(parts):
        depth += (char in "([{") - (char in ")]}")
        if char == "," and not depth:
            found.append(parts[last:at].strip())
            last = at + 1
    return [*found, parts[last:].strip()]


def _code(text: str) -> list[str]:
    return ["```text", text, "```"]


if __name__ == "__main__":
    main()
