"""List the commits between two releases, grouped by the first word of their subject.

Usage: list_changes.py [FROM [TO]]    FROM is the newest tag by default, TO is HEAD.
"""

import subprocess
import sys
from collections import defaultdict


def git(*arguments):
    """What git prints, or nothing when it fails."""
    run = subprocess.run(["git", *arguments], capture_output=True, text=True, encoding="utf-8", check=False)
    return run.stdout.strip() if run.returncode == 0 else ""


def group_of(subject):
    """`fix(api): close the socket` and `Fix the socket` both belong to `fix`."""
    words = subject.replace("(", " ").replace(":", " ").replace("!", " ").split()
    return words[0].lower() if words else "other"


def main(start="", end="HEAD"):
    if start.startswith("-") or end.startswith("-"):
        sys.exit(__doc__)
    start = start or git("describe", "--tags", "--abbrev=0", end)
    log = git("log", "--no-merges", "--format=%h %s", f"{start}..{end}" if start else end)
    if not log:
        sys.exit(f"No commits found from {start or 'the beginning'} to {end}. Is this a git repository?")
    groups = defaultdict(list)
    for line in log.splitlines():
        _, _, subject = line.partition(" ")
        groups[group_of(subject)].append(line)
    print(f"Changes from {start or 'the beginning'} to {end}")
    for name in sorted(groups, key=lambda name: (-len(groups[name]), name)):
        print(f"\n{name} ({len(groups[name])})")
        print("\n".join(f"  {line}" for line in groups[name]))


if __name__ == "__main__":
    main(*sys.argv[1:3])
