"""Files of an earlier report are removed, the user's files stay, and no list leads out of the
directory.
"""

import hashlib
import subprocess

import pytest

from nevis_stream.report import build, exports
from nevis_stream.report.build import write_report
from nevis_stream.report.exports import MANIFEST, Files
from nevis_stream.report.parts import differences, points
from tests.report.synthetic import SyntheticRun


def names(out):
    return {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}


def written(out, *files):
    report = Files(out)
    for name in files:
        report.write(name, name.encode())
    return report


def test_files_that_the_next_report_lacks_are_removed(tmp_path, monkeypatch):
    for module in (build, exports):
        monkeypatch.setattr(module, "PARTS", (points, differences))
    paths = [SyntheticRun(learner=name).write(tmp_path / name) for name in ("Indep", "FT-d")]
    out = tmp_path / "out"
    write_report(paths, out, figures=True)
    (out / "mine.csv").write_text("1")
    assert {"pairs.csv", "figures/points.png", "latex/pairs.tex"} <= names(out)
    write_report(paths[:1], out)
    left = names(out)
    assert not left & {"pairs.csv", "latex/pairs.tex"} and not any(
        name.startswith("figures/") for name in left
    )
    assert "mine.csv" in left
    write_report(paths[:1], tmp_path / "fresh")
    assert left == names(tmp_path / "fresh") | {"mine.csv"}
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", MANIFEST], cwd=out, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert len((out / MANIFEST).read_text().splitlines()) == len(left) - 2


def test_changed_files_stay_with_a_warning(tmp_path):
    written(tmp_path, "a.csv", "latex/b.tex").close()
    (tmp_path / "latex" / "b.tex").write_text("changed by hand")
    assert written(tmp_path, "c.csv").close() == ["latex/b.tex"]
    assert names(tmp_path) == {"latex/b.tex", "c.csv", MANIFEST}
    assert written(tmp_path, "d.csv").close() == []  # from now on it is the user's file
    run = SyntheticRun().write(tmp_path / "run")
    out = tmp_path / "out"
    written(out, "old.csv").close()
    (out / "old.csv").write_text("changed")
    with pytest.warns(UserWarning, match=r"changed since.*old\.csv"):
        write_report([run], out)


def test_a_report_that_was_killed_leaves_nothing_unknown(tmp_path):
    written(tmp_path, "a.csv").close()
    written(tmp_path, "a.csv", "b.csv")  # never closed
    written(tmp_path, "c.csv").close()
    assert names(tmp_path) == {"c.csv", MANIFEST}


def test_a_list_names_no_file_elsewhere(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    digest = hashlib.sha256(b"x").hexdigest()
    others = [
        "../x.csv",
        "deep/er/x.csv",
        "x.py",
        "latex/../../x.csv",
        f"{tmp_path}/x.csv",
        ".x.csv",
    ]
    (tmp_path / "x.csv").write_bytes(b"x")
    (out / "x.py").write_bytes(b"x")
    (out / "link.csv").symlink_to(tmp_path / "x.csv")
    lines = [f"{digest}  {name}\n" for name in (*others, "link.csv", "gone.csv")]
    (out / MANIFEST).write_text("".join(lines) + "no line of it\n")
    assert written(out).close() == []
    assert names(tmp_path) == {"x.csv", "out/x.py", "out/link.csv", f"out/{MANIFEST}"}
    (out / MANIFEST).write_bytes(b"\xff\x00")
    assert written(out, "a.csv").close() == []
