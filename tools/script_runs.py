"""Do scripts of skills run in the sandbox as they do without it?

    python -m tools.script_runs FOLDER...

Runs every `*.py` and `*.sh` in the `scripts` folders of the skills below these folders with `--help`: once
bare, as a process of this user, and once in the sandbox, with the same interpreter and no grants. Prints what
differs in exit code or output, and how many of those that run bare also run inside. Scripts of strangers run
bare: use it on skills that you would run, or in a machine of its own.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from skillwire.errors import SkillwireError
from skillwire.limits import Limits
from skillwire.sandbox import SandboxPlan, run
from skillwire.sandbox.bubblewrap import find_program, system_folders
from skillwire.sandbox.plan import interpreter_for
from skillwire.skill import SkillEntry, SkillResource, digest_of, parse_uri
from skillwire.skill.entries import child_uri, skill_root
from skillwire.trust import Origin, VerifiedFile, check_entry, verify_file

SECONDS = 30
URI = "skill://compared/skill/SKILL.md"


@dataclass(frozen=True)
class Run:
    """How one script ended, and what it said, without the place that it ran in."""

    code: int
    said: str


@dataclass(frozen=True)
class Comparison:
    skill: Path
    script: str
    bare: Run
    inside: Run

    @property
    def runs_bare(self) -> bool:
        return self.bare.code == 0

    @property
    def is_same(self) -> bool:
        return self.bare == self.inside


def scripts_of(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every script of every skill below a folder."""
    for file in sorted(folder.rglob("SKILL.md")):
        for script in sorted([*file.parent.glob("scripts/**/*.py"), *file.parent.glob("scripts/**/*.sh")]):
            if script.is_file() and not script.name.startswith("__"):
                yield file.parent, str(script.relative_to(file.parent))


def verified(skill: Path) -> list[VerifiedFile]:
    """The files of a skill as the sandbox takes them."""
    contents: dict[str, bytes] = {}
    for path in sorted(skill.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 4 * 1024 * 1024:
            contents[str(path.relative_to(skill))] = path.read_bytes()
    uri = parse_uri(URI)
    uris = {}
    for name in contents:
        uris[name] = skill_root(uri)
        for part in name.split("/"):
            uris[name] = child_uri(uris[name], part)
    resources = tuple(
        SkillResource(uris[name], digest_of(data), len(data)) for name, data in contents.items()
    )
    limits = Limits(files_per_skill=100_000, bytes_per_skill=1 << 30)
    entry = check_entry(SkillEntry(uri, {"name": "skill", "description": "x"}, resources), limits=limits)
    origin = Origin.mcp("compared")
    return [verify_file(entry, uris[name], data, origin, limits=limits) for name, data in contents.items()]


def compare(skill: Path, script: str) -> Comparison | str:
    """One script run both ways, or why it cannot be."""
    try:
        files = verified(skill)
        data = (skill / script).read_bytes()
        name, *options = interpreter_for(script, data)
        program, trees = find_program(name)
        if not program:
            return f"{name} is not installed"
        plan = SandboxPlan(
            script=script,
            interpreter=(program, *options),
            arguments=("--help",),
            system=system_folders(),
            trees=trees,
            limits=Limits(script_seconds=SECONDS),
        )
        return Comparison(skill, script, _bare(skill, script, plan), _inside(plan, files))
    except (SkillwireError, OSError) as error:
        return str(error)


def _bare(skill: Path, script: str, plan: SandboxPlan) -> Run:
    with tempfile.TemporaryDirectory(prefix="bare-") as place:
        copy = Path(place) / "skill"
        shutil.copytree(skill, copy, symlinks=True)
        (Path(place) / "work").mkdir()
        environment = {**plan.environment(), "HOME": f"{place}/work", "TMPDIR": f"{place}/work"}
        try:
            done = subprocess.run(
                [*plan.interpreter, str(copy / script), *plan.arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                cwd=f"{place}/work",
                env=environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Run(-1, "")
        said = (done.stdout + done.stderr).decode("utf-8", "replace")
        return Run(done.returncode, _plain(said, (str(copy), "/skill"), (f"{place}/work", "/tmp")))


def _inside(plan: SandboxPlan, files: list[VerifiedFile]) -> Run:
    outcome = run(plan, files)
    return Run(-1 if outcome.ended else outcome.exit_code, _plain(outcome.stdout + outcome.stderr))


def _plain(text: str, *places: tuple[str, str]) -> str:
    from skillwire.text import safe_text

    for place, name in places:
        text = text.replace(place, name)
    return " ".join(safe_text(text).split())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--verbose", action="store_true", help="show both outputs of what differs")
    options = parser.parse_args()
    found = [one for folder in options.folders for one in scripts_of(folder.resolve())]
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        results = list(pool.map(lambda one: compare(*one), found))
    compared = [one for one in results if isinstance(one, Comparison)]
    for (skill, script), result in zip(found, results, strict=True):
        if isinstance(result, str):
            print(f"not compared  {skill.name}/{script}: {result}")
        elif not result.is_same:
            print(
                f"differs       {skill.name}/{script}: {result.bare.code} bare, {result.inside.code} inside"
            )
            if options.verbose:
                print(f"    bare:   {result.bare.said[:400]}\n    inside: {result.inside.said[:400]}")
    bare = [one for one in compared if one.runs_bare]
    inside = [one for one in bare if one.inside.code == 0]
    same = sum(one.is_same for one in compared)
    share = f"{100 * len(inside) / len(bare):.1f} %" if bare else "-"
    print(f"{len(found)} scripts, {len(compared)} compared, {same} with the same exit code and output.")
    print(f"{len(bare)} run bare with --help; {len(inside)} of these run inside: {share}.")
    return 0 if len(inside) >= 0.95 * len(bare) else 1


if __name__ == "__main__":
    sys.exit(main())
