"""The page and its csv files: right numbers, clear statements, nothing from outside."""

import base64
import hashlib
import json
import math
import re
from pathlib import Path

import pandas as pd
import pytest
from PIL import Image

from nevis_stream.analysis import tables
from nevis_stream.analysis.methods import list_method_points
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.errors import BadInput
from nevis_stream.report.build import write_report
from nevis_stream.report.parts import costs
from nevis_stream.report.section import Section
from tests.report.page_reader import Page
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun()
OURS = RUN.but(learner="ft_d", skill=0.1, flops=1500)
EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)> $\\frac$ #010101 & -->"


def written(tmp_path, *runs):
    return [run.write(tmp_path / f"run{i}") for i, run in enumerate(runs)]


def report(tmp_path, *runs, more=()):
    return Page(write_report([*written(tmp_path, *runs), *more], tmp_path / "out"))


def usual_runs():
    seeds = [run.but(seed=seed) for run in (RUN, OURS) for seed in (0, 1)]
    return [*seeds, OURS.but(learner="mt", flops=4000, errors=(("task_004", None),))]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Of several runs, one of them under another protocol."""
    related = OURS.but(learner="ft_dynamic", start="related", seed=1)
    runs = [*usual_runs(), related, OURS.but(protocol="meta_train")]
    return report(tmp_path_factory.mktemp("page"), *runs)


def test_nothing_comes_from_outside_and_every_reference_resolves(page):
    text = re.sub(r"data:image/png;base64,[A-Za-z0-9+/=]*", "", page.source)
    assert not re.search(r"//\S", text)  # comments of the script have a space behind
    assert "@import" not in page.source
    assert len(page.ids) == len(set(page.ids))
    targets = {f"#{name}" for name in page.ids}
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        for name in ("src", "href", "xlink:href", "action", "data", "srcset", "poster"):
            address = attributes.get(name)
            if address is not None:
                assert address in targets or address.startswith("data:image/png;base64,")
    assert {f"#{name}" for name in re.findall(r"url\(#([^)]*)\)", page.source)} <= targets
    assert "url(" not in re.sub(r"url\(#", "", page.source)


def test_letters_of_figures_can_be_read_on_a_phone(page):
    narrowest = 16 * float(re.search(r"\.plot \{[^}]*min-width: ([\d.]+)rem", page.source)[1])
    plot = r'<svg class="plot"[^>]*viewBox="0 0 ([\d.]+) [^>]*>(.*?)</svg>'
    figures = re.findall(plot, page.source)
    assert len(figures) >= 7
    for width, figure in figures:
        sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", figure)]
        assert min(sizes) * narrowest / float(width) >= 9, figure[:200]


def test_names_cannot_inject_markup(tmp_path):
    evil = OURS.but(learner=EVIL, budget=EVIL, stream=EVIL, config=((EVIL, EVIL),))
    evil = evil.but(task_name=EVIL + "{}")
    indep = evil.but(learner="Indep", errors=((evil.task_id(2), None), (evil.task_id(4), None)))
    (tmp_path / "<img src=x onerror=alert(2)>").mkdir()
    paths = written(tmp_path / "<b>", evil, evil.but(seed=1), indep, evil.but(seed=2, events=3))
    facts = json.dumps({EVIL: EVIL, "packages": {EVIL: EVIL}, "devices": [EVIL]})
    (paths[0] / "environment.jsonl").write_text(f"{facts}\n[1]\n{{cut")
    page = Page(write_report([*paths, tmp_path / "<img src=x onerror=alert(2)>"], tmp_path / "out"))
    assert [a.get("type") for tag, a in page.tags if tag == "script"] == ["application/json", None]
    data = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page.source)[1]
    assert EVIL in json.loads(data)["runs"][0]["name"]
    assert not {tag for tag, _ in page.tags} & {"b", "img", "frac"}
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert page.text.count(EVIL) > 20
    assert "<img src=x onerror=alert(2)>: not a run directory" in page.text


@pytest.mark.usefixtures("undrawn")
def test_the_policy_allows_the_page_s_own_script_only(tmp_path):
    page = report(tmp_path, RUN)
    script = re.search(r"<script>(.*)</script>", page.source, flags=re.S)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(a["content"] for tag, a in page.tags if "http-equiv" in a)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest}'" in policy


@pytest.mark.usefixtures("undrawn")
def test_the_page_and_the_csv_say_what_the_analysis_says(tmp_path):
    paths = written(tmp_path, *usual_runs())
    page = Page(write_report(paths, tmp_path / "out"))
    runs = read_runs(paths)[0]
    methods = list_method_points(group_by_seed(runs))
    expected = {
        "points.csv": tables.tabulate_points(methods),
        "per_task.csv": tables.tabulate_tasks(runs),
        "regret.csv": tables.tabulate_regrets(runs),
        "costs.csv": costs.tables(Section(1, runs))["costs"],
    }
    for name, frame in expected.items():
        result = pd.read_csv(tmp_path / "out" / name, keep_default_na=False, na_values=["NaN"])
        assert list(result.columns[:3]) == ["stream", "stream_digest", "protocol"]
        assert set(result["stream_digest"].astype(str)) == {RUN.digest}
        for column in frame.columns:
            for ours, theirs in zip(frame[column], result[column], strict=True):
                if pd.isna(ours):
                    assert pd.isna(theirs), (name, column)
                else:
                    # pandas before 3 reads the last digit of a number differently
                    same = pytest.approx(ours, rel=1e-15) if isinstance(ours, float) else ours
                    assert type(ours)(theirs) == same, (name, column)
    for column, attribute in (("Mean error", "error"), ("Training FLOPs", "paper_total")):
        for (_, value), method in zip(page.column("points-1", column), methods, strict=True):
            mean = getattr(method, attribute).mean
            assert (value == "") if math.isnan(mean) else (float(value) == mean)
    fronts = ["on front" if m.on_paper_front else "–" if not m.error.n else None for m in methods]
    for (text, _), front in zip(page.column("points-1", "Front training"), fronts, strict=True):
        assert text == (front or "dominated")


@pytest.mark.usefixtures("undrawn")
def test_the_error_table_marks_the_best_and_states_gaps(tmp_path):
    a = RUN.but(learner="a", errors=(("task_001", 0.2), ("task_002", 0.1), ("task_003", 0.3)))
    b = RUN.but(learner="b", errors=(("task_001", 0.2), ("task_002", 0.4), ("task_003", None)))
    page = report(tmp_path, a, b, RUN.but(learner="c", events=3, errors=(("task_001", 0.0),)))
    columns = [page.column("errors-1", f"{name} · small") for name in "abc"]
    rows = [[text for text, _ in row] for row in zip(*columns, strict=True)]
    assert rows[0] == ["0.2000", "0.2000", "0.0000"]
    assert rows[1][:2] == ["0.1000", "0.4000"]
    assert rows[1][2] == rows[3][2] == "partial"
    assert rows[2][:2] == ["0.3000", "undefined"]
    best = re.findall(r'<td class="number best" data-value="([^"]*)"', page.source)
    assert [float(value) for value in best[:2]] == [0.0, 0.1]
    assert "Missing and undefined results (1)" in page.text
    assert page.tables["errors-1"][-1][1][0] == "Mean error"


def test_the_report_needs_a_directory(tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(BadInput, match="not a directory"):
        report(tmp_path, RUN)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Paths of runs, and a report of theirs with all files."""
    root = tmp_path_factory.mktemp("exported")
    paths = written(root, *usual_runs())
    return paths, write_report(paths, root / "out", figures=True).parent


@pytest.mark.parametrize("figures", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_same_runs_give_the_same_bytes(tmp_path, exported, figures):
    paths, first = exported
    write_report(paths, tmp_path, figures=figures)
    files = sorted(str(path.relative_to(first)) for path in first.rglob("*.*"))
    tables = {Path(name).stem for name in files if name.endswith(".csv")}
    assert tables >= {"per_task", "costs", "points", "regret", "runs"}
    assert {name for name in files if name.endswith(".tex")} == {
        f"latex/{table}.tex" for table in {*tables, "all_tables"}
    }
    pictures = {Path(name).stem for name in files if name.startswith("figures/")}
    assert pictures >= {"points", "regret"}
    assert {name for name in files if name.startswith("figures/")} == {
        f"figures/{picture}.{form}" for picture in pictures for form in ("png", "pdf")
    }
    for name in files:
        # the page and the list name the files of figures
        if figures or not name.startswith(("figures/", "report.html", "files.")):
            assert (first / name).read_bytes() == (tmp_path / name).read_bytes(), name


def test_exported_pictures_open_and_are_not_blank(exported):
    pictures = sorted((exported[1] / "figures").glob("*.png"))
    assert pictures
    for picture in pictures:
        with Image.open(picture) as image:
            assert image.width > 1000
            assert len(image.convert("RGB").resize((200, 100)).getcolors(20_000)) > 20
        assert picture.with_suffix(".pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.slow
def test_the_page_grows_by_little_for_a_run_more(tmp_path):
    """Ten more runs of 40 tasks and 50 points per curve: what 20 runs of 106 tasks take stays below
    10 MB.
    """
    large = RUN.but(tasks=40, meta_test=10, trials=1, curve_points=50, thumbnails=False)
    paths = written(tmp_path, *(large.but(learner=f"l{i % 6}", seed=i // 6) for i in range(12)))
    few, many = (
        write_report(chosen, tmp_path / str(len(chosen))).stat().st_size
        for chosen in (paths[:2], paths)
    )
    assert (many - few) / 10 * 20 * 106 / 40 + few < 5e6


@pytest.mark.slow
def test_twenty_runs_of_the_whole_stream_take_seconds(tmp_path):
    import time

    large = RUN.but(tasks=106, meta_test=27, trials=16, curve_points=50)
    runs = [large.but(learner=f"l{i % 10}", seed=i // 10, flops=10**15 + i) for i in range(20)]
    paths = written(tmp_path, *runs)
    began = time.process_time()  # of the CPU: other processes do not count
    write_report(paths, tmp_path / "out")
    assert time.process_time() - began < 20
