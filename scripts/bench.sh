#!/usr/bin/env bash
# Benchmarks: scripts/bench.sh cpu [CASE …] | measuring | latency [--update] | exactness | crossovers
# cpu: the CPU engine against OpenCV (from PyPI, in a virtual environment under target/), in turn,
# several rounds, so that a machine that is busy or slows down does so for both. CASE keeps the
# cases whose names contain it. ROUNDS=5 is the number of rounds.
# measuring: what measuring a frame's latency costs; fails above 2 µs.
# latency: streams of all kinds against this device's baseline in tests/latency/, as multiples of a
# floor measured in the same run; fails where a stage got worse. --update makes the baseline anew.
# CUDACONV_GPU=required measures the GPU, else the CPU is.
# exactness: a table of every format, family of kernels and border, on the CPU and on the CUDA engine
# (with the tests' own driver; scripts/gpu-verify.sh has the same of a GPU): the largest error and the
# share of equal samples against the float64 definition. Fails where one is out of the contract.
# crossovers: needs a GPU; for kernels and sizes, whether a frame comes back sooner from the CPU or from the GPU,
# which src/engine/crossover.rs keeps. (Where there is no Rust: gpu-figures --crossovers of scripts/gpu-bundle.sh.)
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}

bench_cpu() {
    local venv=$target/bench-venv rounds=${ROUNDS:-5} executable
    if [ ! -x "$venv/bin/python" ]; then
        python3 -m venv "$venv"
    fi
    if ! "$venv/bin/python" -c 'import cv2' 2>/dev/null; then
        "$venv/bin/pip" install --quiet opencv-python-headless
    fi
    executable=$(cargo bench --bench cpu --no-run --message-format=json |
        "$venv/bin/python" -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable") and message["target"]["name"] == "cpu":
        print(message["executable"])')
    results=$(mktemp -d)
    trap 'rm -rf "$results"' EXIT
    for round in $(seq "$rounds"); do
        echo "round $round of $rounds" >&2
        "$executable" --tsv "$@" >>"$results/own"
        "$venv/bin/python" tests/bench/opencv.py "$@" >>"$results/opencv"
    done
    "$venv/bin/python" tests/bench/table.py "$results/own" "$results/opencv"
}

bench_exactness() {
    local driver failed=0
    # Not a matter of speed: the profile that the tests have built already.
    cargo build --quiet --package fakecuda
    driver=$(mktemp -d)
    # shellcheck disable=SC2064 # the folder of now
    trap "rm -rf '$driver'" EXIT
    for name in libcuda.so libcuda.so.1; do
        ln -s "$(realpath "$target")/debug/libfakecuda.so" "$driver/$name"
    done
    cargo bench --quiet --bench exactness --profile dev -- --backend cpu || failed=1
    LD_LIBRARY_PATH=$driver${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} \
        cargo bench --quiet --bench exactness --profile dev -- --backend cuda || failed=1
    return $failed
}

case ${1:-} in
crossovers)
    cargo bench --quiet --bench gpu-figures -- --crossovers
    ;;
exactness)
    bench_exactness
    ;;
cpu)
    shift
    bench_cpu "$@"
    ;;
latency)
    case ${2:-} in
    '') ;;
    --update) export CUDACONV_LATENCY_UPDATE=1 ;;
    *) exec "$0" ;;
    esac
    cargo test --quiet --test latency against_the_baseline -- --ignored --nocapture
    ;;
measuring)
    cargo test --quiet --lib what_measuring_a_frame_costs -- --ignored --nocapture
    ;;
*)
    echo "usage: scripts/bench.sh cpu [CASE …] | measuring | latency [--update] | exactness | crossovers" >&2
    exit 2
    ;;
esac
