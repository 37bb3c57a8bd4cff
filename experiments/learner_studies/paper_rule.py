"""Learners by the paper's rules: a queue of runs that continues where it stopped.

    python -m launch.data prepare --stream=local26
    python -m launch.data prepare --stream=omniglot
    python -m experiments.learner_studies.paper_rule --out=runs/rule [--only=TEXT] [--pause=FILE]
    python -m experiments.learner_studies.paper_rule --list

FT-d, FT-s, MT and PT-FT start from the task with the highest score. One run after another is made,
in the order of --list; what is on record is left out, an interrupted run continues in its run
directory, and while FILE exists the process of the run is stopped. Each complete run becomes a line
of experiments/learner_studies/paper_rule.jsonl (or of --record) with the project's commit, the
processor, CPU seconds and peak memory: make runs from a checkout without changes, with --record
outside of it, and compare only runs of one processor. `python -m experiments.pack_records` packs
the record, which is read and continued as before. All runs take about 40 hours of one core.
"""

import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nevis_stream.experiments import engine
from nevis_stream.experiments.learner_studies.paper_settings import (
    BUDGETS,
    LEARNERS,
    make_pretraining,
)
from nevis_stream.experiments.learner_studies.recorded_runs import (
    RecordedRuns,
    Run,
    make_command,
    read_result,
    require_prepared,
)
from nevis_stream.experiments.scripts import call
from nevis_stream.streams.named_streams import list_stream_rows

RECORD = Path(__file__).with_name("paper_rule.jsonl")
SETTING = "setting"

LONG: Mapping[str, Any] = {**BUDGETS["1x2400"], "budget": "small", "train.validate_every": "120"}
SHORT: Mapping[str, Any] = {**BUDGETS["2x480"], "budget": "small"}
SMALL: Mapping[str, Any] = {"budget": "small"}


@dataclass(frozen=True)
class Piece:
    """One run.

    Attributes:
      run: its name on record: setting, learner, seed. A row of the transfer matrix has the task
        that it starts from as its learner.
      values: of the config, by dotted name, with the stream.
      weights: name of the weights that it starts from; empty: none.
      row: whether it is a row of the transfer matrix.
    """

    run: Run
    values: Mapping[str, Any] = field(default_factory=dict)
    weights: str = ""
    row: bool = False

    def run_dir(self, out: Path) -> Path:
        """Returns the run directory."""
        setting, learner, seed = self.run
        if self.row:
            return out / "matrix" / f"from-{learner}"
        return out / setting.replace(" ", "-") / learner / f"seed-{seed}"

    def commands(self, out: Path) -> Iterator[list[str]]:
        """Yields the commands to run, one after the other."""
        if self.row:
            indep = MATRIX.run_dir(out)
            yield from MATRIX.commands(out)
            words = [sys.executable, "-m", "launch.transfer_matrix", f"--indep={indep}"]
            yield [*words, f"--out={out / 'matrix'}", f"--sources={self.run[1]}"]
            return
        values = dict(self.values)
        if self.weights:
            file = out / f"{self.weights}.safetensors"
            yield make_pretraining(self.weights, file)
            values["pretrained.path"] = file
        _, learner, seed = self.run
        yield make_command(learner, seed, self.run_dir(out), values)


MATRIX = Piece(("matrix 2x480", "indep", 0), {**SHORT, "stream": "local25"})


def _list_pieces(
    setting: str, learners: str, base: Mapping[str, Any], seeds: int = 3, **values: Any
) -> list[Piece]:
    """Returns a run for each of the learners, which spaces separate, and each seed."""
    own = {name.replace("__", "."): value for name, value in values.items()}
    return [
        Piece((setting, name, seed), {**base, **own}, LEARNERS.get(name, ""))
        for name in learners.split()
        for seed in range(seeds)
    ]


def list_queue() -> list[Piece]:
    """Returns all runs in the order in which they are made."""
    paper = "paper 1x2400"
    queue = _list_pieces(paper, "ft_dynamic", LONG, stream="local25")
    queue += _list_pieces("split", "ft_dynamic ft_prev indep", SMALL, stream="split_cifar100")
    queue += _list_pieces(paper, "ft_prev", LONG, stream="local25")
    queue += _list_pieces("hub 1x2400", "ft_dynamic ft_prev", LONG, stream="local25_hub")
    queue += _list_pieces(paper, "indep ft_static pt_ft", LONG, stream="local25")
    margin = {"select.margin": 4, **LONG}  # what allowing for noise is worth
    queue += _list_pieces("margin 4 1x2400", "ft_dynamic", margin, stream="local25")
    queue += [MATRIX]
    tasks = [row["task_id"] for row in list_stream_rows("local25")[1]]
    queue += [Piece(("matrix 2x480", task, 0), row=True) for task in tasks[:-1]]
    queue += _list_pieces(paper, "mt", LONG, stream="local25")
    for trials, best in ((8, 1), (4, 4), (4, 1), (4, 2), (8, 4), (8, 2), (8, 8)):
        name = f"ensemble {best} of {trials}"
        values = {"search__trials": trials, "ensemble": best}
        queue += _list_pieces(name, "ft_dynamic", SMALL, stream="local25", **values)
    for variant in (
        *("full", "major_domain_only", "large_dataset_only", "remove_first_30", "remove_last_30"),
        *(f"random_{n}@{draw}" for n in (43, 40) for draw in range(3)),
        *(f"remove_random_30@{draw}" for draw in range(2)),
    ):
        queue += _list_pieces(variant, "ft_dynamic", SMALL, stream=f"{variant}+partial")
    for order in (
        *("full", *(f"shuffled_within_year@{draw}" for draw in range(3))),
        *(f"shuffled@{draw}" for draw in range(3)),
    ):
        queue += _list_pieces(f"order {order}", "ft_prev", SMALL, stream=f"{order}+partial")
    for side in (16, 32, 64):
        values = {"network__resolution": side, "train__largest_batch": 128}
        queue += _list_pieces(f"resolution {side}", "indep", SMALL, stream="local25", **values)
    for start in ("related", "previous", "random"):
        for which, count in (("related", 1), ("related", 3), ("random", 1), ("all", 1)):
            if start == "related" or (which, count) == ("related", 1):
                values = {"initialisation": start, "auxiliary__count": count}
                values |= {"auxiliary__which": which, "stream": "short+partial"}
                queue += _list_pieces(f"mt {start} {which} {count}", "mt", SMALL, 2, **values)
    queue += _list_pieces("short", "ft_dynamic", SMALL, 2, stream="short+partial")
    for width in (4, 8, 16, 32):
        values = {"network__width": width, "stream": "local25"}
        queue += _list_pieces(f"width {width}", "indep", SMALL, 1, **values)
    for network in ("resnet18", "vgg11", "vit_tiny8", "nfnet_f0"):
        values = {"search__trials": 1, "train__steps": 60, "train__validate_every": 15}
        values |= {"network__name": network, "stream": "pico"}
        queue += _list_pieces(f"network {network}", "indep", SMALL, 1, **values)
    for space in ("small", "large"):
        for method in ("random", "bayesian"):
            for steps in (60, 120):
                values = {"search__trials": 8, "train__steps": steps, "search__method": method}
                values |= {"search__space": space, "train__validate_every": steps // 4}
                name = f"search {method} {space} {steps}"
                queue += _list_pieces(name, "indep", SMALL, 1, stream="local25", **values)
    for budget in ("tiny", "small"):
        base = {"budget": budget}
        name = f"cheap {budget}"
        queue += _list_pieces(name, "indep ft_prev ft_dynamic", base, 1, stream="local25")
    return queue


def measure(piece: Piece, out: Path, pause: Path | None) -> dict[str, Any]:
    """Runs a piece, and returns its result."""
    require_prepared(str(piece.values.get("stream", "local25")))
    run_dir = piece.run_dir(out)
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    continued, used = run_dir.exists(), (0.0, 0)
    for words in piece.commands(out):
        used = call(words, pause)  # of the last, the run itself
    result = read_result(run_dir)
    if not continued:
        result |= {"cpu_seconds": round(used[0]), "peak_bytes": used[1]}
    return result


def main(
    out: Path = Path("runs/rule"),
    record: Path = RECORD,
    only: str = "",
    pause: Path | None = None,
    list: bool = False,
) -> None:
    """Makes the runs that are missing; with `list` prints the names of all.

    Args:
      out: folder of the run directories.
      record: file to which complete runs are added.
      only: texts, of which the name of a run has to contain one.
      pause: a file; while it exists, what runs is stopped.
      list: whether nothing is run.
    """
    queue = [
        piece
        for piece in list_queue()
        if any(text in " ".join(map(str, piece.run)) for text in only.split(","))
    ]
    recorded = RecordedRuns(record, SETTING)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what runs ends too
    for piece in queue:
        if list:
            print(*piece.run, "" if recorded.has(piece.run) else "(missing)")
        elif not recorded.has(piece.run):
            recorded.add(piece.run, measure(piece, out, pause))


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
