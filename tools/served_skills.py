"""How many skills of real packages are served, before and after `skillwire lint --fix`?

    python -m tools.served_skills FOLDER...
    python -m tools.served_skills --npm NAME... --pypi NAME...

Counts the `SKILL.md` files below these folders, or in these packages, which are fetched without running
anything of theirs. Those with the same bytes in a directory of the same name are counted once. Each skill is
copied, and the copy repaired with `--unsafe` and `--rename-directories`. What is still not served is printed
with the reason, one line each.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from skillwire.errors import Severity
from skillwire.limits import DEFAULT_LIMITS
from skillwire.skill import SKILL_FILE, digest_of
from skillwire.sources.directory.authoring import find_fixes, lint_paths
from skillwire.sources.directory.builder import Rules
from skillwire.sources.directory.files import find_reach, parse_root
from skillwire.sources.directory.scan import scan

ROOT = Path(__file__).parents[1]
GOAL = 0.97


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--npm", nargs="*", default=[], help="packages of npm")
    parser.add_argument("--pypi", nargs="*", default=[], help="packages of PyPI")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        fetched = place / "fetched"
        for package in given.npm:
            _fetch(
                ["npm", "pack", "--ignore-scripts", "--loglevel=error", package], fetched / "npm" / package
            )
        for package in given.pypi:
            pip = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--only-binary=:all:",
                package,
            ]
            _fetch(pip, fetched / "pypi" / package)
        every = sorted({skill for folder in (*given.folders, fetched) for skill in _skills(folder)})
        if not every:
            raise SystemExit("no SKILL.md was found")
        # The first of each is counted: whether a skill is served depends on these two.
        different = {(one.name, digest_of((one / SKILL_FILE).read_bytes())): one for one in reversed(every)}
        skills = sorted(different.values())
        before = after = 0
        reasons: Counter[str] = Counter()
        for number, skill in enumerate(skills):
            copy = place / "copies" / str(number) / skill.name
            shutil.copytree(skill, copy, symlinks=True)
            before += _is_served(copy)
            for fix in find_fixes([copy], unsafe=True, rename_directories=True):
                fix.write()
            [copy] = copy.parent.iterdir()
            if _is_served(copy):
                after += 1
            else:
                reason = _reason(copy)
                reasons[reason.partition(":")[0]] += 1
                print(
                    f"{os.path.relpath(skill, fetched) if skill.is_relative_to(fetched) else skill}: {reason}"
                )
    print(
        f"{len(skills)} skills without {len(every) - len(skills)} copies: {before / len(skills):.1%} served, "
        f"{after / len(skills):.1%} after lint --fix"
    )
    if after < GOAL * len(skills):
        raise SystemExit(1)


def _fetch(command: list[str], folder: Path) -> None:
    """Fetch a package and unpack it; a package that is not there is named and left out."""
    folder.mkdir(parents=True)
    path = os.pathsep.join([str(ROOT / ".venv/bin"), os.environ.get("PATH", "")])
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True
    )
    if done.returncode != 0:
        print(f"{folder.name}: not fetched: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    for archive in [*folder.iterdir()]:
        if archive.suffix == ".tgz":
            with tarfile.open(archive) as opened:
                opened.extractall(folder, filter="data")
        elif archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as opened:
                opened.extractall(folder)


def _skills(folder: Path) -> Iterable[Path]:
    return (file.parent for file in folder.rglob(SKILL_FILE) if file.is_file())


def _is_served(folder: Path) -> bool:
    root = parse_root(folder)
    return bool(scan([root], limits=DEFAULT_LIMITS, reach=find_reach([root]), rules=Rules()).skills)


def _reason(folder: Path) -> str:
    errors = [
        str(issue) for one in lint_paths([folder]) for issue in one.issues if issue.severity is Severity.ERROR
    ]
    return errors[0] if errors else "served by no rule of lint: report this"


if __name__ == "__main__":
    main()
