"""The commands that README, the guides and `--help` show, and a process that runs them.

python -m tests.documented_commands FOLDER [PAGE ...]

Runs the commands of each page in order, in a folder of its own below FOLDER, and prints the faults.
What they read is small: the embedded data sets have 8×8 images, `SMALLER` shortens a command, and
`INPUTS` makes what it names, where no earlier command of the page has made that.
"""

import ast
import contextlib
import csv
import functools
import glob
import importlib
import io
import os
import re
import runpy
import shlex
import shutil
import signal
import sys
import time
import traceback
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from absl import flags
from markupsafe import Markup
from PIL import Image
from safetensors.numpy import save_file

from nevis_stream import catalogue, dynamic_evaluation, user_code
from nevis_stream.datasets import sources
from nevis_stream.datasets.dataset import MULTI_LABEL, make_dataset
from nevis_stream.datasets.images import ArrayImages
from nevis_stream.evaluation_cache import EvaluationCache
from nevis_stream.experiments.theory import results
from nevis_stream.report import study_page, svg
from tests.datasets.archives import from_2012, since_2018, to_2011
from tests.evaluation_cache import harness_logs
from tests.learners.test_weight_layouts import resnet_shapes

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),  # commands of evidence take hours
]
HELP = [
    path
    for path in (*sorted((ROOT / "launch").glob("*.py")), ROOT / "experiments" / "published.py")
    if "\nif __name__ ==" in path.read_text()
]
"""Modules whose `--help` shows examples."""
BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>.*?) -->\n)?```(?P<language>[\w{}-]*)\n(?P<code>.*?)^```$", re.S | re.M
)
SHELL = ("bash", "sh")
_INLINE = r"`(?P<inline>(?:python -m|nevis-stream)\s[^`]+)`"
_NAME = re.compile(r"(nevis-stream|python -m)( [a-z][\w.-]*){1,2}")

NOT_RUN = {
    r"^make ": "makes an environment from a package registry",
    r"(nevis-stream|launch\.)demo$|nevis-stream demo$": "trains for minutes",
    r"benchmarks/gpu\.sh": "tests/test_gpu_script.py runs its pieces",
    r"^ray ": "needs Ray, an extra, and several machines",
    r"^(lm_eval|inspect) |evaluate (with-|tell sessions/lm|\w+ (inspect_logs|sessions/in\b))": (
        "needs a model, or what it wrote; tests/launch/test_harnesses.py runs small ones"
    ),
}
"""What is only parsed (tests/test_docs.py), by pattern, with the reason."""

NETWORK = "--config.network.name=mlp --config.network.hidden='(4,)' --config.network.resolution=8"
STEPS = "--config.train.steps=2 --config.train.validate_every=2 --config.search.trials=1"
QUICK = "--methods=random_mean,sort_and_search"
PLANNED = r"(?!.*(--help|--dry_run|--commands|--import_file))"
SMALLER = {
    r"--config\.stream=(split_imagenet|imagenet_only)": "--config.stream=pico",
    r"(config\.stream|overlap --stream)=(local25|omniglot|short|full(\+partial)?)\b": r"\1=pico",
    r"--set=stream=\S+": "--set=stream=pico",
    r"(--set=network\.\w+)=\S+,(\w+)": r"\1=\2",
    r"nfnet_f0": "resnet18",
    r"(data prepare (?!.*--offline).*)": r"\1 --offline",
    r"(data prepare .*--task=.*?)( --from=\S+)?( .*)?$": r"\1 --from=downloads --unverified\3",
    r"\btasks=omniglot": "tasks=pico_digits",
    r"--config\.budget=(cheap|paper|medium|small)": "--config.budget=tiny",
    r"--trials=[\d,]+ --steps=[\d,]+": "--trials=1 --steps=1,2",
    r"--set=steps=[\d,]+": "--set=steps=1,2",
    r"--config\.(train\.)?steps=\d+": r"--config.\1steps=2",
    r"(--config=studies/(?!.*(--commands|stream=)).*)": r"\1 --config.stream=pico",
    r"(--config=studies/(?!.*(--dry_run|--commands)).*)": r"\1 --dry_run",
    rf"^({PLANNED}.* (run|pretrain) .*--config=(indep|ft_|pt_).*)": rf"\1 {NETWORK} {STEPS}",
    rf"^({PLANNED}.* sweep .*--config=(indep|ft_).*)": rf"\1 {NETWORK}",
    r"^((?!.*network\.).*--config=(indep|ft_|studies/).*--dry_run.*)": rf"\1 {NETWORK}",
    r"(adaptive:\w+),rule": r"\1,rounds=3,samples=50,rule",
    r"samples=50": "samples=4,candidates=20",
    r"^(?!.*--dry_run)(.*--executor=ray.*)": r"\1 --dry_run",
    r"(slurm (?!.*--dry_run).*?) --( |$)": r"\1 --dry_run --\2",
    r"(--config=shared_\w+.*)": r"\1 --config.steps=2",
    r"(--config=logistic_regression.*)": r"\1 --config.resolution=4",
    r"\+ COMMAND\b": "+ launch.run --config=indep --run_dir=runs/a",
    r"-- COMMAND\b": "-- launch.run --config=indep --run_dir=runs/b",
    r"--budget=(\d\d+\b(?!%)|5%)": "--budget=8",
    r"--budgets=[\d,]+": "--budgets=8",
    r"(evaluate add-samples (?!.*--(method|help)).*)": r"\1 --method=stratified_mean",
    r"import FILE": "import mnist.npz",
    r" > [\w.]+$": "",
    r"--task=NAME": "--task=mnist",
    r"quadrature_local\+neural_process": "quadrature_local+mean",
    r"--labels=200 --repetitions=20": "--labels=10 --repetitions=2",
    r"(label simulate (?!.*--labels).*)": r"\1 --labels=10 --repetitions=2",
    r"(label simulate (?!.*--rules).*)": r"\1 --rules=uniform",  # of all in tests/active_testing
    r"(--import_file=resnet34.*)": r"\1 --config.network.width=1",
    r"--policies=\S+ --predictors=\S+": "--policies=strata,mean_variance --predictors=mean,irt_2pl",
    r"(evaluate study (?!.*--policies).*)": rf"\1 {QUICK}",
    r"(evaluate study .*)": r"\1 --budgets=8 --seeds=1",
    r"(evaluate metrics .*)": rf"\1 --budgets=8 --seeds=1 {QUICK}",
    r"(theory.*)": r"\1 --instances=9",
    r"cifar10_12k": "pico_digits",
    r"(dynamic-benchmark rollouts.*)": r"\1 --images=60 --rollouts=1 --base_accuracy=0.3",
    r"(rollouts (?!.*--design).*)": r"\1 --rounds=3 --width=2",
    r"(rollouts .*--design=path.*)": r"\1 --rounds=3",
    r"(rollouts .*--design=hierarchical.*?)--width=\d+": r"\1--width=2",
}
"""Patterns in a command, and what stands for them, one after the other."""

STATUS = {
    r"data prepare --stream=": 1,  # some data sets are not ready
    r"evaluate status sessions/new": 1,  # the session goes on
    r"label status .*--until": 1,  # not enough labels
}
"""Exit statuses other than 0 that the documents announce."""

MOST_SECONDS = 60  # of CPU; a command takes a tenth of it

ADVICE = """
Mend the page or the command. If it is right, but its inputs are missing, add them to INPUTS; if it
takes long, a shorter form to SMALLER; if it announces another status than 0, to STATUS; if it needs
a network, a cluster, a GPU or an extra, the reason to NOT_RUN (tests/documented_commands.py).
"""


def commands_of(page: Path, names: bool = False) -> Iterator[tuple[int, str]]:
    """Yields line and text of each command of a page's shell blocks and running text, or of a
    module's help; with `names` also what only names a command, `nevis-stream data import`.
    """
    text = page.read_text()
    if page.suffix == ".py":
        about = (ast.get_docstring(ast.parse(text)) or "").replace("\\\n", "")
        for match in re.finditer(r"^ *((?:python -m|nevis-stream) .*)$", about, re.M):
            # two spaces separate a command from what is said about it
            yield 1 + about.count("\n", 0, match.start()), re.split(" {2,}(?![ -])", match[1])[0]
        if "SUBCOMMANDS" in text and page.parent.name == "launch" and page.stem != "subcommands":
            module = importlib.import_module(f"nevis_stream.launch.{page.stem}")
            for each in module.SUBCOMMANDS:
                for example in each.examples:
                    line = text.count("\n", 0, text.find(f'"{example}"')) + 1
                    yield line, f"python -m launch.{page.stem} {example}"
        return
    for match in re.finditer(f"{BLOCK.pattern}|{_INLINE}", text, BLOCK.flags):
        if match["inline"]:
            command = " ".join(match["inline"].split())
            if names or not _NAME.fullmatch(command):
                yield text.count("\n", 0, match.start()) + 1, command
        elif match["language"] in SHELL:
            for shown in re.finditer(r"(?:.*\\\n)*.+", match["code"]):
                line = text.count("\n", 0, match.start("code") + shown.start()) + 1
                if command := shown[0].replace("\\\n", "").partition(" #")[0].strip():
                    yield line, command


def small_dataset(name: str):
    """Returns an embedded data set of 8×8 images, with the kind and classes of the real one."""
    row = catalogue.read_datasets()[name]
    classes = int(row["num_classes"])
    labels = np.arange(80) % classes
    if row["kind"] == MULTI_LABEL:
        labels = (np.arange(80)[:, None] + np.arange(classes)) % 3 == 0
    return make_dataset(name, row["kind"], {"all": (ArrayImages(pictures(80)), labels)}, classes)


def pictures(count: int, classes: int = 10) -> np.ndarray:
    """Returns uint8[count, 8, 8]: noise, as bright as its class."""
    noise = np.random.RandomState(0).randint(0, 90, size=(count, 8, 8))
    return (noise + 150 // classes * (np.arange(count) % classes)[:, None, None]).astype(np.uint8)


def arrays(path):
    np.savez(path, images=pictures(80), labels=np.arange(80) % 10)


def images(path):
    path.mkdir()
    for number, picture in enumerate(pictures(40)):
        Image.fromarray(picture).save(path / f"{path.name}-{number:02}.png")


def stream(path):
    arrays(path.with_name("one.npz"))
    path.write_text(
        "order,year,task_id,dataset_id,meta_split,path\n"
        "1,2001,pico_digits,pico_digits,train,\n2,2020,one,one,test,one.npz\n"
    )


def recorded_run(path):
    """Runs a learner, once for all pages: a run may be moved."""
    learner = "indep" if "indep" in path.name else "nearest_class_mean"
    kept = Path(os.environ["NEVIS_STREAM_DATA"]).parents[1] / "recorded" / learner
    if not kept.exists():
        run(shorter(f"nevis-stream run --config={learner} --run_dir={kept}"))
    shutil.copytree(kept, path)


def board(path):
    """Writes outcomes of 12 models on 40 samples, or of what is new: a model, or samples."""
    random = np.random.RandomState(len(path.name))
    models = 1 if path.name in ("new.csv", "board.csv") else 12
    stem, first = ("outcomes", 40) if path.name == "new.npz" else (path.stem, 0)
    names = [f"{stem}-{model}" for model in range(models)]
    if stem == "leaderboard":
        names[3] = "gpt-4"  # as the guides call a known model
    samples = [f"q{sample}" for sample in range(first, first + 40)]
    right = random.normal(size=(models, 1)) > np.linspace(-2, 2, 40) + random.normal(size=40) / 2
    if path.suffix == ".npz":
        facts = {"dataset": np.repeat(["squad", "math", "arena", "quiz"], 10)}
        np.savez(
            path,
            models=names,
            samples=samples,
            correct=right.astype(np.uint8),
            **(facts if stem == "board" else {}),
        )
        return
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["model", "sample", "outcome"])
        for name, row in zip(names, right.astype(int), strict=True):
            table.writerows([name, *cell] for cell in zip(samples, row, strict=True))


def corrected(path):
    """Writes a value for a cell of the cache that is corrected."""
    model = next(iter(EvaluationCache("caches/mine").models()))
    path.write_text(f"model,sample,outcome\n{model},q1,1\n")


def facts(path):
    """Writes when each model of two boards was made."""
    lines = [f"{board}-{model},{2000 + model}\n" for board in ("a", "board") for model in range(12)]
    path.write_text("model,date\n" + "".join(lines))


def logs(path):
    for task, metric in (("quiz", "acc"), ("facts", "acc_norm")):
        harness_logs.write(path, [0, 1] * 20, task, metric=metric)


def cache(path):
    board(Path("leaderboard.csv"))
    run(f"nevis-stream evaluate import leaderboard.csv --cache={path}")


def caches_of_runs(path):
    recorded_run(Path("runs/one"))
    recorded_run(Path("runs/indep-two"))
    run(f"nevis-stream evaluate import runs/one runs/indep-two --cache={path}")


def study(path):
    board(Path("a.npz"))
    run(shorter(f"nevis-stream evaluate study a.npz --out={path}"))


def downloads(path):
    """Writes archives as they are published, with few images."""
    path.mkdir()
    makers = to_2011.MAKERS | from_2012.MAKERS | since_2018.MAKERS
    for name in ("mnist", "usps", "voc2007"):
        makers[name](path)


def probabilities(path):
    """Writes what a model answers to 80 images of two classes."""
    right = np.random.RandomState(len(path.name)).uniform(0.05, 0.95, size=80)
    np.savez(path, probabilities=np.stack([right, 1 - right], axis=1), samples=np.arange(80))


def zipped(path):
    """Writes a zip of two folders of images."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, picture in enumerate(pictures(40)):
            with archive.open(f"{'ab'[number % 2]}/{number}.png", "w") as file:
                Image.fromarray(picture).save(file, "PNG")


def weights(path):
    """Writes the tensors of torchvision's ResNet-34, a channel wide."""
    shapes = resnet_shapes((3, 4, 6, 3), width=1)
    save_file({name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, path)


def study_config(path):
    shutil.copy(ROOT / path, path)


def own_learner(path):
    """Writes the learners that the guide shows."""
    page = (ROOT / "docs" / "adding-a-learner.md").read_text()
    blocks = [match["code"] for match in BLOCK.finditer(page)]
    path.write_text("\n".join(code for code in blocks if "def train(" in code))


def labels(path):
    """Fills in the latest page of the session."""
    latest = sorted(path.parent.glob("sessions/photos/rounds/*/to_label.csv"))[-1]
    with open(latest, newline="") as file, open(path, "w", newline="") as out:
        rows = list(csv.DictReader(file))
        table = csv.DictWriter(out, rows[0])
        table.writeheader()
        table.writerows(row | {"label": "0"} for row in rows)


def answers(path):
    """Answers what waits in the session of the page."""
    session = dynamic_evaluation.Session("sessions/new")
    rows = [f"{sample},{number % 2}\n" for number, sample in enumerate(session.ask())]
    path.write_text("sample,value\n" + "".join(rows))


def prices(path):
    """Writes what the samples of the board cost."""
    path.write_text("sample,tokens\n" + "".join(f"q{k},{300 + k}\n" for k in range(40)))


INPUTS = {
    r"prices\.csv": prices,
    r"answers\.csv": answers,
    r"runs(/[\w-]+)+": recorded_run,
    r"mine\.csv|my_stream\.csv": stream,
    r"(leaderboard|outcomes|new|board)\.(csv|npz)|[ab]\.npz": board,
    r"caches": caches_of_runs,
    r"caches/\w+|cache": cache,
    r"studies/\w+": study,
    r"photos|photos-of-may": images,
    r"lm_eval_results": logs,
    r"models\.csv": facts,
    r"corrected\.csv": corrected,
    r"downloads": downloads,
    r"(greys|scans|mnist|my_images|photos)\.npz": arrays,
    r"(resnet|vit)\.npz": probabilities,
    r"shapes\.zip": zipped,
    r"resnet34\.safetensors": weights,
    r"experiments/studies/\w+\.toml": study_config,
    r"mine\.py": own_learner,
    r"labels-[\w-]+\.csv": labels,
}
"""What commands name, by pattern, and what makes it."""


def make_inputs(text: str) -> None:
    """Makes what a command names and no one has made, in the working directory."""
    read = re.sub(r"--(run_dir|out)=\S+|(?<= import )(.*)--cache=\S+", r"\2", text)
    for word in re.findall(r"(?<=[\s='])[\w./*-]+", read + "\n" + "mine.py" * ("mine:" in text)):
        if glob.glob(word):
            continue
        whole = Path(word.replace("*", "one"))
        for path in (whole,) if "*" in word else (*reversed(whole.parents), whole):
            if path.exists():
                continue
            for pattern, make in INPUTS.items():
                if re.fullmatch(pattern, str(path)) and not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    make(path)


def shorter(text: str) -> str:
    """Returns a command that does the same with less, in the form of the console command."""
    text = re.sub(
        r"^python -m launch\.(\w+)",
        lambda module: f"nevis-stream {module[1]}".replace("_", "-"),
        text,
    )
    for pattern, replacement in SMALLER.items():
        text = re.sub(pattern, replacement, text)
    return text


class TakesLong(BaseException):
    """A command takes more CPU seconds than a test should."""


def stop(signum, frame):
    """Ends a command."""
    raise TakesLong(f"more than {MOST_SECONDS} CPU seconds")


def run(text: str) -> tuple[int, str]:
    """Runs a command in this process, as a new one would: its module and its flags are fresh.

    Returns:
      Its status, and what it printed.
    """
    words = [
        each
        for word in re.findall(r"(?:'[^']*'|\"[^\"]*\"|\S)+", text)
        for each in (sorted(glob.glob(word)) or shlex.split(word))
    ]
    if words[0] == "nevis-stream":
        words[:2] = (
            ["python", "-m", f"launch.{words[1].replace('-', '_')}"]
            if not words[1].startswith("-")
            else ["python", "-m", "launch.console", words[1]]
        )
    module, sys.argv[1:] = f"nevis_stream.{words[2]}", words[3:]
    for name in [name for name in sys.modules if ".experiments.commands." in name]:
        del sys.modules[name]  # subcommands of research, with their flags
    for name in set(flags.FLAGS):  # those of libraries are defined once, when they are imported
        definer = flags.FLAGS.find_module_defining_flag(name)
        if definer not in sys.modules or definer.startswith("nevis_stream"):
            delattr(flags.FLAGS, name)
    user_code._finder.folders.clear()
    importlib.invalidate_caches()
    output, status = io.StringIO(), 0
    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        try:
            with warnings.catch_warnings():  # it may be imported already
                warnings.filterwarnings("ignore", ".*found in sys.modules", RuntimeWarning)
                runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code or 0
        except BaseException:
            status = 1
            output.write(traceback.format_exc())
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    return status, output.getvalue()


def run_page(page: Path, folder: Path) -> Iterator[str]:
    """Runs a page's commands in a folder and yields the faults."""
    folder.mkdir(parents=True)
    os.chdir(folder)
    os.environ |= {"NEVIS_STREAM_DATA": str(folder / "data"), "NEVIS_STREAM_SHARED": str(folder)}
    for line, command in commands_of(page):
        if any(re.search(pattern, command) for pattern in NOT_RUN):
            continue
        begin = time.process_time()
        text, status, output = shorter(command), 0, ""
        try:
            make_inputs(text)
            for part in text.split("| xargs"):
                status, output = run(f"{part} {output.replace(chr(10), ' ')}")
        except Exception:
            status, output = -1, traceback.format_exc()
        seconds = time.process_time() - begin
        print(f"{seconds:6.1f} {page.name}:{line}: {text}", file=sys.stderr)
        expected = next((n for pattern, n in STATUS.items() if re.search(pattern, text)), 0)
        if status != expected or "Traceback (most recent call last)" in output:
            place = os.path.relpath(page, ROOT)
            yield f"{place}:{line}: {command}\nrun as: {text}\nends with {status}:\n{output}"


if __name__ == "__main__":
    sources.build_embedded = small_dataset
    for name, less in (
        ("run_worst_cases", (10, 12, 16)),
        ("measure_depths", 10),
    ):  # once, for all pages
        less_of_it = functools.partial(getattr(results, name), less)
        setattr(results, name, functools.cache(less_of_it))
    study_page.Picture.svg = Markup("")  # those of studies are drawn in tests/experiments
    pages = [ROOT / page for page in sys.argv[2:]] or PAGES + HELP
    outside = Path(sys.argv[1]).absolute()
    for page in pages:
        for fault in run_page(page, outside / f"{page.parent.name}-{page.stem}"):
            print(f"{fault}\n{ADVICE}")
        # the figures of one page's reports are enough: they take most of a report's time
        svg.render_pictures = lambda drawings, number=None: dict.fromkeys(drawings, Markup(""))
