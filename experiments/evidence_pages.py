"""Puts the tables of recorded studies into the pages of docs/evidence.

    python -m experiments.evidence_pages [PAGE.md ...]

Between `<!-- printed by: python -m MODULE ARGUMENTS -->` and `<!-- end -->` a page has what that
command prints, without the line that describes the machine: the page says when and where the data
were measured, not when the tables were printed. In the index the row of a study has its page's
title, answer and first date, and the toctree has the pages of the rows; `| [](PAGE.md) | |` is
enough for a new row. Without arguments all pages with such a part, and the index, are made anew.
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
INDEX_ROW = re.compile(r"^\| \[.*\]\((?P<page>[\w/-]+\.md)\) \|.*\|$", re.M)
TOCTREE = re.compile(r"(?<=:maxdepth: 1\n).*?(?=```)", re.S)


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


def rebuild_index(text: str) -> str:
    """Returns the index with what its pages say: title, answer, and the first date; its toctree has
    the pages in the order of their rows.
    """

    def say(row: re.Match[str]) -> str:
        page = read_bytes(EVIDENCE / row["page"]).decode()
        title, answer = (" ".join(part.split()) for part in page.split("\n\n")[:2])
        dates = re.findall(r"\b2\d{3}-\d\d-\d\d", PRINTED.sub("", page))
        kept = "" if row["page"].startswith("not-regenerated/") else ", data kept"
        return f"| [{title.removeprefix('# ')}]({row['page']}) | {answer} | {dates[0]}{kept} |"

    rows = (row["page"].removesuffix(".md") for row in INDEX_ROW.finditer(text))
    return TOCTREE.sub("".join(f"{page}\n" for page in rows), INDEX_ROW.sub(say, text))


def main(names: Sequence[str]) -> None:
    """Makes pages anew, and names those that have changed."""
    for page in map(Path, names or sorted(EVIDENCE.rglob("*.md"))):
        before = read_bytes(page).decode()
        after = (rebuild_index if page.name == "index.md" else rebuild)(before)
        if after != before:
            page.write_text(after)
            print(page)


if __name__ == "__main__":
    from nevis_stream.launch import entry

    entry.start(main, words="[PAGE.md ...]")
