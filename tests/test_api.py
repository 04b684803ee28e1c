"""The public API is complete: every type that a signature names is exported."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from types import ModuleType

import pytest
from tools.api import ADAPTERS, PACKAGES, exports_of, tree_of, unexported_types

import skillwire
from skillwire.lazy import export
from skillwire.version import pip_command

EXISTING = [package for package in PACKAGES if tree_of(package) is not None]


def test_every_type_in_a_public_signature_is_exported() -> None:
    assert unexported_types() == {}


@pytest.mark.parametrize("package", EXISTING)
def test_every_export_can_be_imported_and_is_listed(package: str) -> None:
    module = import_module(package)
    for name in exports_of(package):
        assert getattr(module, name, None) is not None, name
        assert name in dir(module), name
        assert name in module.__all__, name


@pytest.mark.parametrize("package", EXISTING)
def test_a_package_exports_to_type_checkers_what_it_exports_to_programs(package: str) -> None:
    exported = {name for name in getattr(import_module(package), "__all__", ()) if not name.startswith("_")}
    assert exported == set(exports_of(package))


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'skillwire' has no attribute 'Nonsense'"):
        _ = skillwire.Nonsense  # pyright: ignore[reportAttributeAccessIssue]


def test_the_version_and_the_names_are_there_without_importing_the_rest() -> None:
    assert skillwire.__version__
    assert {"SkillHost", "SkillServer", "__version__"} <= set(dir(skillwire))


@pytest.mark.process
def test_importing_the_package_imports_little() -> None:
    program = (
        "import sys, skillwire; skillwire.__version__; dir(skillwire); "
        "print(sorted(name for name in sys.modules if name.startswith('skillwire')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ast.literal_eval(done.stdout) == ["skillwire", "skillwire.lazy", "skillwire.version"]


# The import packages of every extra that no dependency of Skillwire itself brings along.
OF_EXTRAS = (
    *("agent_framework", "agents", "agno", "alembic", "claude_agent_sdk", "deepagents", "fastmcp"),
    *("google.adk", "httptools", "jinja2", "keyring", "langchain", "prompt_toolkit", "psycopg"),
    *("pydantic_ai", "rfc3161_client", "sigstore", "sqlalchemy", "uvloop"),
)
WITHOUT_EXTRAS = """
import sys
from importlib import import_module

class Absent:
    def find_spec(self, name, path=None, target=None):
        if any(name == absent or name.startswith(absent + ".") for absent in ABSENT):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
answers = {}
for module in MODULES:
    try:
        for name in getattr(import_module(module), "__all__", ()):
            getattr(sys.modules[module], name)
        answers[module] = ""
    except ModuleNotFoundError as error:
        answers[module] = str(error)
print(answers)
"""


@pytest.mark.process
def test_a_public_module_without_its_extra_says_in_one_sentence_what_to_install() -> None:
    program = f"ABSENT, MODULES = {OF_EXTRAS!r}, {(*EXISTING, *ADAPTERS)!r}\n{WITHOUT_EXTRAS}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    answers: dict[str, str] = ast.literal_eval(done.stdout)
    needed = {
        module: answer.rpartition(". To install it: ")[2] if ". To install it: " in answer else answer
        for module, answer in answers.items()
        if answer
    }
    frameworks = (
        *("agent_framework", "agno", "fastmcp", "google_adk", "langchain", "openai_agents", "pydantic_ai"),
    )
    assert needed == {
        **{f"skillwire.{name}": pip_command(name) for name in ("chat", "registry", "ui")},
        "skillwire.evals": pip_command("chat"),  # `run_scenario`; selection needs no model.
        **{f"skillwire.adapters.{name}": pip_command(name.replace("_", "-")) for name in frameworks},
    }
    assert not any("\n" in answer for answer in answers.values())


def test_a_module_of_skillwire_that_is_missing_is_no_missing_extra() -> None:
    module = ModuleType("skillwire.made_up")
    sys.modules["skillwire.made_up"] = module
    try:
        export("skillwire.made_up", {"absent": "Name"}, extra="ui")
        with pytest.raises(ModuleNotFoundError, match=r"^No module named 'skillwire\.made_up"):
            _ = module.Name
    finally:
        del sys.modules["skillwire.made_up"]
