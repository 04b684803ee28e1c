"""Two users: root writes the policy of the machine, and another one does what they can to get around it.

A mount namespace gives these processes an `/etc` of their own: nothing switches the policy of a machine off,
also not for a test.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Generator
from pathlib import Path

import pytest

from skillwire.skill import digest_of

pytestmark = [pytest.mark.process, pytest.mark.slow]

NOBODY = 65534
SECRET = "PAY EVERYTHING BACK"
SCRIPT = b"print('paid')\n"
_DROP = (
    f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --bounding-set=-all --inh-caps=-all "
    "--no-new-privs"
)
POLICY = f"""\
[policy]
format = 1
name = "acme"
contact = "security@example.org"
[sources]
deny = ["*/refunds"]
[revoked]
"{digest_of(SCRIPT)}" = "pays everybody"
"""


def in_namespace(folder: Path, command: str, *, mode: str = "644") -> subprocess.CompletedProcess[str]:
    """Run a command as an unprivileged user, where root has written the machine's policy."""
    (folder / "machine.toml").write_text(POLICY)
    prefix = Path(sys.base_prefix)
    closed = [one for one in reversed(prefix.parents) if not one.stat().st_mode & 0o001]
    opened = ""
    if closed:  # The home of root has the Python that runs this.
        opened = f"""
            mkdir -p {folder}/python
            mount --bind {prefix} {folder}/python
            mount -t tmpfs -o mode=755 tmpfs {closed[0]}
            mkdir -p {prefix}
            mount --bind {folder}/python {prefix}
        """
    script = f"""
        set -e
        mount --make-rprivate /
        {opened}
        mount -t tmpfs -o mode=755 tmpfs /etc
        mkdir -m 755 /etc/skillwire
        install -m {mode} -g {NOBODY} {folder}/machine.toml /etc/skillwire/policy.toml
        cd {folder}/work
        exec {_DROP} env -i HOME={folder}/work/home PATH=/usr/bin:/bin {command}
    """
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=600
    )


@pytest.fixture
def folder() -> Generator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv"))):
        pytest.skip("needs root, unshare and setpriv")
    # Not below `tmp_path`, whose folder every run of the tests closes to others.
    with tempfile.TemporaryDirectory(prefix="skillwire-users-") as name:
        Path(name).chmod(0o755)
        yield prepared(Path(name))


def prepared(folder: Path) -> Path:
    """The folder of the other user, with two skills."""
    work = folder / "work"
    for name, body in (("refunds", SECRET), ("letters", "Dear customer")):
        skill = work / "skills" / name
        (skill / "scripts").mkdir(parents=True)
        (skill / "SKILL.md").write_text(f"---\nname: {name}\ndescription: Does {name}.\n---\n{body}\n")
    (work / "skills/refunds/scripts/pay.py").write_bytes(SCRIPT)
    (work / "home").mkdir()
    for path in (work, *work.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    tried = in_namespace(folder, f"{sys.executable} -c 'import skillwire'")
    if tried.returncode != 0:
        pytest.skip(f"no namespace, or no Python for another user: {tried.stderr[-200:]}")
    return folder


ATTEMPTS = r"""
import json, os, shutil, subprocess, sys, tempfile
from pathlib import Path

from skillwire.cli import main
from skillwire.cli.skills import load  # What it needs is imported once, before the attempts.
from skillwire.host import SkillHost
from skillwire.install import Installer

def skillwire(*words, **variables):
    if variables:
        environment = {**os.environ, **variables}
        command = [sys.executable, "-m", "skillwire", *words]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        return [done.returncode, done.stdout, done.stderr]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        if not (child := os.fork()):
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["skillwire", *words]
            code = 1
            try:
                main()
            except SystemExit as ended:
                code = ended.code
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        out.seek(0)
        err.seek(0)
        return [code, out.read(), err.read()]

OPEN = '[policy]\nformat = 1\nname = "open"\n[sources]\nallow = ["*"]\n'
Path("open.toml").write_text(OPEN)
config = Path.home() / ".config/skillwire"
config.mkdir(parents=True)
results = {"control": skillwire("load", "letters", "--dir", "skills")}
results["plain"] = skillwire("load", "refunds", "--dir", "skills")
results["options"] = skillwire("load", "refunds", "--dir", "skills", "--no-config", "--policy", "open.toml")
(config / "policy.toml").write_text(OPEN)
results["variables"] = skillwire(
    "load", "refunds", "--dir", "skills", HOME="/nonexistent", XDG_CONFIG_HOME=str(config.parent),
    XDG_DATA_HOME="/tmp", SKILLWIRE_POLICY="", SKILLWIRE_POLICY_FILE="open.toml", PYTHONOPTIMIZE="2",
)
Path("link").symlink_to("skills/refunds")
results["link"] = skillwire("load", "refunds", "--dir", "link")
text = Path("skills/refunds/SKILL.md").read_text()
shutil.copytree("skills/refunds", "renamed/returns")
Path("renamed/returns/SKILL.md").write_text(text.replace("name: refunds", "name: returns"))
results["renamed"] = skillwire("load", "returns", "--dir", "renamed")
results["added"] = skillwire("add", "./skills/refunds", "--yes", "--allow-code")
results["installed"] = [int(Path(".agents/skills/refunds").exists()), "", ""]
shutil.copytree("skills/refunds", ".agents/skills/refunds")
results["project"] = skillwire("load", "refunds")
results["run"] = skillwire("run", "refunds/scripts/pay.py")
try:
    Path("/etc/skillwire/policy.toml").write_text(OPEN)
    results["written"] = [0, "", ""]
except OSError:
    results["written"] = [1, "", ""]
print(json.dumps(results))
"""


def test_an_unprivileged_user_cannot_load_what_the_policy_of_root_denies(folder: Path) -> None:
    (folder / "work/attempts.py").write_text(ATTEMPTS)
    done = in_namespace(folder, f"{sys.executable} attempts.py")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    code, out, err = results.pop("control")
    assert (code, "Dear customer" in out) == (0, True), err
    assert results.pop("installed")[0] == 0
    assert results.pop("written")[0] == 1
    for name, (code, out, err) in results.items():
        assert code == 15, (name, code, out, err)
        assert SECRET not in out, name
        assert "policy acme" in err, name


def test_a_policy_that_others_than_root_can_write_refuses_everything(folder: Path) -> None:
    done = in_namespace(folder, f"{sys.executable} -m skillwire load letters --dir skills", mode="664")
    assert (done.returncode, done.stdout) == (15, "")
    assert "others than root can write /etc/skillwire/policy.toml" in done.stderr
