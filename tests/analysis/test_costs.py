"""Costs by part: exact, complete, and the same by task as in total."""

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nevis_stream.analysis.points import PARTS, list_costs_by_task, point, sum_phase_flops
from nevis_stream.run_directory.ledger import History, Ledger
from nevis_stream.run_directory.records import parse
from tests.report.synthetic import SyntheticRun


def ledger_of(init, *tasks):
    """A ledger in memory: FLOPs of `init`, and of each task (train, predict, chosen trial)."""
    records = SyntheticRun(tasks=max(len(tasks), 1), meta_test=0, trials=3).records()
    records[0]["flops"] = init
    for place, (train, predict, chosen) in enumerate(tasks):
        records[1 + 2 * place] |= {"flops": train, "chosen": chosen}
        records[2 + 2 * place] |= {"flops": predict, "trial": chosen}
    return History(Path(), [parse(record) for record in records[: 1 + 2 * len(tasks)]])


def cost_parts(ledger):
    """FLOPs by part over all tasks."""
    costs = list_costs_by_task(ledger)
    return {part: sum(cost.flops[part] for cost in costs) for part in PARTS}


def test_the_chosen_trials_are_told_from_the_search(tmp_path):
    ledger = Ledger(SyntheticRun(trials=3).write(tmp_path / "run"))
    # one trial of three is chosen per task: 1000 x (1 + 2 + 3 + 4), twice as much for the others
    expected = {
        "train": 10_000,
        "search": 20_000,
        "select": 12,
        "validate": 1200,
        "predict": 44,
        "pretrain": 7,
    }
    assert cost_parts(ledger) == expected
    init, first, *_ = list_costs_by_task(ledger)
    assert (init.order, init.task_id, init.flops["pretrain"]) == (0, "", 7)
    assert (first.order, first.task_id) == (1, "task_001")
    assert first.flops == {
        "train": 1000,
        "search": 2000,
        "select": 3,
        "validate": 300,
        "predict": 11,
        "pretrain": 0,
    }


def test_sums_are_exact_beyond_floats(tmp_path):
    ledger = Ledger(SyntheticRun(flops=10**20 + 1).write(tmp_path / "run"))
    parts, result = cost_parts(ledger), point(ledger)
    assert parts["train"] + parts["search"] == result.paper_total
    assert sum(parts.values()) == result.full_total == sum(sum_phase_flops(ledger).values())


def test_an_unfinished_run_has_its_cost_so_far(tmp_path):
    ledger = Ledger(SyntheticRun(events=3).write(tmp_path / "run"))
    assert [cost.order for cost in list_costs_by_task(ledger)] == [0, 1, 2]
    assert sum(cost_parts(ledger).values()) == sum(sum_phase_flops(ledger).values())


def test_training_outside_of_trials_is_no_search():
    flops = {"train": {"-": 5, "0": 7, "1": 11}}
    parts = cost_parts(ledger_of({}, (flops, {}, 1)))
    assert parts == dict.fromkeys(PARTS, 0) | {"train": 16, "search": 7}


counts = st.dictionaries(
    st.sampled_from(("pretrain", "train", "select", "validate", "predict")),
    st.dictionaries(st.sampled_from(("-", "0", "1", "2")), st.integers(0, 10**25), max_size=4),
)


@given(counts, st.lists(st.tuples(counts, counts, st.integers(0, 2)), max_size=5))
def test_nothing_is_lost_or_counted_twice(init, tasks):
    ledger = ledger_of(init, *tasks)
    assume(not ledger.uncounted)  # else a phase is unknown
    phases, parts = sum_phase_flops(ledger), cost_parts(ledger)
    assert parts["train"] + parts["search"] == phases["train"]
    assert {name: parts[name] for name in phases if name != "train"} == {
        n: v for n, v in phases.items() if n != "train"
    }


@pytest.mark.parametrize("protocol", ["meta_test", "meta_train"])
def test_both_protocols_add_up(tmp_path, protocol):
    ledger = Ledger(SyntheticRun(protocol=protocol).write(tmp_path / "run"))
    assert sum(cost_parts(ledger).values()) == point(ledger).full_total
