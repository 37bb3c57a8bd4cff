"""Pages of evidence begin with their answer, decisions have a status, and indexes are complete."""

import re
from pathlib import Path

import pytest

from nevis_stream.errors import BadInput
from nevis_stream.experiments import evidence_pages

ROOT = Path(__file__).resolve().parents[1]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
EVIDENCE = sorted(
    page
    for page in evidence_pages.EVIDENCE.rglob("*.md")
    if page != evidence_pages.EVIDENCE / "index.md"
)
STATUS = re.compile(r"^\*\*Status\.\*\* (In force\b|Superseded by \[\d{4}\]\(\d{4}-)", re.M)


@pytest.mark.parametrize("page", EVIDENCE, ids=lambda page: page.stem)
def test_a_page_of_evidence_begins_with_its_answer(page):
    """Title, answer of one or two lines and at most 80 words, a command, a date, and a machine."""
    text = page.read_text()
    title, empty, first, second, *_ = text.split("\n")
    assert title.startswith("# ") and not empty
    assert (
        first and len(first) + len(second) > 60 and not first.startswith(("|", "```", "20", "*Not"))
    )
    assert len(text.split("\n\n")[1].split()) <= 80, "the answer is long"
    assert "```bash\n" in text or "`python -m " in text, "the command"
    parts = evidence_pages.find_parts(page, text)
    for part in parts:
        assert f"```bash\n{part['command']}\n```" in part[0]
        printed_machine = evidence_pages.MACHINE.search(part[0])
        assert bool(printed_machine) == (part["how"] == "measured"), part["command"]
    assert re.search(r"\b2\d{3}-\d\d-\d\d", text), "the date"
    assert re.search(r"EPYC|Xeon|H\d00", text), "the machine"
    assert bool(parts) != ("*Not regenerated" in text)
    assert bool(parts) != (page.parent.name == "not-regenerated")


def test_every_finding_has_a_verdict_and_the_verdicts_are_counted():
    text = (ROOT / "docs" / "findings.md").read_text().partition("## What a reviewer asks")[0]
    rows = [line.strip("| ").split(" | ") for line in text.split("\n") if line.startswith("| ")]
    findings = [cells for cells in rows if cells[0] not in ("finding of the paper", "study")]
    words = "reproduced|not seen at this scale|opposite|not tested|not run"
    verdicts = []
    for cells in findings:
        own = [found[0] for cell in cells[2:] if (found := re.match(words, cell))]
        assert own, f"{cells[0]} has none of the verdicts {words}"
        verdicts.append(own[-1])
    counts = [verdicts.count(word) for word in words.split("|")]
    numbers = re.search(r"Of \d+ rows .* not run\.", text)[0]
    assert list(map(int, re.findall(r"\d+", numbers))) == [len(findings), *counts]
    assert "not shown" not in text


def test_every_page_of_evidence_has_one_row_in_the_index():
    index = (evidence_pages.EVIDENCE / "index.md").read_text()
    rows = [row["page"] for row in evidence_pages.INDEX_ROW.finditer(index)]
    assert len(rows) == len(set(rows)), f"docs/evidence/index.md: twice: {sorted(rows)}"
    for page in EVIDENCE:
        name = page.relative_to(evidence_pages.EVIDENCE).as_posix()
        assert name in rows, (
            f"docs/evidence/index.md: add | []({name}) | | under its heading, then"
            " python -m experiments.evidence_pages docs/evidence/index.md"
        )
    (toctree,) = evidence_pages.TOCTREE.findall(index)
    assert toctree.split() == [row.removesuffix(".md") for row in rows]


def test_the_index_has_the_answers_of_its_pages():
    index = evidence_pages.EVIDENCE / "index.md"
    assert evidence_pages.rebuild_index(index.read_text()) == index.read_text(), (
        "an answer has changed: python -m experiments.evidence_pages docs/evidence/index.md"
    )


def test_little_is_written_by_hand():
    """Of the pages that are made anew what no command prints, of the index what is not of a page,
    and the old headings: 400 lines in all, empty ones not counted.
    """
    kept = [page for page in EVIDENCE if page.parent.name != "not-regenerated"]
    texts = [evidence_pages.PART.sub("", page.read_text()) for page in kept]
    index = (evidence_pages.EVIDENCE / "index.md").read_text().partition("```{toctree}")[0]
    texts += [evidence_pages.INDEX_ROW.sub("", index), (ROOT / "benchmarks/RESULTS.md").read_text()]
    assert sum(line != "" for text in texts for line in text.split("\n")) <= 400


def test_printed_parts_are_what_their_command_prints():
    page = evidence_pages.EVIDENCE / "label-coverage.md"
    assert evidence_pages.rebuild(page.read_text()) == page.read_text()


@pytest.mark.parametrize("measure", [False, True])
def test_what_is_printed_is_put_between_the_marks(monkeypatch, measure):
    def print_part(command, measured):
        return f"\n{command}, {measured}\n\n"

    monkeypatch.setattr(evidence_pages, "print_part", print_part)
    text = "a\n<!-- {} by: python -m x table -->\n{}<!-- end -->\nb\n"
    printed, measured = text.format("printed", "old\n"), text.format("measured", "old\n")
    new = text.format("printed", "\npython -m x table, False\n\n")
    if measure:
        measured_anew = text.format("measured", "\npython -m x table, True\n\n")
    else:
        measured_anew = measured
    assert evidence_pages.rebuild(printed + measured, measure) == new + measured_anew


def test_a_part_without_an_end_is_refused():
    """What is written by hand after it would be taken for what the command prints."""
    part = "<!-- printed by: python -m x -->\nold\n"
    for text in (f"{part}by hand\n{part}<!-- end -->\n", f"{part}by hand\n"):
        with pytest.raises(BadInput, match=r"page\.md: a part lacks its line <!-- end -->"):
            evidence_pages.find_parts(Path("page.md"), text)


def test_a_part_has_its_command_and_what_it_prints(tmp_path, monkeypatch):
    machine = "2026-01-01, a processor, 2 cores, Python 3.11.7, jax 0.10.2, load 1"
    (tmp_path / "said.py").write_text(f"print('\\n{machine}\\n\\n| a |\\n')\n")
    monkeypatch.setattr(evidence_pages, "ROOT", tmp_path)
    command = "```bash\npython -m said\n```\n"
    assert evidence_pages.print_part("python -m said", False) == f"\n{command}\n| a |\n\n"
    measured = evidence_pages.print_part("python -m said", True)
    assert measured == f"\n{command}\n{machine}\n\n| a |\n\n"


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_a_decision_has_a_status_and_a_row(page):
    text = page.read_text()
    assert STATUS.search(text), (
        f"{page.name}: end it with `**Status.** In force.` or"
        " `**Status.** Superseded by [0000](0000-title.md).`"
    )
    number, title = re.match(r"# (\d{4}): (.*)\n", text).groups()
    assert page.name.startswith(number)
    index = (page.parent / "index.md").read_text()
    row = f"| [{number}]({page.name}) | {title}"
    assert row in index, (
        f"docs/decisions/index.md lacks this decision, or its title; add the line\n"
        f"{row}: the decision in one line | in force |"
    )
    status = index.partition(row)[2].partition("\n")[0].rpartition(" | ")[2]
    for other in re.findall(r"\[\d{4}\]\(.*?\)", text[STATUS.search(text).start() :]):
        assert other in status, f"docs/decisions/index.md: the status of {number} lacks {other}"


def test_recorded_figures_are_small():
    """Figures that are measured take less than a megabyte of the repository."""
    figures = [
        path
        for name in ("benchmarks", "experiments")
        for path in (ROOT / name).rglob("*")
        if path.name.endswith((".csv", ".jsonl", ".xz"))
    ]
    assert sum(path.stat().st_size for path in figures) < 1_000_000
