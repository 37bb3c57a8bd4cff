"""The commands that write, each with small inputs and what must have been done before it."""

import asyncio
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.datasets.archives import to_2011

MLP = ["--config.network.name=mlp", "--config.network.hidden=(4,)", "--config.network.resolution=8"]
TRAINING = [*MLP, "--config.train.steps=4", "--config.train.validate_every=2"]
TRAINING += ["--config.search.trials=2", "--config.stream=two.csv"]
MEANS = ["--config=nearest_class_mean", "--config.stream=two.csv"]
QUICK = ["--methods=random_mean,sort_and_search", "--budgets=8", "--seeds=1"]
Step = Sequence[str] | Callable[[], None]


@dataclass(frozen=True)
class Command:
    """A command under test.

    Attributes:
      name: in the table.
      words: of the command, after `nevis-stream`; or a function.
      setup: what is done before, in the same folder: words or functions.
      trains: whether it trains networks, which takes seconds: fewer points are chosen.
    """

    name: str
    words: Step
    setup: Sequence[Step] = ()
    trains: bool = False


def write_stream() -> None:
    """Writes a stream of two small data sets."""
    for name, classes, seed in (("a", 3, 1), ("b", 2, 2)):
        chance = np.random.RandomState(seed)
        labels = chance.randint(classes, size=40)
        noise = chance.randint(0, 90, size=(40, 8, 8))
        images = (noise + 40 * labels[:, None, None]).astype(np.uint8)
        np.savez(f"{name}.npz", images=images, labels=labels)
    Path("two.csv").write_text(
        "order,year,task_id,dataset_id,meta_split,path\n"
        "1,2012,a,a,train,a.npz\n2,2023,b,b,test,b.npz\n"
    )


def write_boards() -> None:
    """Writes outcomes of known and new models, and of new samples."""
    chance = np.random.RandomState(0)
    difficulty = chance.normal(size=50)
    skill = chance.normal(size=(12, 1))
    right = (skill - difficulty + chance.normal(size=(12, 50)) / 2 > 0).astype(int)
    parts = {"board": (range(8), 40), "other": (range(4, 10), 40), "new": ([11], 40)}
    parts |= {"three": ([9, 10, 11], 40), "samples": (range(8), 50)}
    parts |= {"amended": ([2, 3], 20)}
    for name, (models, end) in parts.items():
        first = 40 if name == "samples" else 0
        with open(f"{name}.csv", "w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["model", *(f"s{sample}" for sample in range(first, end))])
            changed = int(name == "amended")
            table.writerows([f"m{model}", *(right[model, first:end] ^ changed)] for model in models)


def write_pool() -> None:
    """Writes images without labels, and what two models say about them."""
    chance = np.random.RandomState(0)
    labels = chance.randint(3, size=60)
    images = (chance.randint(0, 90, size=(60, 8, 8)) + 40 * labels[:, None, None]).astype(np.uint8)
    for name, part in (("pool", slice(40)), ("more", slice(40, 60))):
        np.savez(f"{name}.npz", **{"images" if name == "pool" else "images_more": images[part]})
        for model in "xy":
            powers = np.exp(2 * np.eye(3)[labels] + chance.normal(size=(60, 3)))[part]
            answers = powers / powers.sum(axis=1, keepdims=True)
            np.savez(f"{model}-{name}.npz", probabilities=answers)
    np.savez("labelled.npz", images=images[:40], labels=labels[:40])


def fill_in(label: int = 0) -> None:
    """Fills in the latest page of a session."""
    latest = sorted(Path("session/rounds").glob("*/to_label.csv"))[-1]
    with open(latest, newline="") as file:
        rows = list(csv.DictReader(file))
    with open("labels.csv", "w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(row | {"label": str(label)} for row in rows)


def write_answers() -> None:
    """Writes values of the samples that a session asks for."""
    from nevis_stream.dynamic_evaluation.session import Session

    rows = [f"{sample},{len(sample) % 2}\n" for sample in Session("live").ask()]
    Path("answers.csv").write_text("sample,value\n" + "".join(rows))


def answer(ids: Sequence[str]) -> list[int]:
    """Returns values of samples, as a model would."""
    return [len(sample) % 2 for sample in ids]


async def answer_one(sample: str) -> int:
    """Returns the value of a sample."""
    return len(sample) % 2


def in_python(work: Callable[[Any], object]) -> Callable[[], None]:
    """Returns a step of what is done with `dynamic_evaluation`; its mistakes are messages."""

    def step() -> None:
        from nevis_stream import dynamic_evaluation
        from nevis_stream.launch import entry

        entry.guard(lambda: work(dynamic_evaluation) and None)

    return step


def read_answers() -> dict[str, int]:
    """Returns values by sample from the file of `write_answers`."""
    with open("answers.csv", newline="") as file:
        return {row["sample"]: int(row["value"]) for row in csv.DictReader(file)}


HARNESS = """
import json, sys
words = dict(zip(sys.argv[1:], sys.argv[2:]))
with open(words["--samples"]) as file:
    asked = json.load(file)["quiz"]
with open(words["--output_path"] + "/samples_quiz_2024-06-28T00-00-00.00001.jsonl", "w") as file:
    for each in asked:
        line = {"doc_id": each, "filter": "none", "metrics": ["acc"], "acc": each % 2}
        print(json.dumps(line), file=file)
"""


def write_quiz() -> None:
    """Writes outcomes by task and number, and a program that does what a harness does."""
    Path("harness.py").write_text(HARNESS)
    with open("quiz.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "dataset", "sample", "outcome"])
        table.writerows(
            [f"m{model}", "quiz", sample, int((model * sample + model) % 3 > 0)]
            for model in range(8)
            for sample in range(20)
        )


def change_answers() -> None:
    """Turns all values into 1."""
    file = Path("answers.csv")
    file.write_text(file.read_text().replace(",0\n", ",1\n"))


def damage() -> None:
    """Changes a byte of a cache's cells."""
    file = Path("cache") / "cells.bin"
    data = bytearray(file.read_bytes())
    data[20] ^= 1
    file.write_bytes(data)


def write_archives() -> None:
    """Writes archives of data sets as they are published."""
    Path("downloads").mkdir()
    to_2011.MAKERS["mnist"](Path("downloads"))


def prepare_archives() -> None:
    """Prepares a data set as `data prepare` does, but in this process."""
    from nevis_stream.datasets.preparation.prepare import prepare
    from nevis_stream.launch import entry

    places = [Path("downloads")]
    entry.guard(lambda: prepare("mnist", places, download=False, verified=False) and None)


def evaluate(*words: str) -> list[str]:
    """Returns a command on the cache."""
    return ["evaluate", *words, "--cache=cache"]


IMPORT = evaluate("import", "board.csv")
CACHE = [write_boards, IMPORT]
RUN = [*MEANS, "--run_dir=runs/a"]
START = ["label", "start", "--pool=pool.npz", "--out=session", "--model=x-pool.npz"]
START += ["--model=y-pool.npz"]
NEXT = ["label", "next", "session", "--count=5"]
RECORD = ["label", "record", "labels.csv", "--session=session"]
SESSION = [write_pool, START]
LABELLED = [*SESSION, NEXT, fill_in, RECORD]
LIVE = ["evaluate", "start", "board.csv", "--model=new", "--out=live", "--budget=8"]
LIVE += ["--method=stratified_mean"]
ASK = ["evaluate", "ask", "live"]
TELL = ["evaluate", "tell", "live", "answers.csv"]
ASKED = [write_boards, LIVE, [*ASK, "--count=5"], write_answers]
DATA = ["data", "import", "a.npz", "--task=mine", "--year=2024", "--domain=object"]
ADD = evaluate("add-model", "--budget=8", "--method=stratified_mean")
ADDED = [*ADD, "--model=new.csv"]
REMOVE = evaluate("remove", "--reason=wrong")
ADAPTIVE = [*LIVE[:-1], "--method=irt_2pl_adaptive"]

COMMANDS = [
    Command("run", ["run", *RUN], [write_stream]),
    Command(
        "run ft_prev",
        ["run", "--config=ft_prev", *TRAINING, "--checkpoint_seconds=0", "--run_dir=runs/a"],
        [write_stream],
        trains=True,
    ),
    Command("run --cache", ["run", *RUN, "--cache=caches"], [write_stream]),
    Command(
        "run adaptive",
        ["run", "--config=nearest_class_mean", "--run_dir=runs/a"]
        + ["--config.stream=adaptive:pico_digits,rounds=2,samples=4,candidates=20"],
    ),
    Command(
        "sweep",
        ["sweep", *MEANS, "--set=learner=nearest_class_mean,logistic_regression", "--run_dir=runs"],
        [write_stream],
        trains=True,
    ),
    Command(
        "pretrain",
        ["pretrain", "--config=indep", *TRAINING, "--tasks=a"] + ["--out=weights.safetensors"],
        [write_stream],
        trains=True,
    ),
    Command(
        "transfer-matrix",
        ["transfer-matrix", "--indep=runs/indep", "--stream=two.csv", "--out=runs/transfer"],
        [write_stream, ["run", "--config=indep", *TRAINING, "--run_dir=runs/indep"]],
        trains=True,
    ),
    Command("evaluate import", IMPORT, [write_boards]),
    Command("evaluate import (more)", evaluate("import", "other.csv"), CACHE),
    Command(
        "evaluate import (run)",
        evaluate("import", "runs/a", "--stream=two.csv"),
        [write_stream, ["run", *RUN]],
    ),
    Command("evaluate add-model", ADDED, CACHE),
    Command("evaluate add-model (three)", [*ADD, "--model=three.csv"], CACHE),
    Command(
        "evaluate add-samples",
        evaluate("add-samples", "--samples=samples.csv", "--budget=4", "--method=stratified_mean"),
        CACHE,
    ),
    Command(
        "evaluate fit",
        evaluate("fit", "--budget=8", "--method=linear_gaussian"),
        CACHE,
        trains=True,
    ),
    Command("evaluate export", evaluate("export", "all.npz"), CACHE),
    Command("evaluate repair", evaluate("repair", "--out=repaired"), [*CACHE, damage]),
    Command("evaluate metrics", evaluate("metrics", *QUICK), CACHE),
    Command(
        "evaluate merge",
        ["evaluate", "merge", "second", "--cache=cache"],
        [*CACHE, ["evaluate", "import", "other.csv", "--cache=second"]],
    ),
    Command("evaluate merge (new)", ["evaluate", "merge", "cache", "--cache=merged"], CACHE),
    Command(
        "evaluate study", ["evaluate", "study", "board.csv", *QUICK, "--out=study"], [write_boards]
    ),
    Command("evaluate remove", [*REMOVE, "--samples=s3"], CACHE),
    Command("evaluate remove (after an addition)", [*REMOVE, "--models=m1"], [*CACHE, ADDED]),
    Command("evaluate amend", evaluate("amend", "amended.csv", "--reason=again"), CACHE),
    Command("evaluate board", ["evaluate", "board", "cache", "--csv=ranked.csv"], CACHE),
    Command("evaluate plan", ["evaluate", "plan", "board.csv", "--csv=plan.csv"], [write_boards]),
    Command("evaluate start", LIVE, [write_boards]),
    Command("evaluate start (cache)", ["evaluate", "start", "cache", *LIVE[3:]], CACHE),
    Command("evaluate ask", ASK, [write_boards, LIVE]),
    Command("evaluate ask (worker)", [*ASK, "--count=3", "--worker=a"], ASKED),
    Command("evaluate ask (next round)", ASK, [write_boards, ADAPTIVE, ASK, write_answers, TELL]),
    Command("evaluate tell", TELL, ASKED),
    Command("evaluate tell --correct", [*TELL, "--correct"], [*ASKED, TELL, change_answers]),
    Command("evaluate report", ["evaluate", "report", "live"], [*ASKED, TELL]),
    Command(
        "evaluate with-lm-eval",
        ["evaluate", "with-lm-eval", "live", "--", sys.executable, "harness.py"]
        + ["--output_path=out"],
        [write_quiz, [*LIVE[:2], "quiz.csv", *LIVE[3:-1], "--method=irt_2pl_adaptive"]],
    ),
    Command("Session.tell", in_python(lambda de: de.Session("live").tell(read_answers())), ASKED),
    Command(
        "Session.run",
        in_python(lambda de: de.Session("live").run(answer, count=3)),
        [write_boards, ADAPTIVE],
    ),
    Command(
        "Session.run_async",
        in_python(lambda de: asyncio.run(de.Session("live").run_async(answer_one))),
        [write_boards, LIVE],
    ),
    Command(
        "compare (Python)",
        in_python(
            lambda de: de.compare(
                de.read_board("board.csv"), {"a": answer, "b": lambda ids: [1] * len(ids)}
            )
        ),
        [write_boards],
    ),
    Command("label start", START, [write_pool]),
    Command("label next", NEXT, SESSION),
    Command("label next (second)", NEXT, LABELLED),
    Command("label record", RECORD, [*SESSION, NEXT, fill_in]),
    Command(
        "label record --correct",
        [*RECORD, "--correct"],
        [*LABELLED, lambda: fill_in(1)],
    ),
    Command(
        "label start --continue",
        ["label", "start", "--continue", "--pool=more.npz:more", "--out=session"]
        + ["--model=x-more.npz", "--model=y-more.npz"],
        SESSION,
    ),
    Command("label report", ["label", "report", "session"], LABELLED),
    Command(
        "label simulate",
        ["label", "simulate", "--model=x-pool.npz", "--pool=labelled.npz"]
        + ["--labels=10", "--repetitions=2", "--out=study"],
        [write_pool],
    ),
    Command("data import", DATA, [write_stream]),
    Command("data import --store=raw", [*DATA, "--store=raw"], [write_stream]),
    Command("data import (again)", [*DATA, "--store=raw"], [write_stream, DATA]),
    Command(
        "data prepare",
        prepare_archives,
        [write_archives],
    ),
    Command("data show", ["data", "show", "pico_digits", "--out=sheets"]),
    Command("data overlap", ["data", "overlap", "--stream=two.csv"], [write_stream]),
    Command(
        "report",
        ["report", "runs/a", "cache", "--out=report"],
        [write_stream, ["run", *RUN], *CACHE, evaluate("metrics", *QUICK)],
    ),
    Command(
        "compare",
        ["compare", "runs/a", "runs/b", "--out=compared.csv"],
        [
            write_stream,
            ["run", *RUN],
            ["run", "--config=logistic_regression", *MEANS[1:], "--run_dir=runs/b"],
        ],
    ),
    Command(
        "dynamic-benchmark theory",
        ["dynamic-benchmark", "theory", "--instances=9", "--out=theory"],
        trains=True,
    ),
    Command(
        "dynamic-benchmark rollouts",
        ["dynamic-benchmark", "rollouts", "--data=pico_digits", "--images=45", "--rollouts=1"]
        + ["--base_accuracy=0.4", "--design=path", "--rounds=3", "--out=rollouts"],
        trains=True,
    ),
]

NOT_SWEPT = {
    "data list": "prints",
    "data verify": "prints",
    "demo": "trains for minutes; it is `run` and `report`",
    "evaluate compare": "prints",
    "evaluate stats": "prints",
    "evaluate status": "prints",
    "evaluate verify": "prints",
    "evaluate with-inspect": "it is `with-lm-eval` around another harness",
    "label status": "prints",
    "slurm": "needs a cluster: tests/nightly/test_real_slurm.py",
    "watch": "prints",
}
"""Commands of the table that are not above, with the reason."""
