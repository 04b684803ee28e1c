"""Defects of entries, names, URIs and resource metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from conformance.clean_server import (
    ATLAS,
    BOM,
    EMAIL,
    LOGO,
    NESTED,
    REFUNDS,
    CleanServer,
    Json,
    Tree,
    skill_md,
)
from conformance.methods import GOOD
from conformance.switches import Change, Defect, drop, in_entry, in_result, in_tree, put


def entry_defects() -> Iterator[Defect]:
    yield from _shapes()
    yield from _manifests()
    yield from _trees()
    yield from _uris()
    yield from _resources()


def _of(name: str, rule: str, change: Change, root: str = REFUNDS) -> Defect:
    return in_entry(name, rule, root, change)


def _frontmatter(**fields: Any) -> Change:
    return lambda entry: {**entry, "frontmatter": {**entry["frontmatter"], **fields}}


def _item(uri: str, change: Change) -> Change:
    """Changes one item of a manifest; `None` drops it."""

    def bend(entry: Json) -> None:
        items = [change(item) if item["uri"] == uri else item for item in entry["resources"]]
        entry["resources"] = [item for item in items if item is not None]

    return bend


def _plus(**item: Any) -> Change:
    return lambda entry: entry["resources"].append(item)


def _shapes() -> Iterator[Defect]:
    yield _only_listed("entry-is-text", "ENT-1/shape", lambda entry: entry["uri"])
    yield _only_listed("entry-without-uri", "ENT-1/uri", drop("uri"))
    yield _only_listed("uri-is-number", "ENT-1/uri", put(uri=7))
    yield _of("no-frontmatter", "ENT-1/frontmatter", drop("frontmatter"))
    yield _of("frontmatter-is-yaml", "ENT-1/frontmatter", put(frontmatter="name: refunds"))
    yield _of(
        "field-left-out", "ENT-1/verbatim", lambda e: {**e, "frontmatter": drop("license")(e["frontmatter"])}
    )
    yield _of("field-added", "ENT-1/verbatim", _frontmatter(version="1"))
    yield _of("field-trimmed", "ENT-1/verbatim", _frontmatter(description="Refund an order."))
    yield _of(
        "name-missing", "ENT-1/verbatim", lambda e: {**e, "frontmatter": drop("name")(e["frontmatter"])}
    )
    yield _of("no-manifest", "ENT-2/resources", drop("resources"))
    yield _of("manifest-null", "ENT-2/resources", put(resources=None))
    yield _of("manifest-other-word", "ENT-2/resources", put(resources="static"))
    yield _of("meta-is-array", "ENT-8/meta", put(_meta=[]))
    yield _of("meta-reserved", "ENT-8/prefix", put(_meta={"io.modelcontextprotocol/x": 1}))


def _only_listed(name: str, rule: str, change: Change) -> Defect:
    """In the listing alone, where an entry without a URI cannot be asked for."""

    def bend(result: Json) -> None:
        result["skills"] = [
            change(skill) if skill["uri"].startswith(REFUNDS) else skill for skill in result["skills"]
        ]

    return in_result(name, rule, "skills/list", bend)


def _manifests() -> Iterator[Defect]:
    item = {"digest": f"sha256:{'0' * 64}", "size": 1}
    yield _of(
        "item-is-text", "ENT-2/item", lambda e: {**e, "resources": [i["uri"] for i in e["resources"][:1]]}
    )
    yield _of("item-without-uri", "ENT-2/item", _item(EMAIL, drop("uri")))
    yield _of("skill-md-left-out", "ENT-2/skill-md", _item(f"{REFUNDS}/SKILL.md", lambda _item: None))
    yield _of("file-twice", "ENT-2/twice", lambda e: e["resources"].append(e["resources"][0]))
    yield _of("file-of-another", "ENT-2/outside", _plus(uri=f"{ATLAS}/logo.bin", **item))
    yield _of("file-of-sibling", "ENT-2/outside", _plus(uri="skill://acme/billing/refunds-2/x", **item))
    yield _of("file-left-out", "ENT-2/complete", _item(EMAIL, lambda _item: None))
    yield _of(
        "digest-upper-case", "ENT-3/digest-format", _item(EMAIL, lambda i: put(digest=i["digest"].upper())(i))
    )
    yield _of("digest-bare", "ENT-3/digest-format", _item(EMAIL, lambda i: put(digest=i["digest"][7:])(i)))
    yield _of("digest-missing", "ENT-3/digest-format", _item(EMAIL, drop("digest")))
    yield _of("size-missing", "ENT-3/size-type", _item(EMAIL, drop("size")))
    yield _of("size-text", "ENT-3/size-type", _item(EMAIL, lambda i: put(size=str(i["size"]))(i)))
    yield _of("digest-wrong", "ENT-3/digest", _item(LOGO, put(digest=item["digest"])), ATLAS)
    legend = f"{NESTED}/legend.txt"
    yield _of("digest-wrong-inside", "ENT-3/digest", _item(legend, put(digest=item["digest"])), NESTED)
    yield _both_sizes("size-wrong", BOM)
    yield _of("nested-left-out", "FMT-8/enclosing", _without_nested, ATLAS)


def _both_sizes(name: str, uri: str) -> Defect:
    """Entry and directory agree on a size that is not that of the bytes."""

    def switch_on(server: CleanServer) -> None:
        in_entry(name, "", REFUNDS, _item(uri, put(size=3))).switch_on(server)

        def bend(result: Json) -> None:
            result["resources"] = [put(size=3)(c) if c["uri"] == uri else c for c in result["resources"]]

        in_result(name, "", "resources/directory/read", bend).switch_on(server)

    return Defect(name, "ENT-3/size", switch_on)


def _without_nested(entry: Json) -> None:
    entry["resources"] = [item for item in entry["resources"] if not item["uri"].startswith(NESTED)]


def _skill(root: str, text: bytes, frontmatter: Json) -> Callable[[Tree], None]:
    """One more skill, with this file and this entry."""

    def change(tree: Tree) -> None:
        tree.files[f"{root}/SKILL.md"] = text
        tree.frontmatter[root] = frontmatter
        tree.listed.append(root)

    return change


def _named(
    name: str, description: str = GOOD, *, directory: str = "", **fields: Any
) -> Callable[[Tree], None]:
    written = {key: str(value) for key, value in fields.items()}
    text = skill_md(name, description, **written)
    return _skill(f"skill://{directory or name}", text, {"name": name, "description": description, **fields})


def _trees() -> Iterator[Defect]:
    def many(server: CleanServer) -> None:
        server.tree.files.update({f"{REFUNDS}/many/{number}.txt": b"x" for number in range(512)})
        server.page_size = 1000

    def heavy(tree: Tree) -> None:
        tree.files.update({f"{REFUNDS}/heavy/{number}.txt": b"x" * 6_000_000 for number in range(3)})

    def nested(tree: Tree) -> None:
        tree.files[f"{REFUNDS}/examples/thank-you/SKILL.md"] = skill_md("thank-you", GOOD)

    yield Defect("too-many-files", "ENT-6/files", many)
    yield in_tree("too-many-bytes", "ENT-6/bytes", heavy)
    yield in_tree("nested-not-had", "FMT-8/nested", nested)
    yield in_tree("same-name", "ENT-5/same-name", _named("refunds", directory="team/refunds"))
    reserved = {"io.modelcontextprotocol/x": "1"}
    text = skill_md("sorting", GOOD, metadata="\n  io.modelcontextprotocol/x: '1'")
    frontmatter = {"name": "sorting", "description": GOOD, "metadata": reserved}
    yield in_tree("metadata-reserved", "ENT-7/reserved", _skill("skill://sorting", text, frontmatter))
    broken = b"---\nname: sorting\ndescription: [\n---\n# Steps\n"
    parts = {"name": "sorting", "description": GOOD}
    yield in_tree("torn-frontmatter", "FMT-1/frontmatter", _skill("skill://sorting", broken, parts))
    yield in_tree(
        "no-frontmatter-at-all", "FMT-1/frontmatter", _skill("skill://sorting", b"# Steps\n", parts)
    )
    yield in_tree("capital-name", "FMT-2/name", _named("Sorting"))
    yield in_tree("name-with-two-hyphens", "FMT-2/name", _named("sorting--things"))
    yield in_tree("long-name", "FMT-2/name", _named("s" * 65))
    yield in_tree(
        "long-description", "FMT-2/description", _named("sorting", "Use when asked. " * 70 + "End.")
    )
    empty = b"---\nname: sorting\ndescription: ''\n---\n# Steps\n"
    blank = {"name": "sorting", "description": ""}
    yield in_tree("empty-description", "FMT-2/description", _skill("skill://sorting", empty, blank))
    yield in_tree("license-is-number", "FMT-2/field", _named("sorting", license=2))
    yield in_tree("other-name", "FMT-3/name", _named("sorting", directory="team/sort"))


def _uris() -> Iterator[Defect]:
    def moved(name: str, rule: str, old: str, new: str) -> Defect:
        """The whole skill under another URI, in everything that the server says and takes."""

        def change(tree: Tree) -> None:
            tree.files = {uri.replace(old, new): data for uri, data in tree.files.items()}
            tree.empty = {uri.replace(old, new) for uri in tree.empty}
            tree.listed = [uri.replace(old, new) for uri in tree.listed]
            tree.unlisted = [uri.replace(old, new) for uri in tree.unlisted]
            tree.frontmatter = {uri.replace(old, new): value for uri, value in tree.frontmatter.items()}

        return in_tree(name, rule, change)

    def spelt(uri: str) -> Change:
        return lambda entry: {**entry, "uri": uri}

    yield _only_listed("named-by-readme", "FMT-1/skill-md", spelt(f"{REFUNDS}/README.md"))
    yield _only_listed("named-by-directory", "FMT-1/skill-md", spelt(REFUNDS))
    yield moved("user-in-authority", "FMT-3/reg-name", "skill://atlas", "skill://me@atlas")
    yield moved("other-scheme", "FMT-3/scheme", "skill://atlas/routes", "demo://routes")
    yield _of(
        "dots-in-manifest", "FMT-9/uri", _plus(uri=f"{REFUNDS}/../x.md", digest="sha256:" + "0" * 64, size=1)
    )
    yield _only_listed("file-scheme", "FMT-9/uri", spelt("file:///etc/refunds/SKILL.md"))
    yield _only_listed("encoded-slash", "FMT-9/uri", spelt("skill://acme%2Fbilling/refunds/SKILL.md"))
    yield in_tree(
        "space-in-uri", "FMT-9/encoding", lambda tree: tree.files.update({f"{REFUNDS}/a b.txt": b"x"})
    )


def _resources() -> Iterator[Defect]:
    def listed(name: str, rule: str, change: Change) -> Defect:
        def bend(result: Json) -> None:
            result["resources"] = [
                change(item) if item["uri"] == f"{REFUNDS}/SKILL.md" else item for item in result["resources"]
            ]

        return in_result(name, rule, "resources/list", bend)

    yield listed("resource-type", "FMT-7/mime", put(mimeType="text/plain"))
    yield listed("resource-name", "FMT-7/name", put(name="SKILL.md"))
    yield listed("resource-description", "FMT-7/description", drop("description"))
    yield listed("resource-meta", "FMT-7/meta", put(_meta={"io.modelcontextprotocol.skills/license": "GPL"}))
    yield listed(
        "resource-meta-made-up", "FMT-7/meta", put(_meta={"io.modelcontextprotocol.skills/stars": 5})
    )
