"""Neighbors: URIs that resemble a real one and are not it.

A server that compares URIs loosely answers for them. A neighbor is `impossible` if no server could
legitimately serve it: it contains a name that we made up, or is not a well-formed skill URI (FMT-9).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

NO_SUCH: Final = "skillwire-verify-no-such"


@dataclass(frozen=True, slots=True)
class Neighbor:
    """`how` says how it differs from the real URI."""

    how: str
    uri: str
    impossible: bool = True


def file_neighbors(uri: str) -> Iterator[Neighbor]:
    """Neighbors of the URI of a file, such as a SKILL.md."""
    scheme, _, rest = uri.partition("://")
    directory, _, name = rest.rpartition("/")
    yield from _of_path(scheme, directory, name)
    yield Neighbor("with a trailing slash", f"{uri}/")
    yield Neighbor("with a query", f"{uri}?{NO_SUCH}")
    yield Neighbor("with an encoded backslash", f"{scheme}://{directory}%5C{name}")
    yield Neighbor("with an encoded NUL", f"{uri}%00.md")
    yield Neighbor("encoded twice", f"{scheme}://{directory}/%25{ord(name[0]):02X}{name[1:]}")
    first, _, below = directory.partition("/")
    if below:
        # The directory of a skill is its name: a shorter one is another skill, or none.
        parent, _, last = directory.rpartition("/")
        if len(last) > 1:
            yield Neighbor(
                "with a shortened directory", f"{scheme}://{parent}/{last[:-1]}/{name}", impossible=False
            )
        if last.upper() != last:
            yield Neighbor(
                "with its directory in another case",
                f"{scheme}://{parent}/{last.upper()}/{name}",
                impossible=False,
            )
        yield Neighbor("without its first segment", f"{scheme}://{below}/{name}", impossible=False)
    elif len(first) > 1:
        yield Neighbor("with a shortened directory", f"{scheme}://{first[:-1]}/{name}", impossible=False)
    yield Neighbor("with a longer directory", f"{scheme}://{directory}-{NO_SUCH}/{name}")


def directory_neighbors(uri: str) -> Iterator[Neighbor]:
    """Neighbors of the URI of a directory. A slash at its end is not tried: it may be accepted."""
    scheme, _, rest = uri.partition("://")
    parent, slash, name = rest.rpartition("/")
    if slash:
        yield from _of_path(scheme, parent, name)
        yield Neighbor("without its first segment", f"{scheme}://{rest.partition('/')[2]}", impossible=False)
    else:
        yield Neighbor("below another segment", f"{scheme}://{NO_SUCH}/{rest}")
        yield Neighbor("with a longer name", f"{scheme}://{rest}-{NO_SUCH}")
        if len(name) > 1:
            yield Neighbor("with a shortened name", f"{scheme}://{name[:-1]}", impossible=False)


def _of_path(scheme: str, parent: str, name: str) -> Iterator[Neighbor]:
    yield Neighbor("below another segment", f"{scheme}://{NO_SUCH}/{parent}/{name}")
    yield Neighbor("with a longer name", f"{scheme}://{parent}/{name}-{NO_SUCH}")
    if len(name) > 1:
        yield Neighbor("with a shortened name", f"{scheme}://{parent}/{name[:-1]}", impossible=False)
    # Percent escapes mean the same in either case, so a name that has some is left alone.
    if name.swapcase() != name and "%" not in name:
        yield Neighbor("in another case", f"{scheme}://{parent}/{name.swapcase()}", impossible=False)
    yield Neighbor("with a doubled slash", f"{scheme}://{parent}//{name}")
    yield Neighbor("with an encoded slash", f"{scheme}://{parent}%2F{name}")
