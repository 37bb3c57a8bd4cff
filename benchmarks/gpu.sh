#!/usr/bin/env bash
# The measurements that need a GPU, in pieces of at most ten minutes; without arguments it lists them.
#
#   benchmarks/gpu.sh PIECE [OUT]       runs a piece; its tables go to OUT/PIECE.md (default: build/gpu)
#   NEVIS_STREAM_DRY=1 benchmarks/gpu.sh PIECE [OUT]      the same, tiny, on a CPU: does it still work?
#
# PYTHON is the interpreter (default: python3). NEVIS_STREAM_SHARED names the folder of shared data sets
# and matrices; tasks whose data are missing are left out. The machine needs no network: the piece
# `wheels` installs what is missing from a folder. Runs are kept in OUT/runs, so that a piece that was
# cut continues. A table is written row by row: what a time limit cuts off is only the rest.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
piece=${1:-} out=${2:-build/gpu} python=${PYTHON:-python3} dry=${NEVIS_STREAM_DRY:-}

list() {
    cat <<'LIST'
piece       minutes  writes
wheels            1  the packages that this Python lacks; installs them from NEVIS_STREAM_WHEELS
correct          10  FLOPs of steps, runs on CPU and GPU, kill and continue; the tests that compute
train_step       10  images/s, share of the matrix-product peak, memory: networks × batch × precision; profiles
trials            8  trials × steps per second: one program (vmap), processes, one after the other
stream            6  ft_dynamic, budget cheap: steps per second, hours for all tasks, shares of time
stream_more       6  the same run continued, which makes it 12 minutes
small            10  ft_dynamic, budget small, 2,400 steps: minutes and errors; continues if it was cut
evaluation        4  dynamic evaluation on CPU and GPU: seconds, and whether estimates are equal
bfloat16          8  bfloat16 against float32 on five tasks, three seeds: difference in error, interval
waiting           0  the measurements whose code is not written yet
LIST
}

# step LIMIT NAME COMMAND...: a heading, the command's output, and what stopped it, in the table file.
failed=0
step() {
    local limit=$1 name=$2 status
    shift 2
    printf '\n### %s\n\n' "$name" | tee -a "$table"
    timeout --kill-after=10 "$limit" "$@" 2>>"$table.log" | tee -a "$table"
    status=${PIPESTATUS[0]}
    if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
        printf '\nstopped after %s s\n' "$limit" | tee -a "$table"
    elif [ "$status" -ne 0 ]; then
        printf '\nFAILED with exit status %s; see %s\n' "$status" "$table.log" | tee -a "$table"
        failed=1
    fi
}
bench() { # bench LIMIT NAME MODULE FLAGS...
    local module=benchmarks.$3
    case $3 in *.*) module=$3 ;; esac
    step "$1" "$2" "$python" -u -m "$module" "${@:4}"
}

if [ -n "$dry" ]; then
    export JAX_PLATFORMS=cpu
    device=cpu
else
    device=cuda
    # several processes share the GPU; each would take three quarters of its memory at the start
    case $piece in correct | evaluation | trials) export XLA_PYTHON_CLIENT_PREALLOCATE=false ;; esac
fi
# pick FULL DRY: the value of this mode
pick() { if [ -n "$dry" ]; then echo "$2"; else echo "$1"; fi; }

begin() {
    mkdir -p "$out/runs"
    table=$out/$piece.md
    : >"$table"
    : >"$table.log"
    site=$out/site # where the piece `wheels` installs
    export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
    if [ -d "$site" ]; then export PYTHONPATH="$PYTHONPATH:$(cd "$site" && pwd)"; fi
    export NEVIS_STREAM_CACHE=${NEVIS_STREAM_CACHE:-$(cd "$out" && pwd)/cache}
}

tasks() { # tasks FILE TASK...: writes the csv of a stream of these tasks of local25
    local file=$1
    shift
    { head -1 nevis_stream/catalogue/streams/local25.csv
      for task in "$@"; do grep ",$task," nevis_stream/catalogue/streams/local25.csv; done; } >"$file"
}

wheels() {
    step 60 "missing packages" "$python" - <<'PROGRAM'
import importlib.metadata
import platform
import re
import tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
for need in [*project["dependencies"], "pytest>=8.3", "pytest-timeout>=2.3", "hypothesis>=6.100"]:
    name = re.match(r"[\w.-]+", need)[0]
    try:
        print(f"{need}: {importlib.metadata.version(name)}")
    except importlib.metadata.PackageNotFoundError:
        print(f"{need}: MISSING; on a machine with a network: pip download --no-deps "
              f"--only-binary=:all: --python-version {platform.python_version()} '{need}'")
PROGRAM
    if [ -n "${NEVIS_STREAM_WHEELS:-}" ]; then
        step 120 "installed from $NEVIS_STREAM_WHEELS" "$python" -m pip install --quiet --no-index \
            --no-deps --no-compile --no-cache-dir --upgrade --target "$site" "$NEVIS_STREAM_WHEELS"/*.whl
    else
        printf '\nNEVIS_STREAM_WHEELS is not set: nothing was installed.\n' | tee -a "$table"
    fi
}

correct() {
    local counts=(-u -m benchmarks.train_step --count_only "--batches=$(pick 16,64,256,512 8)"
        "--networks=$(pick small,resnet18,resnet34,vit small)")
    for platform in cpu "$device"; do
        JAX_PLATFORMS=$platform step 60 "FLOPs of a step, counted on $platform" "$python" "${counts[@]}"
        sed -n "/counted on $platform/,\$p" "$table" | grep '^|' >"$out/flops_$platform.txt"
    done
    step 10 "FLOPs equal (differences below)" diff "$out/flops_cpu.txt" "$out/flops_$device.txt"
    local stream=pico
    if [ -n "$dry" ]; then
        stream=$out/three.csv
        { head -1 nevis_stream/catalogue/streams/pico.csv
          grep -E ',pico_(coins|textures),' nevis_stream/catalogue/streams/pico.csv; } >"$stream"
    fi
    # GPUs add in any order unless they are told not to
    XLA_FLAGS=$(pick --xla_gpu_deterministic_ops=true "") bench 240 \
        "runs on the CPU and on $device, deterministic operations" devices_agree \
        --out="$out/runs/agree" --device="$device" --config=indep --config.stream="$stream" \
        "--tolerance=$(pick 0.02 0)" \
        $(pick "" "--config.train.steps=8 --config.train.validate_every=4 --config.search.trials=1")
    local tests=(tests/cost tests/learners tests/dynamic_evaluation tests/launch/test_executors.py
        tests/test_runner.py tests/test_kill.py)
    if [ -n "$dry" ]; then tests=(tests/cost); fi
    local workers=() tested
    # tests compare with float64 and byte by byte; a GPU's products are TF32 unless it is told not to
    tested="--xla_backend_optimization_level=0 $(pick --xla_gpu_deterministic_ops=true "")"
    if "$python" -c 'import xdist' 2>/dev/null; then workers=(-n "$(pick 8 0)"); fi
    for platform in "$device" ""; do
        JAX_PLATFORMS=$(pick "$platform" cpu) step "$(pick 130 300)" "tests, JAX_PLATFORMS=${platform:-default}" \
            env XLA_FLAGS="$tested" JAX_DEFAULT_MATMUL_PRECISION=highest \
            "$python" -m pytest -p no:benchmark -q -rfEs --timeout=120 "${workers[@]}" "${tests[@]}"
        if [ -n "$dry" ]; then break; fi
    done
}

train_step() {
    local batches repeats
    batches=$(pick 16,64,256,512 4) repeats=$(pick 5 1)
    # the wanted figure first: ResNet-34, batch 512, bfloat16
    bench 200 "bfloat16" train_step --repeats="$repeats" --batches="$batches" --precision=bfloat16 --steps_only \
        --networks="$(pick resnet34,resnet18,vit small)"
    bench 60 "profile of ResNet-34, bfloat16" step_profile --network="$(pick resnet34 small)" \
        --batch="$(pick 512 4)" --steps="$(pick 10 2)" --precision=bfloat16
    for matmul in tensorfloat32 float32; do
        bench "$(pick 130 60)" "float32, matmul $matmul" train_step --repeats="$repeats" --steps_only \
            --batches="$batches" --matmul=$matmul --networks="$(pick resnet34,resnet18,vit small)"
    done
    bench 60 "eight steps in one program, small batches" train_step --repeats="$repeats" \
        --batches="$(pick 16,64 4)" --together="$(pick 8 2)" --precision=bfloat16 \
        --networks="$(pick small,resnet18,resnet34 small)"
}

trials() {
    for batch in $(pick "16 128 512" 4); do
        bench "$(pick 160 120)" "batch $batch" networks_at_once --networks="$(pick resnet34,resnet18 small)" \
            --batch="$batch" --repeats="$(pick 3 1)" --trials="$(pick 1,4,16 1,2)" \
            --processes="$(pick 1,4,16 1,2)" --precision="$(pick bfloat16 float32)"
    done
}

stream() {
    local budget
    budget=$(pick cheap tiny)
    bench "$(pick 420 120)" "ft_dynamic, budget $budget" stream_time --seconds="$(pick 360 15)" \
        --run_dir="$out/runs/stream" --config=ft_dynamic --config.budget="$budget" \
        --config.stream="$(pick local25+partial pico)"
}

stream_more() { stream; }

small() {
    local flags=(--config=ft_dynamic --config.budget=small --config.search.trials=1
        --config.search.learning_rate="(0.1,0.1)" --config.search.label_smoothing="(0.1,0.1)"
        --config.train.steps="$(pick 2400 4)" --config.train.validate_every="$(pick 600 4)")
    local data=local25+partial
    if [ -n "$dry" ]; then
        data=$out/two.csv
        tasks "$data" umist coil20_2
    fi
    step 570 "ft_dynamic, small, $(pick 2400 4) steps, $data" bash -c 'time "$@"' _ "$python" -m launch.run \
        --run_dir="$out/runs/small/ft_dynamic/seed-0" "${flags[@]}" --config.stream="$data"
    sed -n '/^real/p' "$table.log" | tee -a "$table"
    if [ -s "$out/runs/small/ft_dynamic/seed-0/ledger.jsonl" ]; then
        bench 20 "errors" experiments.learner_studies.local25 "$out/runs/small"
    fi
}

evaluation() {
    bench 240 "dynamic evaluation" evaluation_devices --device="$device" --repeats="$(pick 3 1)" \
        --matrices="$(pick synthetic,mmlu_pro,nlu_concat15 synthetic)" \
        --methods="$(pick sort_and_search,irt_1pl,irt_2pl,irt_multidimensional,recommended \
            sort_and_search,irt_1pl)"
}

bfloat16() {
    local data=$out/five.csv
    # shellcheck disable=SC2046
    tasks "$data" $(pick "fashion_mnist mnist_rot scenes15_2 coil20_2 covid19_xray" coil20_2)
    for precision in float32 bfloat16; do
        step 270 "$precision" "$python" -m launch.run --config=indep --config.budget=small \
            --seeds="$(pick 3 1)" --config.stream="$data" --config.search.trials=1 \
            --config.train.steps="$(pick 2400 4)" --config.train.validate_every="$(pick 600 4)" \
            --config.network.precision=$precision --run_dir="$out/runs/bfloat16/$precision/$(pick . seed-0)"
    done
    bench 30 "bfloat16 against float32" experiments.learner_studies.local25 "$out/runs/bfloat16"
}

waiting() {
    step 10 "waiting" cat <<'LIST'
- the neural process on GPU and CPU: waits for its predictor
- several steps in one program as a setting of a run: the program exists (train_step measures it), the config key does not
- the choice between one program and processes by measurement at the start: waits for the tables of `trials`
LIST
}

case $piece in
    "")
        list
        ;;
    wheels | correct | train_step | trials | stream | stream_more | small | evaluation | bfloat16 | waiting)
        begin
        begun=$SECONDS
        "$piece"
        printf '\n%s s in all\n' $((SECONDS - begun)) | tee -a "$table"
        exit $failed
        ;;
    *)
        echo "error: no piece is named '$piece'; valid pieces:" >&2
        list >&2
        exit 2
        ;;
esac
