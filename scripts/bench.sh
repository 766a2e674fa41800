#!/usr/bin/env bash
# Benchmarks: scripts/bench.sh cpu [CASE …] | measuring
# cpu: the CPU engine against OpenCV (from PyPI, in a virtual environment under target/), in turn,
# several rounds, so that a machine that is busy or slows down does so for both. CASE keeps the
# cases whose names contain it. ROUNDS=5 is the number of rounds.
# measuring: what measuring a frame's latency costs; fails above 2 µs.
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

case ${1:-} in
cpu)
    shift
    bench_cpu "$@"
    ;;
measuring)
    cargo test --quiet --lib what_measuring_a_frame_costs -- --ignored --nocapture
    ;;
*)
    echo "usage: scripts/bench.sh cpu [CASE …] | measuring" >&2
    exit 2
    ;;
esac
