"""The public API is complete: every type that a signature names is exported."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module

import pytest
from tools.api import PACKAGES, exports_of, tree_of, unexported_types

import skillwire

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
