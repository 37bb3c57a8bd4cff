"""Counts lines of code by part: no blank lines, comments or docstrings.

    python -m benchmarks.code_lines [FOLDER]

Statements are counted as they are formatted, so a count at another line length is another count.
"""

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nevis_stream.launch import entry

PARTS = ("nevis_stream", "learners", "experiments", "launch")
_NOT_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Returns the number of lines that hold code.

    >>> code_lines("# a comment\\n\\nx = (1,\\n     2)\\n")
    2
    """
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOT_CODE and token.start not in docstrings:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines)


def by_part(folder: Path) -> Counter[str]:
    """Returns lines of code of each part; of nevis_stream, of each of its packages."""
    counts: Counter[str] = Counter()
    for part in PARTS:
        for path in (folder / part).rglob("*.py"):
            inside = path.relative_to(folder / part).parts
            name = f"{part}/{inside[0]}" if len(inside) > 1 else part
            counts[name] += code_lines(path.read_text())
    return counts


def main(words: Sequence[str]) -> None:
    """Prints the table."""
    counts = by_part(Path(entry.take_only_word(words, "one folder") if words else "."))
    for name, count in sorted(counts.items()):
        print(f"{name:40} {count:7,}")
    print(f"{'all':40} {counts.total():7,}")


if __name__ == "__main__":
    entry.start(main, words="[FOLDER]")
