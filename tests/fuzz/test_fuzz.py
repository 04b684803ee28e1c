"""Whatever bytes arrive, a parser returns a value or raises an error of ours, in few steps.

Each input is a seed with some changes. A run takes a few hundred; `FUZZ_SECONDS=600 make fuzz` goes on for
that long in all, and prints the number and the bytes of an input that fails.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import urlsplit

import pytest

from fuzz import corpus
from skillwire.access.callers import parse_callers
from skillwire.clients import BaseDirectories
from skillwire.documents import DocumentError, read_json, read_toml, read_yaml
from skillwire.errors import SkillwireError, SourceError
from skillwire.host.config.text import parse_config
from skillwire.host.importers.base import narrowed, parse_jsonc
from skillwire.host.importers.readers import client_files
from skillwire.install import format_lock, parse_lock
from skillwire.install.foreign import parse_foreign_lock
from skillwire.net import read_archive
from skillwire.net.addresses import Reachability, reach_of, redirect_target
from skillwire.registry.publications import parse_publication
from skillwire.server import SkillServer
from skillwire.skill import DYNAMIC, SkillEntry, SkillUri, lint_skill, parse_skill_md, parse_uri, safe_path
from skillwire.sources import parse_reference
from skillwire.sources.wellknown import parse_site_index
from skillwire.trust.publishers import InvalidSignatureFile, parse_bundle
from skillwire.wire import declaration_in, entry_from_wire, entry_to_wire
from skillwire.wire.legacy import bind_to_manifest, parse_index, resource_page
from skillwire.wire.v1 import directory_page, file_bytes, list_page, single_entry
from steps import TooManySteps, count_steps

RUNS = 300
# Counting takes longer.
STEPS_OF_EVERY = 10
FIXED_STEPS, STEPS_PER_BYTE = 1_000_000, 256
SKILL = SkillUri("skill://pdf/SKILL.md")


def mutate(seeds: Sequence[bytes], rng: random.Random) -> bytes:
    """A seed with up to eight changes: bytes, pieces, known troublemakers, parts of another seed."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((0, 1, 1, 2, 3, 8))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1:
                data[at:at] = rng.choice(corpus.TOKENS)
            case 2:
                del data[at : at + rng.randrange(1, 20)]
            case 3:
                data[at:at] = data[at : at + rng.randrange(1, 40)] * rng.randrange(1, 6)
            case 4:
                other = rng.choice(seeds)
                data[at:] = other[rng.randrange(len(other)) :]
            case 5:
                data[at : at + rng.randrange(1, 12)] = rng.choice(corpus.TOKENS)
            case _:
                data[at:at] = rng.randbytes(rng.randrange(1, 8))
    return bytes(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def read_frontmatter(data: bytes) -> None:
    document = parse_skill_md(data)
    json.dumps(document.frontmatter, allow_nan=False)  # what was read can be sent


def read_uri(data: bytes) -> None:
    uri = parse_uri(_text(data))
    assert parse_uri(uri) == uri
    assert "/../" not in uri


def read_answers(data: bytes) -> None:
    value = _json(data)
    declaration_in(value)
    readers: list[Callable[[], object]] = [
        lambda: list_page(value, accept_drafts=True),
        lambda: single_entry(value, SKILL),
        lambda: file_bytes(value, SKILL),
        lambda: directory_page(value),
        lambda: resource_page(value),
    ]
    for read in readers:
        try:
            read()
        except SkillwireError:
            continue
    for item in (
        value.get("skills") or () if isinstance(value, dict) and isinstance(value.get("skills"), list) else ()
    ):
        try:
            entry = entry_from_wire(item)
        except SkillwireError:
            continue
        assert entry_from_wire(entry_to_wire(entry)) == entry


def read_index(data: bytes) -> None:
    for entry in parse_index(data).entries:
        assert parse_uri(entry.uri) == entry.uri


def read_lock(data: bytes) -> None:
    text = _text(data)
    for name in ("skills-lock.json", ".skill-lock.json"):
        try:
            parse_foreign_lock(text, PurePath(name).name)
        except SkillwireError:
            continue
    lock = parse_lock(text)
    assert parse_lock(format_lock(lock)) == lock


def read_client_file(data: bytes) -> None:
    try:
        values = parse_jsonc(_text(data))
    except (ValueError, RecursionError):
        return
    around = BaseDirectories(Path("/x"), Path("/home/me"), {})
    for read in {file.read for file in client_files(around)}:
        contents = read(values, around)
        for server in contents.servers:
            narrowed(server, [contents])


def read_archive_safely(data: bytes) -> None:
    for file in read_archive(data):
        assert safe_path(file.path) == file.path
        assert ".." not in file.path.split("/")


def read_signature(data: bytes) -> None:
    with suppress(InvalidSignatureFile):
        parse_bundle(data)


def read_documents(data: bytes) -> None:
    for read in (read_json, read_toml, read_yaml):
        with suppress(DocumentError, SkillwireError):
            read(data)
    with suppress(DocumentError, SkillwireError):
        value = read_json(data, strict=True)
        assert read_json(json.dumps(value), strict=True) == value


def read_manifest(data: bytes) -> None:
    entry = SkillEntry(SKILL, {"name": "pdf"}, DYNAMIC)
    assert bind_to_manifest(entry, data).uri == SKILL


def read_address(data: bytes) -> None:
    url = _text(data)
    for location in (url, f"http://{url}", f"//{url}"):
        with suppress(SourceError):
            target = redirect_target("https://example.org/a", location, is_pinned=True)
            assert reach_of(urlsplit(target).hostname or "") is Reachability.PUBLIC


PARSERS: dict[str, tuple[Callable[[bytes], object], tuple[bytes, ...]]] = {
    "frontmatter": (read_frontmatter, corpus.SKILL_MD),
    "lint": (
        lambda data: lint_skill(data, directory="pdf", files={"SKILL.md": len(data)}),
        corpus.SKILL_MD,
    ),
    "uri": (read_uri, corpus.URIS),
    "reference": (
        lambda data: parse_reference(_text(data)),
        (*corpus.URIS, b"git+https://h/r@v1#x", b"pypi:x==1", b"git+https://]#x"),
    ),
    "answers": (read_answers, corpus.ANSWERS),
    "index": (read_index, (*corpus.INDEXES, *corpus.ANSWERS)),
    "site index": (lambda data: parse_site_index(data, "https://h/.well-known/x"), corpus.INDEXES),
    "configuration": (lambda data: parse_config(_text(data), Path("skillwire.toml")), corpus.CONFIGS),
    "lock": (read_lock, corpus.LOCKS),
    "client files": (read_client_file, corpus.CLIENT_FILES),
    "archive": (read_archive_safely, corpus.ARCHIVES),
    "signature": (read_signature, corpus.BUNDLES),
    "documents": (read_documents, (*corpus.ANSWERS, *corpus.CONFIGS, *corpus.LOCKS, *corpus.SKILL_MD)),
    "manifest": (read_manifest, corpus.MANIFESTS),
    "callers": (lambda data: parse_callers(_text(data), "callers.toml"), (*corpus.CALLERS, *corpus.CONFIGS)),
    "addresses": (read_address, corpus.ADDRESSES),
    "draft": (lambda data: parse_publication(_json(data)), corpus.DRAFTS),
}


# The parsers share the time; `make fuzz` runs two at once.
SECONDS = float(os.environ.get("FUZZ_SECONDS", "0")) * 2 / (len(PARSERS) + 1)


def fuzz(parse: Callable[[bytes], object], seeds: Sequence[bytes]) -> None:
    until = time.monotonic() + SECONDS
    start = random.SystemRandom().randrange(1 << 40) if SECONDS else 0
    number = start
    while number < start + RUNS or time.monotonic() < until:
        data = mutate(seeds, random.Random(number))
        try:
            if number % STEPS_OF_EVERY:
                parse(data)
            else:
                count_steps(partial(parse, data), most=FIXED_STEPS + STEPS_PER_BYTE * len(data))
        except SkillwireError:
            pass
        except (Exception, TooManySteps) as error:
            pytest.fail(f"input {number}: {type(error).__name__}: {error}\n{data!r}")
        number += 1


@pytest.mark.parametrize("name", PARSERS)
def test_any_bytes_give_a_value_or_one_of_our_errors(name: str) -> None:
    fuzz(*PARSERS[name])


def test_the_fast_path_answers_only_what_json_says(tmp_path: Path) -> None:
    server = SkillServer(tmp_path)
    fast_path = server._fast_path  # pyright: ignore[reportPrivateUsage]
    assert fast_path is not None

    def check(data: bytes) -> None:
        request = fast_path.parse(data)
        if request is not None:
            value = json.loads(data)
            assert value["method"] == request.method
            assert json.dumps(value["id"]).encode() == request.id_json
            assert value["params"].get("uri") == request.uri

    fuzz(check, corpus.REQUESTS)
