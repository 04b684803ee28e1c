"""Check what a user would install: `python tools/check_package.py ENVIRONMENT DIST`.

ENVIRONMENT has the wheel of DIST and nothing of this checkout. Its `skillwire` must serve the sample skills
and list them again; the package must bring its types, its license and a README whose links work anywhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SKILLS = ROOT / "examples/skills"


def main(environment: Path, dist: Path) -> None:
    python, skillwire = environment / "bin/python", environment / "bin/skillwire"
    check_files(dist)
    with tempfile.TemporaryDirectory() as home:
        expected = {file.parent.name for file in SKILLS.rglob("SKILL.md")}

        def run(*words: str | Path) -> str:
            done = subprocess.run(
                list(map(str, words)),
                cwd=home,
                env={"PATH": os.environ["PATH"], "HOME": home},
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            if done.returncode:
                sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stderr}")
            return done.stdout

        version = run(skillwire, "--version").split()[-1]
        assert run(python, "-m", "skillwire", "--version").split()[-1] == version
        location = run(python, "-c", "import skillwire; print(skillwire.__file__)")
        assert str(environment) in location, f"not the installed package: {location}"
        served = f"samples={skillwire} serve {SKILLS}"
        listed = json.loads(run(skillwire, "list", "--json", "--server", served))
        names = set(re.findall(r'"name": "([^"]+)"', json.dumps(listed)))
        assert expected <= names, f"listed over stdio: {sorted(names)}, expected {sorted(expected)}"
        local = run(skillwire, "list", "--dir", str(SKILLS))
        assert all(name in local for name in expected), local
        run(skillwire, "lint", str(SKILLS))
    print(f"skillwire {version} works from its wheel: served and listed {len(expected)} skills")


def check_files(dist: Path) -> None:
    [wheel], [sdist] = dist.glob("*.whl"), dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "skillwire/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if not name.startswith(("skillwire/", "skillwire-"))], names
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    for needed in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "Makefile",
        "src/skillwire/__init__.py",
        "tests/conftest.py",
    ):
        assert needed in packed, f"{needed} is not in the source distribution"


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute(), Path(sys.argv[2]))
