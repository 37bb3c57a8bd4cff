"""The account of an addition is written once, however often its command is started."""

from dataclasses import replace

from nevis_stream.evaluation_cache.additions import ADDITIONS, Addition, append, read_additions

ADDITION = Addition(
    kind="model", name="m", method="random", budget=3, seed=0, models=2, samples=9, asked=3
)


def test_the_same_account_is_written_once(tmp_path):
    other = replace(ADDITION, seed=1)
    again = replace(ADDITION, flops_method=5)  # a fit that is there costs nothing
    for addition in (ADDITION, other, ADDITION, other, again):
        append(tmp_path, addition)
    assert read_additions(tmp_path) == [ADDITION, other]
    assert (tmp_path / ADDITIONS).read_bytes().count(b"\n") == 2
