#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: runs what scripts/gpu-bundle.sh gathered, and writes what came of
# it to tests/gpu/record.toml.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<TXT
usage: scripts/gpu-verify.sh [--out FOLDER] [--together] [PART …]
       scripts/gpu-verify.sh [--out FOLDER] failed
       scripts/gpu-verify.sh [--update] latency
       scripts/gpu-verify.sh ladder

Parts, all without an argument: modules (load times), tests (the GPU's bytes, memory, overlap),
exactness (a table of every format, family of kernels and border against the definition),
element (the element's tests with backend=cuda), sanitizer (compute-sanitizer's memcheck and
racecheck on every kernel), figures, peers (what other libraries take for the same, those that are
installed), profile (what Nsight Compute finds of some kernels, if it is there), pipelines. Logs, and a copy of the record, go to FOLDER
(out/gpu). The record is written once all parts have run on the same sources, in one call or in
several: what each part found is kept in out/gpu-parts. Fails if one failed.
--together runs exactness and the sanitizer's tools at the same time, after the other parts, which need
the device for themselves.
failed runs those tests again, one at a time, that failed in tests, element and sanitizer, and keeps what
comes of them instead.
SANITIZER_SECONDS=280 is the most that each tool of the sanitizer may take.

latency, which is no part of the record, compares the device with its baseline in tests/latency/ and
says what got worse, and sees that a fifth more work would be found; --update makes that baseline anew.

ladder, which is no part of it either, runs cudaconv bench ladder and leaves its table, ladder.json and
ladder.html in FOLDER.
TXT
}

out=$root/out/gpu
parts=()
together=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --out) out=${2:?--out needs a folder}; shift ;;
    --update) export CUDACONV_LATENCY_UPDATE=1 ;;
    --together) together=yes ;;
    modules | tests | exactness | element | sanitizer | figures | peers | profile | pipelines | latency | ladder | failed) parts+=("$1") ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
all=(modules tests exactness element sanitizer figures peers profile pipelines)
[ ${#parts[@]} -gt 0 ] || parts=("${all[@]}")

bundle=$root/.gpu
[ -e "$bundle/env.sh" ] || die 'there is no .gpu: run scripts/gpu-bundle.sh where Rust and GStreamer are'
# shellcheck disable=SC1091 # made by gpu-bundle.sh
. "$bundle/env.sh"
export CUDACONV_GPU=required
mkdir -p "$out"
cd "$root"
sources=$(gpu_sources_sha256)
kept=$root/out/gpu-parts/$sources
mkdir -p "$kept"

# note NAME RESULT: keeps the result of a test for the record.
note() {
  printf '\n[[test]]\nname = "%s"\nresult = "%s"\n' "$1" "$2" >>"$records"
  [ "$2" = ok ] || say "FAILED: $1"
}

# run_tests PREFIX SECONDS LOG PROGRAM ARGUMENT…: runs a test program and notes each of its tests.
run_tests() {
  local prefix=$1 limit=$2 log=$3 rc=0 begun=$SECONDS name result
  shift 3
  timeout --kill-after=10 "$limit" "$@" >"$out/$log.log" 2>"$out/$log.err" || rc=$?
  while read -r name result; do
    case $result in
      ok) note "$prefix$name" ok ;;
      ignored*) ;;
      *) note "$prefix$name" failed ;;
    esac
  done < <(sed -n 's/^test \([^ ]*\) .*\.\.\. \(.*\)/\1 \2/p; s/^test \([^ ]*\) \.\.\. \(.*\)/\1 \2/p' "$out/$log.log" | sort -u)
  if [ "$rc" -ne 0 ] && ! grep -q '^test .*FAILED' "$out/$log.log"; then
    note "$prefix$log ended with exit code $rc" failed
    tail -5 "$out/$log.err" >&2
  fi
  say "$log: $(grep -c ' \.\.\. ok$' "$out/$log.log" || true) passed, exit code $rc, $((SECONDS - begun)) s"
}

part_modules() {
  local cache=$scratch/cache state
  for state in cold cached; do
    if CUDA_CACHE_PATH=$cache timeout 120 "$bundle/bin/gpu-figures" --modules | tee "$out/modules-$state.log" |
      sed -n "s/^module/module, $state:/p"; then note "modules/$state" ok; else note "modules/$state" failed; fi
  done
  sed -n '/^  /p' "$out/modules-cold.log"
  if grep -q ' [1-9][0-9]* bytes spilled' "$out/modules-cold.log"; then note modules/no-spills failed; else note modules/no-spills ok; fi
}

part_tests() {
  run_tests gpu/ 400 tests "$bundle/bin/gpu-tests" --skip overlap::
  # What overlaps is only to be seen where nothing else is going on.
  run_tests gpu/ 60 overlap "$bundle/bin/gpu-tests" overlap::
  cat "$out/tests.err" "$out/overlap.err" | grep -v '^$' | grep 'samples, off by\|frame [0-9]\|uploads ran\|^ladder ' || true
}

# The table of every format, family of kernels and border.
part_exactness() {
  local rc=0
  timeout 120 "$bundle/bin/exactness" --backend cuda >"$out/exactness.log" 2>"$out/exactness.err" || rc=$?
  if [ "$rc" -eq 0 ]; then note exactness/all ok; else note exactness/all failed; tail -5 "$out/exactness.err" >&2; fi
  grep 'OUT OF THE CONTRACT' "$out/exactness.log" | head -5 || true
  tail -1 "$out/exactness.log"
}

part_element() {
  export CUDACONV_TEST_BACKEND=cuda
  # Of those that need processes of their own, two: others start a driver hundreds of times.
  run_tests element/ 120 processes "$bundle/bin/element-tests" processes::flushes processes::changes &
  run_tests element/ 300 element "$bundle/bin/element-tests" --skip processes:: --skip truth::
  wait
  # These measure what nothing else may disturb.
  run_tests element/ 60 truth "$bundle/bin/element-tests" --test-threads=1 truth::
}

# sanitize PROGRAM TOOL LOG TEST…: tests under one of compute-sanitizer's tools; few frames reach every
# kernel, border and kind of sample.
sanitize() {
  local program=$1 tool=$2 log=$3 threads=4
  shift 3
  # It loses track of kernels that several threads launch.
  [ "$tool" != racecheck ] || threads=1
  CUDACONV_GPU_TESTS=quick run_tests "$tool/" "${SANITIZER_SECONDS:-280}" "$log" "$program" --tool "$tool" --error-exitcode 9 \
    --print-limit 5 "$bundle/bin/gpu-tests" --test-threads="$threads" "$@"
  grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$out/$log.log" "$out/$log.err" || true
}

find_sanitizer() {
  local found
  for found in compute-sanitizer /usr/local/cuda/bin/compute-sanitizer /opt/nvidia/compute-sanitizer/compute-sanitizer; do
    ! command -v "$found" >/dev/null 2>&1 || { printf %s "$found"; return; }
  done
}

part_sanitizer() {
  local found
  found=$(find_sanitizer)
  [ -n "$found" ] || { note sanitizer/found failed; return; }
  sanitize "$found" memcheck memcheck exact::gauss5 exact::gauss7 exact::gauss9 exact::box5 edges::rows_of_any_length \
    exact::separable_kernels_of_large exact::whole_numbers exact::sums_of_outer_products exact::the_bilateral_of_large levels:: fourier:: \
    halves:: split:: slabs:: smallest:: exact::emboss \
    exact::sobel exact::custom full:: exact::bilateral exact::the_largest_kernels exact::planes_alpha_bias_divisor_and_fields \
    memory::frames_of_any_shape memory::what_is_copied bands:: ladder::every_step &
  [ -n "$together" ] || wait
  # This follows every access to shared memory, and takes minutes for large windows.
  sanitize "$found" racecheck racecheck-large exact::separable_kernels_of_large exact::whole_numbers full:: exact::gauss5 exact::gauss9 exact::box5 &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-halves halves:: split:: exact::gauss3 exact::emboss &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-slabs slabs:: exact::gauss7 &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-edges exact::scharr edges::rows_of_any_length_of_words \
    edges::rows_of_any_length_of_means exact::sums_of_outer_products &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-bilateral exact::bilateral &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-bilateral-large exact::the_bilateral_of_large &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-levels levels:: fourier:: &
  [ -n "$together" ] || wait
  sanitize "$found" racecheck racecheck-ladder ladder::every_step
  wait
}

part_failed() {
  local part name found again=$scratch/again.toml
  found=$(find_sanitizer)
  for part in tests element sanitizer; do
    [ -e "$kept/$part.toml" ] || continue
    records=$again
    : >"$again"
    while read -r name; do
      case $name in
        # No test: a program that did not end by itself.
        *' '*) ;;
        gpu/*) run_tests gpu/ 120 again "$bundle/bin/gpu-tests" --exact "${name#*/}" ;;
        element/*) CUDACONV_TEST_BACKEND=cuda run_tests element/ 120 again "$bundle/bin/element-tests" --exact "${name#*/}" ;;
        *) sanitize "$found" "${name%%/*}" "again-${name%%/*}" --exact "${name#*/}" & ;;
      esac </dev/null
    done < <(grep -B1 '^result = "failed"' "$kept/$part.toml" | sed -n 's/^name = "\(.*\)"/\1/p')
    wait
    awk 'BEGIN { RS = ""; ORS = "\n\n" } !/result = "failed"/ || /name = "[^"]* [^"]*"/' "$kept/$part.toml" >"$scratch/kept.toml"
    { echo; cat "$scratch/kept.toml" "$again"; } >"$kept/$part.toml"
  done
}

part_figures() {
  local rc=0
  timeout 500 "$bundle/bin/gpu-figures" --out "$kept/device-and-figures.toml" 2>"$out/figures.err" | tee "$out/figures.log" || rc=$?
  if [ "$rc" -eq 0 ] && [ -e "$kept/device-and-figures.toml" ]; then
    note figures/all ok
  else
    note figures/all failed
    tail -5 "$out/figures.err" >&2
  fi
}

part_peers() {
  # Theirs are no results of ours: what is missing is said, and no failure.
  rm -f "$kept/peers-figures.toml"
  timeout 120 python3 scripts/gpu-peers.py "$kept/peers-figures.toml" 2>"$out/peers.err" | tee "$out/peers.log" ||
    { say 'no figures of peers'; tail -2 "$out/peers.err" >&2; }
}

part_profile() {
  # So are these no results.
  rm -f "$kept/profile-figures.toml"
  timeout 120 python3 scripts/gpu-profile.py "$bundle/bin/gpu-figures" "$kept/profile-figures.toml" 2>"$out/profile.err" |
    tee "$out/profile.log" || { say 'no figures of the profiler'; tail -2 "$out/profile.err" >&2; }
}

# pipeline NAME DESCRIPTION: a pipeline that must reach its end.
pipeline() {
  local name=$1 rc=0 words
  read -ra words <<<"$2"
  timeout 100 gst-launch-1.0 -m "${words[@]}" >"$out/pipeline-$name.log" 2>&1 || rc=$?
  if [ "$rc" -eq 0 ]; then note "pipeline/$name" ok; else note "pipeline/$name" failed; tail -3 "$out/pipeline-$name.log" >&2; fi
}

# summary NAME: what the element's summary tells of frames and their way.
summary() {
  local field text=
  for field in frames-in frames-out pinned-in pinned-out latency-p50-ns latency-max-ns; do
    text+="$field $(sed -n "s/.*cudaconv-summary.* $field=(guint64)\\([0-9]*\\)[,;].*/\\1/p" "$out/pipeline-$1.log"), "
  done
  printf '%s: %s\n' "$1" "${text%, }"
}

part_pipelines() {
  local clip name decoder
  pipeline test-source 'videotestsrc num-buffers=300 ! video/x-raw,format=NV12,width=1920,height=1080 ! cudaconv backend=cuda ! fakesink'
  summary test-source
  for clip in "$bundle"/media/*.mp4; do
    [ -e "$clip" ] || continue
    for decoder in openh264dec 'nvh264dec ! cudadownload'; do
      name=$(basename "$clip" .mp4)-${decoder%% *}
      pipeline "$name" "filesrc location=$clip ! qtdemux ! h264parse ! $decoder ! cudaconv backend=cuda kernel=gauss5 ! fakesink"
      summary "$name"
    done
  done
}

part_latency() {
  local rc=0
  CUDACONV_LATENCY_BASELINES=$root/tests/latency timeout 500 "$bundle/bin/latency-tests" --ignored --exact --nocapture \
    --test-threads=1 against_the_baseline a_fifth_more_work_is_found_on_a_gpu_and_none_is_not >"$out/latency.log" 2>"$out/latency.err" || rc=$?
  grep '^  cuda\|^worse\|^new\|baseline\|compared' "$out/latency.log" || true
  if [ "$rc" -eq 0 ]; then
    note latency/against-the-baseline ok
    cp "$root"/tests/latency/*.json "$out/" 2>/dev/null || true
  else
    note latency/against-the-baseline failed
    tail -5 "$out/latency.err" >&2
  fi
}

part_ladder() {
  local rc=0
  timeout 300 "$bundle/bin/cudaconv" bench ladder --json "$out/ladder.json" --html "$out/ladder.html" \
    2>"$out/ladder.err" | tee "$out/ladder.log" || rc=$?
  if [ "$rc" -eq 0 ]; then note ladder/all ok; else note ladder/all failed; tail -5 "$out/ladder.err" >&2; fi
}

# run_part PART: what it found goes to a file of its own.
run_part() {
  say "== $1"
  records=$kept/$1.toml
  [ "$1" != failed ] || { part_failed; return; }
  : >"$records"
  "part_$1"
}

measured=()
checked=()
for part in "${parts[@]}"; do
  case $part in
    exactness | sanitizer) checked+=("$part") ;;
    *) measured+=("$part") ;;
  esac
done
if [ -n "$together" ]; then
  for part in ${measured[@]+"${measured[@]}"}; do run_part "$part"; done
  for part in ${checked[@]+"${checked[@]}"}; do run_part "$part" & done
  wait
else
  for part in "${parts[@]}"; do run_part "$part"; done
fi

complete=yes
for part in "${all[@]}"; do [ -e "$kept/$part.toml" ] || complete=; done
if [ -n "$complete" ] && [ -e "$kept/device-and-figures.toml" ]; then
  {
    printf 'date = "%s"\nsources-sha256 = "%s"\n' "$(date +%Y-%m-%d)" "$sources"
    cat "$kept/device-and-figures.toml"
    for part in peers profile; do
      [ ! -e "$kept/$part-figures.toml" ] || cat "$kept/$part-figures.toml"
    done
    for part in "${all[@]}"; do cat "$kept/$part.toml"; done
  } >tests/gpu/record.toml
  cp tests/gpu/record.toml "$out/"
  say "wrote tests/gpu/record.toml"
fi
failed=0
[ "${parts[*]}" != failed ] || parts=(tests element sanitizer)
for part in "${parts[@]}"; do
  failed=$((failed + $(grep -c '^result = "failed"' "$kept/$part.toml" || true)))
done
say "$failed failed"
[ "$failed" -eq 0 ]
