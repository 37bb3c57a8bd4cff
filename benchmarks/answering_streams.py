"""Does an adaptive stream teach more than a static one, at equal labels?

FT-prev and Indep, each with five rules and several seeds, on the same pools: the error on the
untouched target distribution after the last round, with intervals of the difference to random
samples, paired by seed. Runs that are finished are read, so the command can be stopped and started.

    python -m benchmarks.answering_streams --out=runs/answering
    python -m benchmarks.answering_streams --out=runs/answering --pool=local25 --rounds=2
    python -m benchmarks.answering_streams --kills=25
"""

import random
import tempfile
from pathlib import Path

from nevis_stream.analysis.answering import CONTROL, compare_with_control, summarise_rules
from nevis_stream.analysis.runs import read_runs
from nevis_stream.analysis.seeds import group_by_seed
from nevis_stream.configs import run_config
from nevis_stream.configs.recorded import open_run
from nevis_stream.configs.run_config import run_config_once
from nevis_stream.cost.meter import format_engineering
from nevis_stream.errors import plural
from nevis_stream.experiments import scripts
from nevis_stream.experiments.scripts import make_parser, parse_positive
from nevis_stream.launch import entry
from nevis_stream.launch.evaluate_commands.fill import fill
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.streams.adaptive import rules
from nevis_stream.streams.named_streams import load_stream
from nevis_stream.vocabulary import POOL
from tests import forked
from tests.test_kill import KILLED, command, results

LEARNERS = ("indep", "ft_prev")
KNOWN = ("nearest_class_mean", "logistic_regression")  # whose answers fill the caches of `hardest`


def train(learner: str, stream: str, folder: Path, seed: int, arguments) -> Path:
    """Runs one config, or reads it if it is finished; returns its directory."""
    if folder.exists() and Ledger(folder).complete:
        return folder
    config = run_config.make_default(learner)
    config.stream, config.seed = stream, seed
    if learner in LEARNERS:
        config.budget = arguments.budget
        config.search.trials = arguments.trials
    config = run_config.resolve(config)
    run_config_once(config, load_stream(stream), folder, tensorboard=False)
    return folder


def run_study(arguments) -> None:
    """Runs what is missing and prints a table for each learner."""
    root = Path(arguments.out) / arguments.pool.replace("+", "-")
    stream = (
        f"adaptive:{arguments.pool},rounds={arguments.rounds},samples={arguments.samples},"
        f"candidates={arguments.candidates}"
    )
    caches = root / "caches"
    chosen = arguments.rules.split(",")
    for seed in range(arguments.seeds):
        for learner in KNOWN if "hardest" in chosen else ():
            folder = root / f"known-{learner}-{seed}"
            if not folder.exists() or not Ledger(folder).complete:
                train(learner, f"{stream},rule={CONTROL}", folder, seed, arguments)
            fill(open_run(folder), caches, splits=[POOL])
    folders = []
    for seed in range(arguments.seeds):
        for rule in chosen:
            name = f"{stream},rule={rule}" + (f",cache={caches}" if rule == "hardest" else "")
            for learner in arguments.learners.split(","):
                folder = root / f"{learner}-{rule}-{seed}"
                folders.append(train(learner, name, folder, seed, arguments))
    show(folders)


def show(folders: list[Path]) -> None:
    """Prints the rules of finished runs, the control first."""
    runs, left_out = read_runs(folders)
    for item in left_out:
        print(f"left out: {item.path}: {item.reason}")
    by_stream: dict[str, list] = {}
    for run in runs:
        by_stream.setdefault(run.header.stream_digest, []).append(run)
    groups = [group for members in by_stream.values() for group in group_by_seed(members)]
    print(scripts.describe())
    for compared in summarise_rules(groups):
        first = compared[0]
        print(f"\n{first.learner} on {first.pool}: {first.design}\n")
        print(
            "| rule | n | error, round 1 | error, last round | minus random (95%) | labels |"
            " labels seen | FLOPs |"
        )
        print("|---|---:|---:|---:|---:|---:|---:|---:|")
        for each in compared:
            difference = "–"
            if each.rule != CONTROL and first.rule == CONTROL:
                against = compare_with_control(each, first)
                difference = (
                    f"{against.difference:+.4f} ({against.low:+.4f} to {against.high:+.4f})"
                )
            print(
                f"| {each.rule.partition(' (')[0]} | {len(each.seeds)} |"
                f" {each.errors[0].mean():.4f} | {each.errors[-1].mean():.4f} | {difference} |"
                f" {each.labels:.0f} | {each.labels_seen:.0f} | {format_engineering(each.flops)} |"
            )


def kill_runs(kills: int) -> None:
    """Kills runs at random operations on files until there are so many kills; compares ledgers."""
    name = "toy@adaptive:pico_digits+pico_coins,rounds=3,samples=15,candidates=90,across=true"
    chance, count, runs = random.Random(0), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        done = forked.run(*command(whole, name, "inline"))
        assert done.returncode == 0, done.stderr
        expected = results(whole)
        while count < kills:
            run_dir, runs = Path(folder) / f"run-{runs}", runs + 1
            while True:
                fatal = chance.randint(20, 200) if count < kills else 0
                done = forked.run(*command(run_dir, name, "inline", fatal))
                if done.returncode != KILLED:
                    break
                count += 1
            assert done.returncode == 0, done.stderr
            assert results(run_dir) == expected, f"run {runs} differs"
    print(
        f"{scripts.describe()}\n{plural(count, 'kill')} in {plural(runs, 'run')}: equal ledgers,"
        " outcomes and streams"
    )


def main() -> None:
    """Reads the flags; see the module."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", default="runs/answering")
    parser.add_argument("--pool", default="mnist+fashion_mnist+emnist_balanced")
    parser.add_argument("--rounds", type=parse_positive, default=4)
    parser.add_argument("--samples", type=parse_positive, default=100)
    parser.add_argument("--candidates", type=parse_positive, default=1000)
    parser.add_argument("--seeds", type=parse_positive, default=3)
    parser.add_argument("--budget", default="tiny")
    parser.add_argument("--trials", type=parse_positive, default=2)
    parser.add_argument("--rules", default=",".join(rules.RULES))
    parser.add_argument("--learners", default=",".join(LEARNERS))
    parser.add_argument("--kills", type=int, default=0)
    arguments = parser.parse_args()
    entry.use_compilation_cache()
    if arguments.kills:
        kill_runs(arguments.kills)
    else:
        run_study(arguments)


if __name__ == "__main__":
    entry.guard(main)
