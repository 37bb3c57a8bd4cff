"""Puts what commands print into the pages of docs/evidence.

    python -m experiments.evidence_pages [PAGE.md ...]
    python -m experiments.evidence_pages --measure PAGE.md ...

Between `<!-- printed by: python -m MODULE ARGUMENTS -->` and `<!-- end -->` a page has that command
and the tables that it prints from a record, without the line that describes the machine: the page
says when and where the data were measured, not when the tables were printed. After
`<!-- measured by: ... -->` it has all that the command prints, which measures anew: only --measure
runs it, for the pages that are named. In the index the row of a study has its page's title, answer
and the day of its measurement, and the toctree has the pages of the rows; `| [](PAGE.md) | |` is
enough for a new row. Without arguments all pages with a printed part, and the index, are made anew.
"""

import re
import subprocess
import sys
from pathlib import Path

from nevis_stream import errors
from nevis_stream.experiments import engine
from nevis_stream.storage.reading import read_bytes

ROOT = Path(__file__).resolve().parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
PART = re.compile(
    r"(?P<mark><!-- (?P<how>printed|measured) by: (?P<command>python -m [^>]+) -->\n)"
    r".*?<!-- end -->",
    re.S,
)
INDEX_ROW = re.compile(r"^\| \[.*\]\((?P<page>[\w/-]+\.md)\) \|.*\|$", re.M)
BEGINNING = re.compile(r"^<!-- (?:printed|measured) by:", re.M)
MACHINE = re.compile(r"Python 3\.\d.*, jax ")
TOCTREE = re.compile(r"(?<=:maxdepth: 1\n).*?(?=```)", re.S)


def find_parts(page: Path, text: str) -> list[re.Match[str]]:
    """Returns the parts of a page that commands print.

    Raises:
      BadInput: a part has no end mark of its own, so that what is written by hand would be lost.
    """
    parts = list(PART.finditer(text))
    if len(parts) != len(BEGINNING.findall(text)):
        raise errors.BadInput(f"{page}: a part lacks its line <!-- end -->.")
    return parts


def print_part(command: str, measured: bool) -> str:
    """Returns a command as a reader copies it and what it prints; without the line about the
    machine if it does not measure. It starts with a blank line and ends with one.
    """
    print(command, file=sys.stderr)  # it may take minutes
    words = [sys.executable, *command.split()[1:]]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise errors.BadInput(f"`{command}` ended with status {done.returncode}.")
    lines = [line for line in done.stdout.splitlines() if measured or not MACHINE.search(line)]
    tables = "\n".join(lines).strip("\n")
    return f"\n```bash\n{command}\n```\n\n{tables}\n\n"


def rebuild(text: str, measure: bool = False) -> str:
    """Returns a page's text with its printed parts made anew, with `measure` the measured too."""

    def make(part: re.Match[str]) -> str:
        measured = part["how"] == "measured"
        if measured and not measure:
            return part[0]
        return f"{part['mark']}{print_part(part['command'], measured)}<!-- end -->"

    return PART.sub(make, text)


def rebuild_index(text: str) -> str:
    """Returns the index with what its pages say: title, answer, and the day of the measurement; its
    toctree has the pages in the order of their rows.
    """

    def say(row: re.Match[str]) -> str:
        page = read_bytes(EVIDENCE / row["page"]).decode()
        title, answer = (" ".join(part.split()) for part in page.split("\n\n")[:2])
        parts = find_parts(EVIDENCE / row["page"], page)
        kept = any(part["how"] == "printed" for part in parts)
        dated = PART.sub("", page) if kept or not parts else parts[0][0]
        if not (day := re.search(r"\b2\d{3}-\d\d-\d\d", dated)):
            raise errors.BadInput(f"{row['page']} has no date of its measurement.")
        data = ", data kept" if kept else ""
        return f"| [{title.removeprefix('# ')}]({row['page']}) | {answer} | {day[0]}{data} |"

    rows = (row["page"].removesuffix(".md") for row in INDEX_ROW.finditer(text))
    return TOCTREE.sub("".join(f"{page}\n" for page in rows), INDEX_ROW.sub(say, text))


def main(*words: str, measure: bool = False) -> None:
    """Makes pages anew, and names those that have changed."""
    if measure and not words:
        raise errors.BadInput("--measure needs the pages whose commands are to be run.")
    for name in words or sorted(EVIDENCE.rglob("*.md")):
        page = Path(name) if Path(name).exists() else EVIDENCE / name
        before = read_bytes(page).decode()
        parts = find_parts(page, before)
        if measure and not any(part["how"] == "measured" for part in parts):
            raise errors.BadInput(f"{page}: no command of this page measures.")
        index = page.name == "index.md"
        after = rebuild_index(before) if index else rebuild(before, measure)
        if after != before:
            page.write_text(after)
            print(page)


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
