"""Puts the tables of recorded studies into the pages of docs/evidence.

    python -m experiments.evidence_pages [PAGE.md ...]

Between `<!-- printed by: python -m MODULE ARGUMENTS -->` and `<!-- end -->` a page has what that
command prints, without the line that describes the machine: the page says when and where the data
were measured, not when the tables were printed. Without arguments all pages with such a part are
made anew.
"""

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nevis_stream.storage.reading import read_bytes

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
PRINTED = re.compile(
    r"(?P<mark><!-- printed by: python -m (?P<command>[^>]+) -->\n).*?(?=<!-- end -->)", re.S
)


def print_tables(command: str) -> str:
    """Returns what a module prints, without the line about the machine; it starts with a blank line
    and ends with one.
    """
    printed = subprocess.run(
        [sys.executable, "-m", *command.split()],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lines = [line for line in printed.splitlines() if not re.search(r"Python 3\.\d.*, jax ", line)]
    return "\n" + "\n".join(lines).strip("\n") + "\n\n"


def rebuild(text: str) -> str:
    """Returns a page's text with its printed parts made anew."""
    return PRINTED.sub(lambda part: part["mark"] + print_tables(part["command"]), text)


def main(names: Sequence[str]) -> None:
    """Makes pages anew, and names those that have changed."""
    for page in map(Path, names or sorted(EVIDENCE.rglob("*.md"))):
        before = read_bytes(page).decode()
        after = rebuild(before)
        if after != before:
            page.write_text(after)
            print(page)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main, words="[PAGE.md ...]")
