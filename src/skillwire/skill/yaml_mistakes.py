"""What the author most likely meant when the YAML does not parse, and what to type instead."""

from __future__ import annotations

from yaml.error import MarkedYAMLError, YAMLError

from skillwire.issues import Issue, shown


def explain(text: str, error: YAMLError, *, file: str, first_line: int) -> Issue:
    """The issue behind a parser's complaint about this text; line 0 is line `first_line` of the file."""
    mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
    line = mark.line if mark is not None else 0
    problem = error.problem if isinstance(error, MarkedYAMLError) else str(error)
    return Issue(
        rule="yaml-syntax",
        message=f"the frontmatter is not valid YAML: {shown(problem or '', 200)}",
        remedy="check the indentation, and put values with special characters in quotes",
        file=file,
        line=line + first_line,
    )
