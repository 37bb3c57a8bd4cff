"""The same files in any order in one import give the same cache: logs, folders of them, tables."""

import itertools

import numpy as np
import pytest

from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.evaluation_cache.exchange import export_npz
from nevis_stream.launch.evaluate import SUBCOMMANDS
from nevis_stream.launch.evaluate_commands.fill import import_all
from tests.evaluation_cache.harness_logs import write

DATES = [f"2024-06-2{day}T00-00-00.00001" for day in range(1, 6)]


def whole_export(tmp_path, name, words):
    """What a cache holds after one import of these words, in this order."""
    values = next(each.flags for each in SUBCOMMANDS if each.name == "import")
    values.unparse_flags()
    values(["import", f"--cache={tmp_path / name}"])
    import_all([str(word) for word in words], values)
    export_npz(EvaluationCache(tmp_path / name), tmp_path / f"{name}.npz")
    with np.load(tmp_path / f"{name}.npz") as arrays:
        return {key: arrays[key].tolist() for key in arrays}


def check_every_order(tmp_path, words, most=8):
    orders = list(itertools.permutations(words))
    orders = orders[:: max(1, len(orders) // most)]
    first, *others = (
        whole_export(tmp_path, f"c{place}", order) for place, order in enumerate(orders)
    )
    assert others and all(each == first for each in others)
    return first


def test_logs_of_the_harness_in_folders_and_alone_with_variants_and_fragments(tmp_path):
    logs = [
        write(tmp_path / "z", [1, 1, 0], date=DATES[0], **{"n-shot": {"quiz": 0}}),
        write(tmp_path / "a", [1, 0, 0], date=DATES[1], **{"n-shot": {"quiz": 5}}),
        write(tmp_path / "k", [0, 0, 0], model="other", date=DATES[1]).parent,
        write(tmp_path / "b", [0, 1, 0], "sums", model="third", date=DATES[2], metric="f1"),
        # a later smoke test of the first samples, which the complete log goes before
        write(tmp_path / "new", [1], model="other", date=DATES[4], sizes=(3, 1)),
    ]
    write(tmp_path / "k", [0, 1, 0], "sums", model="other", date=DATES[2], metric="f1")
    found = check_every_order(tmp_path, logs)
    assert found["models"] == ["org/m [num_fewshot=0]", "org/m [num_fewshot=5]", "other", "third"]
    assert len(found["samples"]) == 6


def test_logs_of_two_tools_and_tables_together(tmp_path):
    pytest.importorskip("inspect_ai", reason="the extra `logs` is not installed")
    from tests.evaluation_cache.test_inspect_logs import evaluate

    evaluate(tmp_path / "m_inspect", [1, 0, 1], model="x")
    evaluate(tmp_path / "c_inspect", [0, 0, 1], model="y")
    harness = write(tmp_path / "harness", [1, 1, 0], "sums", model="org/m", date=DATES[0])
    tables = [tmp_path / "board.csv", tmp_path / "a_board.csv"]
    for place, table in enumerate(tables):
        # both have models and samples of their own, and some in common
        rows = [f"t{place},s{k + place},{k % 2}" for k in range(3)]
        table.write_text("\n".join(["model,sample,outcome", *rows, f"both,s{place + 5},1"]) + "\n")
    words = [tmp_path / "m_inspect", tmp_path / "c_inspect", harness, *tables]
    found = check_every_order(tmp_path, words)
    assert {"both", "t0", "t1", "org/m"} < set(found["models"])
    assert len(found["models"]) == 6
