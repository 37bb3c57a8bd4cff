"""Whether runs of one config agree: on a CPU and on another device, and after a kill.

  python -m benchmarks.devices_agree --out=DIR [--device=cuda] [flags of launch.run]

Runs the config on a CPU, twice on the device, once more there with kills, and once begun on the
CPU and continued on the device; then prints what differs. FLOPs must be equal everywhere, and
ledgers of the device must be equal byte for byte. The exit status is 1 if they are not, or if an
error on the device differs from the CPU's by more than --tolerance on average over tasks.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from nevis_stream.experiments.scripts import make_parser
from nevis_stream.launch import entry
from nevis_stream.run_directory.ledger import Ledger
from nevis_stream.run_directory.records import PredictRecord

PAIRS = (
    ("device", "device_again", "the device twice"),
    ("device", "device_killed", "the device, without and with kills"),
    ("cpu", "device", "the CPU and the device"),
    ("cpu", "moved", "the CPU, and begun there and continued on the device"),
)


def start_run(run_dir: Path, platform: str, words: list[str]) -> subprocess.Popen:
    """Starts or continues the run on a platform of JAX."""
    variables = os.environ | {"JAX_PLATFORMS": platform}
    command = [sys.executable, "-m", "launch.run", f"--run_dir={run_dir}", "--notensorboard"]
    with run_dir.with_suffix(".log").open("ab") as log:
        return subprocess.Popen(
            [*command, "--checkpoint_seconds=0", *words], env=variables, stdout=log, stderr=log
        )


def complete(run_dir: Path, platform: str, words: list[str]) -> float:
    """Runs to the end; returns the seconds."""
    begun = time.perf_counter()
    if start_run(run_dir, platform, words).wait() != 0:
        lines = run_dir.with_suffix(".log").read_text().splitlines()
        raise SystemExit(
            "\n".join([f"error: the run {run_dir} failed on {platform}:", *lines[-5:]])
        )
    return time.perf_counter() - begun


def kill_run(run_dir: Path, platform: str, words: list[str], lines: int) -> None:
    """Runs until the ledger has a number of lines and a moment longer, then kills the process."""
    process, ledger = start_run(run_dir, platform, words), run_dir / "ledger.jsonl"
    while process.poll() is None:
        if ledger.exists() and ledger.read_bytes().count(b"\n") >= lines:
            time.sleep(0.2)
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.02)
    process.wait()


def print_row(title: str, first: Ledger, second: Ledger, tolerance: float | None) -> bool:
    """Prints how two runs differ; returns whether that is allowed."""
    equal = first.path.read_bytes() == second.path.read_bytes()
    flops = [
        [record.flops for record in (ledger.header, *ledger.events)] for ledger in (first, second)
    ]
    errors = [
        np.array([record.error for record in ledger.of_kind(PredictRecord)])
        for ledger in (first, second)
    ]
    same_flops = flops[0] == flops[1]
    if len(errors[0]) != len(errors[1]):
        print(f"| {title} | no | {'yes' if same_flops else 'NO'} | other tasks | | NO |")
        return False
    apart = np.abs(errors[0] - errors[1])
    mean = abs(errors[0].mean() - errors[1].mean())
    allowed = same_flops and (equal if tolerance is None else mean <= tolerance)
    print(
        f"| {title} | {'yes' if equal else 'no'} | {'yes' if same_flops else 'NO'} |"
        f" {apart.max():.4f} | {mean:.4f} | {'yes' if allowed else 'NO'} |"
    )
    return allowed


def main() -> None:
    """Runs what is missing, and prints the table."""
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--device", default="cuda", help="value of JAX_PLATFORMS")
    parser.add_argument(
        "--tolerance", type=float, default=0.02, help="of the mean error, CPU against device"
    )
    options, words = parser.parse_known_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = {name: options.out / name for name in ("cpu", *dict.fromkeys(b for _, b, _ in PAIRS))}
    for run_dir in runs.values():
        shutil.rmtree(run_dir, ignore_errors=True)
        run_dir.with_suffix(".log").unlink(missing_ok=True)
    for name in ("cpu", "device", "device_again"):
        platform = "cpu" if name == "cpu" else options.device
        print(f"{name}: {complete(runs[name], platform, words):.0f} s", flush=True)
    length = Ledger(runs["device"]).path.read_bytes().count(b"\n")
    for lines in (1, length // 3, 2 * length // 3):
        kill_run(runs["device_killed"], options.device, words, lines)
    complete(runs["device_killed"], options.device, words)
    kill_run(runs["moved"], "cpu", words, length // 2)
    complete(runs["moved"], options.device, words)
    print(
        "\n| runs | ledgers equal | FLOPs equal | largest difference in a task's error |"
        " difference in mean error | as it should be |\n|---|---|---|---:|---:|---|"
    )
    right = [
        print_row(
            title, Ledger(runs[a]), Ledger(runs[b]), options.tolerance if a == "cpu" else None
        )
        for a, b, title in PAIRS
    ]
    sys.exit(not all(right))


if __name__ == "__main__":
    entry.guard(main)
