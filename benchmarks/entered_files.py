"""Counts the files of the project whose functions four commands enter: what one has to read to
follow a command.

    python -m benchmarks.entered_files [--tree=DIR] [--list]

--tree runs the code of another checkout, to compare. A file counts if one of its functions is
entered while no module is being imported, so what is imported and not used does not count. Threads
count, other processes do not.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from nevis_stream.errors import BadInput
from nevis_stream.experiments import engine
from nevis_stream.storage.tables import format_csv, parse_csv

COMMANDS = {
    "a small run": "launch.run --config=nearest_class_mean --run_dir={folder}/run --notensorboard",
    "run --dry_run": (
        "launch.run --config=ft_prev --config.train.steps=16 --run_dir={folder}/dry --dry_run"
    ),
    "add-model": (
        "launch.evaluate add-model --model={folder}/new.csv --method=irt_2pl --budget=16"
        " --cache={folder}/cache"
    ),
    "label status": "launch.label status {folder}/session",
}
PARTS = ("nevis_stream", "learners", "experiments", "launch")
PREPARATIONS = (
    "launch.evaluate import {folder}/board.csv --cache={folder}/cache",
    "launch.label start --model={folder}/probabilities.npz --pool={folder}/pool.npz"
    " --out={folder}/session",
    "launch.label next {folder}/session --count=8",
)
RECORD = "launch.label record {labels} --session={folder}/session"
PROGRAM = """
import inspect, json, runpy, sys, threading
out, tree, module, *sys.argv[1:] = sys.argv[1:]
files, importing = set(), 0

def note(frame, event, _):
    global importing
    code = frame.f_code
    if code.co_name == "_find_and_load" and "importlib" in code.co_filename:
        importing += (event == "call") - (event == "return")
    elif event == "call" and not importing and code.co_flags & inspect.CO_OPTIMIZED:
        files.add(code.co_filename)  # a function, not the body of a module or class

threading.setprofile(note)
sys.setprofile(note)
try:
    runpy.run_module(module, run_name="__main__", alter_sys=True)
finally:
    sys.setprofile(None)
    with open(out, "w") as file:
        json.dump(sorted(files), file)
"""


def write_inputs(folder: Path) -> None:
    """Writes a leaderboard of 30 models on 200 samples, a new model, and a pool of 100 images."""
    random = np.random.default_rng(0)
    chances = 1 / (1 + np.exp(-np.add.outer(random.normal(size=31), random.normal(size=200))))
    outcomes = (random.random(chances.shape) < chances).astype(int)
    names = ["model", *(f"sample{number}" for number in range(200))]
    rows = [[f"model{number}", *row] for number, row in enumerate(outcomes.tolist())]
    for name, part in {"board": rows[:30], "new": rows[30:]}.items():
        (folder / f"{name}.csv").write_text(format_csv(names, part))
    probabilities = random.dirichlet(np.ones(3), size=100)
    ids = [str(number) for number in range(100)]
    images = random.integers(0, 256, (100, 8, 8, 3), dtype=np.uint8)
    np.savez(folder / "probabilities.npz", probabilities=probabilities, samples=ids)
    np.savez(folder / "pool.npz", images=images)


def fill_labels(folder: Path) -> Path:
    """Returns the form of the session's first round, with every label 1."""
    (form,) = (folder / "session").rglob("to_label.csv")
    rows = [row | {"label": "1"} for row in parse_csv(form.read_text())]
    form.write_text(format_csv(rows[0], map(dict.values, rows)))
    return form


def run(tree: Path, folder: Path, words: Sequence[str]) -> None:
    """Runs Python in a folder with the packages of a tree.

    Raises:
      BadInput: it failed.
    """
    environment = os.environ | {"PYTHONPATH": str(tree), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    if done.returncode:
        raise BadInput(f"{words}: status {done.returncode}: {done.stderr[-500:]}")


def list_entered_files(tree: Path, folder: Path) -> Mapping[str, list[str]]:
    """Returns for each command the files of a tree that it enters, relative to the tree."""
    write_inputs(folder)
    for words in PREPARATIONS:
        run(tree, folder, ["-m", *words.format(folder=folder).split()])
    run(tree, folder, ["-m", *RECORD.format(folder=folder, labels=fill_labels(folder)).split()])
    out, result = folder / "files.json", {}
    for name, words in COMMANDS.items():
        run(
            tree, folder, ["-c", PROGRAM, str(out), str(tree), *words.format(folder=folder).split()]
        )
        files = {Path(file).resolve() for file in json.loads(out.read_text()) if file[0] == "/"}
        own = {file.relative_to(tree) for file in files if tree in file.parents}
        result[name] = sorted(str(file) for file in own if file.parts[0] in PARTS)
    return result


def main(tree: Path = Path(__file__).parents[1], list: bool = False) -> None:  # noqa: B008
    """Prints a table, and the files themselves with --list.

    Args:
      tree: root of the code that is run
      list: print the files too
    """
    tree = tree.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        found = list_entered_files(tree, Path(temporary).resolve())
    engine.print_table("command | files entered: | their lines:", ())
    for name, files in found.items():
        lines = sum(len((tree / file).read_text().splitlines()) for file in files)
        engine.print_row([name, len(files), f"{lines:,}"])
        if list:
            print("".join(f"  {file}\n" for file in files))


if __name__ == "__main__":
    engine.start(main, keep_programs=False)
