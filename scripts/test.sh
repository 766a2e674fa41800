#!/usr/bin/env bash
# Everything that must hold: formatting, lints, all tests. Arguments go to `cargo test`, as in
# `scripts/test.sh --test formats` or `scripts/test.sh -- --nocapture`. Two need more time and tools:
#   scripts/test.sh --valgrind   the CPU engine's random cases of odd sizes and strides under memcheck
#   scripts/test.sh --coverage   all tests, and how many lines of each folder of src/ they run
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/common.sh"

"$here/setup.sh"
"$here/setup.sh" --tests || say 'without it the tests of the demo'"'"'s window are left out'
for tool in fmt clippy; do
  cargo "$tool" --version >/dev/null 2>&1 ||
    die "cargo $tool is missing: rustup component add rustfmt clippy"
done
cd "$root"

# executable TEST: the file that cargo builds for a test target.
executable() {
  cargo test --test "$1" --no-run --quiet --message-format=json |
    sed -n 's/.*"name":"'"$1"'".*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

# memcheck PROGRAM ARGUMENT…: fails at a read or write outside of memory, and where a result depends
# on a byte that was never written.
memcheck() {
  G_SLICE=always-malloc GST_REGISTRY_FORK=no valgrind --quiet --error-exitcode=9 --fair-sched=yes \
    --suppressions=scripts/valgrind.supp --num-callers=30 "$@"
}

valgrind_suite() {
  command -v valgrind >/dev/null 2>&1 || die 'valgrind is missing: apt install valgrind'
  local formats library
  formats=$(executable formats)
  library=$(cargo test --lib --no-run --quiet --message-format=json |
    sed -n 's/.*"name":"gstcudaconv".*"executable":"\([^"]*\)".*/\1/p' | tail -1)
  say 'memcheck: random cases, sizes of 1 to 200 in any memory (takes minutes)'
  # A valgrind without AVX-512 tells programs that the processor has none, and AVX2 is tried.
  export PROPTEST_CASES=${PROPTEST_CASES:-12}
  memcheck "$formats" --test-threads=1 random:: metamorphic::
  say 'memcheck: vector code and scalar code of the CPU engine'
  memcheck "$library" --test-threads=1 engine::cpu::equivalence::
  say 'memcheck: clean'
}

coverage() {
  cargo llvm-cov --version >/dev/null 2>&1 || die 'cargo-llvm-cov is missing: cargo install cargo-llvm-cov --locked, and rustup component add llvm-tools'
  local failed=
  # Code that counts its lines is slow, and few cases run as many lines as hundreds.
  export PROPTEST_CASES=${PROPTEST_CASES:-16} CUDACONV_GPU_TESTS=${CUDACONV_GPU_TESTS:-quick}
  cargo llvm-cov --workspace --no-report --no-fail-fast "$@" || failed=yes
  # Processes that tests end abruptly leave half a profile.
  cargo llvm-cov report --failure-mode all --json --summary-only --output-path "$scratch/coverage.json"
  python3 - "$scratch/coverage.json" "$root/src/" <<'PY'
import collections, json, sys

counts = collections.defaultdict(lambda: [0, 0])
for file in json.load(open(sys.argv[1]))["data"][0]["files"]:
    name = file["filename"]
    if not name.startswith(sys.argv[2]):
        continue
    parts = name[len(sys.argv[2]):].split("/")
    lines = file["summary"]["lines"]
    for folder in {"/".join(parts[:depth]) for depth in range(len(parts))}:
        counts[folder][0] += lines["covered"]
        counts[folder][1] += lines["count"]
for folder in sorted(counts):
    covered, lines = counts[folder]
    print(f"src/{folder:<24} {covered:>6} of {lines:>6} lines  {100 * covered / lines:6.1f} %")
PY
  [ -z "$failed" ] || die 'tests failed: what they would have run is missing above'
}

case ${1:-} in
  --valgrind) valgrind_suite; exit 0 ;;
  --coverage) shift; coverage "$@"; exit 0 ;;
esac

say 'formatting'
cargo fmt --all --check
say 'lints (a first build takes some minutes)'
cargo clippy --workspace --all-targets --quiet -- -D warnings

# Cargo sends colours to a terminal alone, and here it writes to a pipe.
if [ -t 1 ]; then export CARGO_TERM_COLOR=always; fi
cargo test --workspace "$@" 2>&1 | tee "$scratch/tests"

# A filter that matches no test would pass otherwise.
passed=$(sed -n 's/^test result: .* \([0-9][0-9]*\) passed; .*/\1/p' "$scratch/tests" |
  awk '{ sum += $1 } END { print sum + 0 }')
[ "$passed" -gt 0 ] || die 'no test was run'
say "all checks passed: formatting, lints, $passed tests"
