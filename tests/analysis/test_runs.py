"""Which directories are used, and the reasons for leaving out the others."""

from nevis_stream.analysis.runs import group_by_stream, read_runs
from tests.report.synthetic import SyntheticRun

RUN = SyntheticRun()


def test_what_is_not_a_run_is_left_out_with_its_reason(tmp_path):
    good = RUN.write(tmp_path / "good")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    begun = RUN.but(events=0).write(tmp_path / "begun")
    (begun / "ledger.jsonl").write_text('{"kind": "run"')  # cut before its newline
    torn = RUN.but(seed=1).write(tmp_path / "torn")
    (torn / "ledger.jsonl").write_bytes(b"\xff\xfe\n")
    paths = [good, tmp_path / "nowhere", tmp_path / "empty", tmp_path / "file", begun, torn]
    runs, left_out = read_runs(paths)
    assert [run.path for run in runs] == [good]
    assert [item.path for item in left_out] == paths[1:]
    for item, words in zip(
        left_out,
        ("no such directory", "no ledger.jsonl", "not a directory", "no complete line", "line 1"),
        strict=True,
    ):
        assert words in item.reason


def test_a_repetition_is_counted_once_and_the_finished_one_is_kept(tmp_path):
    short = RUN.but(events=3).write(tmp_path / "short")
    whole = RUN.write(tmp_path / "whole")
    again = RUN.write(tmp_path / "again")
    runs, left_out = read_runs([short, whole, again, whole])
    assert [run.path for run in runs] == [whole]
    assert {item.path for item in left_out} == {short, again}
    assert all(str(whole) in item.reason for item in left_out)


def test_streams_and_protocols_are_kept_apart(tmp_path):
    variants = [RUN, RUN.but(digest="f" * 16), RUN.but(protocol="meta_train"), RUN.but(seed=1)]
    runs, _ = read_runs([run.write(tmp_path / str(i)) for i, run in enumerate(variants)])
    groups = group_by_stream(runs)
    assert [[run.name for run in group] for group in groups.values()] == [["0", "3"], ["1"], ["2"]]


def test_directories_of_one_name_are_told_apart(tmp_path):
    paths = [RUN.but(seed=seed).write(tmp_path / str(seed) / "run") for seed in (0, 1)]
    runs, _ = read_runs(paths)
    assert [run.name for run in runs] == [str(path) for path in paths]


def test_contradicting_ledgers_of_one_config_are_both_left_out(tmp_path):
    other = RUN.write(tmp_path / "other")
    paths = [RUN.write(tmp_path / "a"), other, RUN.write(tmp_path / "b")]
    text = (other / "ledger.jsonl").read_text()
    for name in ("error", "value"):
        assert text.count(f'"{name}":{RUN.error(2)}') == 1
        text = text.replace(f'"{name}":{RUN.error(2)}', f'"{name}":0.0')
    (other / "ledger.jsonl").write_text(text)
    healthy = RUN.but(seed=1).write(tmp_path / "healthy")
    runs, left_out = read_runs([*paths, healthy])
    assert [run.path for run in runs] == [healthy]
    assert {item.path for item in left_out} == set(paths)
    for item in left_out:
        assert f"differ in line 5, error: 0.0 and {RUN.error(2)}" in item.reason
        assert "none of the 3 runs is used" in item.reason


def test_the_beginning_of_a_run_does_not_contradict_it(tmp_path):
    paths = [RUN.but(events=n).write(tmp_path / str(n)) for n in (2, 5)]
    runs, left_out = read_runs(paths)
    assert [run.path for run in runs] == [paths[1]]
    assert "counted once" in left_out[0].reason
