"""What `list` and `show` print of templates: entries of an index that stand for many skills."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from skillwire.cli.output import printable
from skillwire.cli.screen import Screen, cut, origin_words, padded, show_json

if TYPE_CHECKING:
    from skillwire.host.host import SkillHost
    from skillwire.host.templates import ServedTemplate

_VALUES_SHOWN: Final = 20


def show_templates(screen: Screen, templates: Sequence[ServedTemplate]) -> None:
    """A table: what each is called, where it comes from, what has to be filled in, and what it is for."""
    titles = ("TEMPLATE", "FROM", "ARGUMENTS", "DESCRIPTION")
    rows = [
        (printable(one.name), origin_words(one.origin), ", ".join(one.arguments), one.description)
        for one in templates
    ]
    widths = [max(cell_len(line[column]) for line in (titles, *rows)) for column in range(3)]
    room = max(screen.width - sum(widths) - 6, 20)
    for number, row in enumerate((titles, *rows)):
        cells = [padded(cell, width) for cell, width in zip(row, widths, strict=False)]
        line = "  ".join([*cells, cut(row[3], room)]).rstrip()
        screen.line((line, "" if number else "bold"))


async def show_template(host: SkillHost, name: str, on: str | None, *, as_json: bool) -> None:
    """One template, with the values that its server suggests for each argument."""
    from skillwire.host.templates import find_template

    found = find_template(name, host.admin.templates(), on)
    known = {
        argument: await host.admin.complete(found.uri_template, argument, server=found.origin.label)
        for argument in found.arguments
    }
    if as_json:
        suggested = {argument: list(values) for argument, values in known.items()}
        show_json({**template_json(found), "suggested": suggested})
        return
    screen = Screen()
    screen.line((printable(found.name), "bold"))
    screen.pairs(
        [
            ("from", origin_words(found.origin)),
            ("template", printable(found.uri_template)),
            ("description", printable(found.description)),
            *((argument, _values(values)) for argument, values in known.items()),
        ]
    )
    screen.line()
    example = " ".join(
        f"--value {argument}={values[0] if values else argument.upper()}"
        for argument, values in known.items()
    )
    screen.line(f"To load one: skillwire load {printable(found.name)!r} {printable(example)}")


def template_json(template: ServedTemplate) -> dict[str, object]:
    """A template as a document."""
    return {
        "name": template.name,
        "template": template.uri_template,
        "description": template.description,
        "arguments": list(template.arguments),
        "origin": {"kind": template.origin.kind.value, "label": template.origin.label},
    }


def _values(values: Sequence[str]) -> str:
    if not values:
        return "any value: its server suggests none"
    more = f" and {len(values) - _VALUES_SHOWN} more" if len(values) > _VALUES_SHOWN else ""
    return f"{', '.join(printable(value) for value in values[:_VALUES_SHOWN])}{more}"
