"""Cells that were wrong are removed or amended, with a record that merging applies in any order."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

from nevis_stream.additions.standings import rank_models
from nevis_stream.dynamic_evaluation.fitted_board import digest_board
from nevis_stream.errors import BadInput, DamagedCache
from nevis_stream.evaluation_cache import EvaluationCache, make_cache_board, records
from nevis_stream.evaluation_cache.additions import Addition, append, digest_errata, read_additions
from nevis_stream.evaluation_cache.exchange import export_npz, import_file
from tests import forked

VALUES = (np.random.default_rng(0).random((4, 40)) < 0.6).astype(np.uint8)
MODELS, SAMPLES = [f"m{i}" for i in range(4)], [f"s{k}" for k in range(40)]


def filled(directory, rows=(0, 1, 2, 3), columns=range(40), values=VALUES):
    cache, at = EvaluationCache(directory, create=True), np.ix_(rows, columns)
    names = [MODELS[i] for i in rows], [SAMPLES[k] for k in columns]
    sure = np.full(values[at].shape, 0.5, np.float16)
    cache.append_rows(*names, values[at], confidence=sure)
    return cache


def same(cache, expected):
    """Whether a cache has these values, by every way in which they are read."""
    values = cache.matrix(MODELS, SAMPLES)
    assert np.array_equal(values, expected) and cache.verify() == []
    known = expected != 255
    total, count = cache.column_sums()
    order = [cache.samples().index(name) for name in SAMPLES]
    assert total[order].tolist() == np.where(known, expected, 0).sum(axis=0).tolist()
    assert count[order].tolist() == known.sum(axis=0).tolist()
    assert cache.row_sums()[1].sum() == known.sum()
    assert (np.isnan(cache.confidence(MODELS, SAMPLES)) >= ~known).all()
    packed = [row for row, _ in cache.packed_rows()]
    assert sum(int(np.bitwise_count(row).sum()) for row in packed) == (expected == 1).sum()


@pytest.mark.parametrize(
    "models, samples", [(["m1"], None), (None, ["s3", "s9"]), (["m0", "m2"], ["s5"])]
)
def test_cells_are_removed_and_do_not_come_back(models, samples, tmp_path):
    cache = filled(tmp_path / "c")
    record = cache.remove(models, samples, "the key was wrong")
    expected = VALUES.copy()
    rows = range(4) if models is None else [MODELS.index(each) for each in models]
    columns = range(40) if samples is None else [SAMPLES.index(each) for each in samples]
    expected[np.ix_(rows, columns)] = 255
    same(cache, expected)
    assert cache.errata() == [record] and "the key was wrong" in record.line()
    filled(tmp_path / "c")  # the same values again, and other ones, are held back
    filled(tmp_path / "c", values=np.where(expected == 255, 1 - VALUES, VALUES))
    same(cache, expected)
    copy = EvaluationCache(tmp_path / "copy", create=True)
    copy.merge(cache)
    assert copy.errata() == [record]
    same(copy, expected)
    export_npz(cache, tmp_path / "all.npz")
    import_file(tmp_path / "new", tmp_path / "all.npz")
    shape = 4 - (samples is None), 40 - 2 * (models is None)
    assert EvaluationCache(tmp_path / "new").shape == shape


def test_cells_are_amended_whether_observed_removed_or_unknown(tmp_path):
    cache = filled(tmp_path / "c", rows=(0, 1, 2))
    cache.append_rows(["m3"], ["s0"], [[1]])
    cache.remove(None, ["s1"], "ambiguous")
    cells = {"m0": {"s0": 1 - VALUES[0, 0], "s1": 1}, "m3": {"s7": 0}}
    cache.amend(cells, "judged again")
    expected = VALUES.copy()
    expected[3], expected[:, 1] = 255, 255
    expected[3, 0], expected[3, 7], expected[0, 0], expected[0, 1] = 1, 0, 1 - VALUES[0, 0], 1
    same(cache, expected)
    path = tmp_path / "again.csv"
    path.write_text(f"model,sample,outcome\nm0,s0,{VALUES[0, 0]}\nm2,s1,1\nm2,s2,{VALUES[2, 2]}\n")
    table = import_file(cache, path)
    assert any("2 cells not taken: removed or amended" in line for line in table.remarks)
    same(cache, expected)


@pytest.mark.parametrize("seed", range(6))
def test_merging_gives_the_same_in_any_order(seed, tmp_path):
    random = np.random.default_rng(seed)
    caches = []
    for number in range(3):
        rows = sorted(random.choice(4, 3, replace=False).tolist())
        columns = sorted(random.choice(40, 30, replace=False).tolist())
        cache = filled(tmp_path / f"{number}", rows, columns)
        cache.add_samples(SAMPLES, [None] * 40)
        for _ in range(2):
            model = MODELS[rows[random.integers(3)]]
            some = [SAMPLES[k] for k in random.choice(columns, 4, replace=False)]
            if random.random() < 0.5:
                cache.amend({model: {name: int(random.integers(2)) for name in some}}, "amended")
            else:
                cache.remove([model] if random.random() < 0.5 else None, some, "removed")
        caches.append(cache)
    found = []
    for number, order in enumerate(itertools.permutations(range(3))):
        target = EvaluationCache(tmp_path / f"t{number}", create=True)
        for place in (*order, order[0]):  # the first one twice
            target.merge(caches[place])
        found.append((target.matrix(MODELS, SAMPLES), digest_errata(target.directory)))
        same(target, found[0][0])
    assert len({state for _, state in found}) == 1 and len(caches[0].errata()) == 2


ACCOUNT = {"kind": "model", "name": "new", "method": "m", "budget": 10, "seed": 0}
ACCOUNT |= {"models": 4, "samples": 40, "asked": 10, "accuracy": 0.5}


@pytest.fixture
def estimated(tmp_path):
    """A cache with a model whose accuracy was estimated."""
    cache = filled(tmp_path / "c")
    cache.append("new", SAMPLES[:10], VALUES[0, :10])
    append(cache.directory, Addition(**ACCOUNT))
    return cache


def standing(cache):
    """The row of that model in the ranking."""
    return next(row for row in rank_models(cache)[0].standings if row.model == "new")


def command(name, cache, *words):
    return forked.run("nevis_stream.launch.evaluate", name, f"--cache={cache.directory}", *words)


def test_an_estimate_is_not_outdated_without_corrections(estimated):
    row = standing(estimated)
    assert row.method == "m" and not row.outdated


def test_a_correction_without_a_reason_is_refused(estimated):
    assert command("remove", estimated, "--samples=s3").returncode == 2
    assert estimated.errata() == []


def test_a_correction_counts_the_cells_and_the_estimates_that_rest_on_them(estimated):
    done = command("remove", estimated, "--samples=s3", "--reason=wrong key")
    assert "5 observed cells removed" in done.stdout, done.stderr
    assert "1 estimate of additions rest on values from before" in done.stdout


def test_a_correction_outdates_fits_and_estimates(estimated):
    fits = digest_board(make_cache_board(estimated), ["new"])
    estimated.remove(None, ["s3"], "wrong key")
    assert digest_board(make_cache_board(estimated), ["new"]) != fits
    assert standing(estimated).outdated


def test_an_estimate_that_is_made_again_has_an_account_of_its_own_and_is_not_outdated(estimated):
    estimated.remove(None, ["s3"], "wrong key")
    append(estimated.directory, Addition(**ACCOUNT))
    assert [each.errata for each in read_additions(estimated.directory)] == [
        None,
        digest_errata(estimated.directory),
    ]
    assert not standing(estimated).outdated


def test_cells_are_amended_by_a_file_whether_they_were_removed_or_not(estimated, tmp_path):
    estimated.remove(None, ["s3"], "wrong key")
    path = tmp_path / "a.csv"
    path.write_text("model,sample,outcome\nm0,s4,1\nm0,s3,0\n")
    done = command("amend", estimated, path, "--reason=judged again")
    assert "2 cells of m0 amended: judged again" in done.stdout, done.stderr
    assert estimated.matrix(["m0"], ["s3", "s4"]).tolist() == [[0, 1]]


def test_corrections_are_listed(estimated):
    estimated.remove(None, ["s3"], "wrong key")
    assert "all models on s3 removed: wrong key" in command("stats", estimated).stdout


def test_a_repeated_command_adds_no_second_record(tmp_path):
    cache = filled(tmp_path / "c")
    first = cache.remove(["m1"], ["s3"], "wrong")
    state = digest_errata(cache.directory)
    assert cache.remove(["m1"], ["s3"], "wrong") == first
    assert digest_errata(cache.directory) == state
    amended = cache.amend({"m1": {"s3": 1}}, "right")
    assert cache.amend({"m1": {"s3": 1}}, "right") == amended
    again = cache.remove(["m1"], ["s3"], "wrong")  # it is there again
    assert cache.errata() == [first, amended, again]


def test_the_later_correction_counts_where_the_clock_is_behind(tmp_path, monkeypatch):
    """Two machines correct one cache; the second one's clock is an hour behind, and never moves."""
    cache = filled(tmp_path / "c")
    times = iter(["2026-11-28T10:59:59.999999+00:00"] + 5 * ["2026-11-28T10:00:00.000000+00:00"])
    monkeypatch.setattr(records, "get_current_time", lambda: next(times))
    for value in (0, 1, 0, 1):
        cache.amend({"m0": {"s0": value}}, f"to {value}")
        assert cache.matrix(["m0"], ["s0"]) == value
    cache.remove(["m0"], ["s0"], "unclear")
    assert cache.matrix(["m0"], ["s0"]) == 255
    cache.amend({"m0": {"s0": 0}}, "clear")
    found = [each.time for each in cache.errata()]
    assert found[1] == "2026-11-28T11:00:00.000000+00:00" and found == sorted(set(found))
    assert cache.verify() == [] and cache.matrix(["m0"], ["s0"]) == 0
    other = EvaluationCache(tmp_path / "other", create=True)
    other.merge(cache)
    assert other.errata() == cache.errata() and other.matrix(["m0"], ["s0"]) == 0


@pytest.mark.parametrize("time", ["soon", "9999-12-31T23:59:59.999999+00:00", "2099-11-28T23:00Z"])
def test_a_record_of_another_time_does_not_hide_a_later_correction(time, tmp_path):
    """Another program wrote it."""
    cache = filled(tmp_path / "c")
    with cache.index.writing() as db:
        made = records.Erratum(time, "elsewhere", values={"m0": {"s0": 0.0}})
        records.add_errata(db, [made])
    try:
        cache.amend({"m0": {"s0": 1}}, "again")
    except DamagedCache as refused:
        assert repr(time) in str(refused)
    else:
        assert cache.matrix(["m0"], ["s0"]) == 1


def test_names_that_are_not_there_are_refused(tmp_path):
    cache = filled(tmp_path / "c")
    for call, message in (
        (lambda: cache.remove(["m9"], None, "r"), "'m9'.*'m0'"),
        (lambda: cache.remove(None, None, "r"), "Give models, samples, or both"),
        (lambda: cache.amend({"m0": {"s99": 1}}, "r"), "'s99'.*'s9'"),
        (lambda: cache.amend({"m0": {"s1": 7}}, "r"), "is not 0, 1"),
    ):
        with pytest.raises(BadInput, match=message):
            call()
    assert cache.errata() == []
    same(cache, VALUES)


def test_a_changed_record_is_noticed_and_repair_keeps_the_others(tmp_path):
    cache = filled(tmp_path / "c")
    kept = cache.remove(["m0"], ["s1"], "first")
    cache.remove(["m0"], ["s2"], "second")
    with cache.index.writing() as db:
        db.execute("UPDATE errata SET text = replace(text, 'second', 'twice') WHERE number = 2")
    assert cache.verify() == ["erratum 2: its record has changed since it was written"]
    cache.repair(tmp_path / "new")
    assert EvaluationCache(tmp_path / "new").errata() == [kept]


def test_a_killed_correction_changes_nothing(tmp_path):
    cache = filled(tmp_path / "c")
    script = (
        "import os, sys\n"
        "from nevis_stream.evaluation_cache import EvaluationCache, packing\n"
        "append = packing.TileFile.append\n"
        "packing.TileFile.append = lambda *a: (append(*a), os._exit(9))\n"
        "EvaluationCache(sys.argv[1]).remove(None, ['s3'], 'r')\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(cache.directory)])
    assert done.returncode == 9 and cache.errata() == []
    same(cache, VALUES)
    cache.remove(None, ["s3"], "r")
    expected = VALUES.copy()
    expected[:, 3] = 255
    same(cache, expected)


def test_a_record_is_text():
    record = records.Erratum("2026-01-01", "r", None, ("s",), {"m": {"s": 0.5}})
    assert records.Erratum.from_text(record.to_text()) == record


def test_models_that_are_one_model_elsewhere_keep_all_their_amended_values():
    values = {"m-v1": {"s": 0.0, "t": 1.0}, "m-v2": {"u": 1.0}}
    record = records.Erratum("2026-01-01", "r", values=values)
    renamed = record.rename({"m-v1": "m", "m-v2": "m"}, {"t": "task/t"})
    assert renamed.values == {"m": {"s": 0.0, "task/t": 1.0, "u": 1.0}}
