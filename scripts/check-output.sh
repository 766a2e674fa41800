#!/usr/bin/env bash
# Checks a filtered video against the one it was made from, by decoding both with GStreamer's own
# elements: the same size, the same number of frames, and each frame at the same time.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<TXT
usage: scripts/check-output.sh INPUT OUTPUT

Exit code 0 if OUTPUT decodes without an error and has INPUT's size, number of frames, duration and
presentation times. Times may differ by 1 ms, since a container rounds them to its own time base.
TXT
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac
[ $# -eq 2 ] || { usage >&2; exit 2; }
tolerance_ns=1000000

# Decodes a file's video and writes a line "size WIDTH HEIGHT" and, for each frame,
# "frame TIME DURATION" in ns. TIME is stream time, (pts - segment start) + segment time: an MP4 with
# reordered frames starts its timestamps above 0 and says so in its segment.
frames() {
  [ -r "$1" ] || die "$1 is no readable file"
  timeout 300 gst-launch-1.0 -v filesrc location="$1" ! decodebin ! videoconvert ! \
    identity name=frames silent=false ! fakesink >"$scratch/log" 2>&1 || {
    grep -a -E '^(ERROR|WARNING|Additional debug info)' -A 1 "$scratch/log" >&2 || tail -n 5 "$scratch/log" >&2
    die "$1 does not decode to its end"
  }
  awk '
    function ns(clock,  part) { split(clock, part, ":"); return ((part[1] * 60 + part[2]) * 60 + part[3]) * 1e9 }
    # The text after a key, up to the next comma or bracket.
    function after(key) { return match($0, key "[^,)]*") ? substr($0, RSTART + length(key), RLENGTH - length(key)) : "" }
    !/:frames: last-message = / { next }
    /type: caps / {
      gsub(/\\/, "")
      match($0, /width=\(int\)[0-9]+/); width = substr($0, RSTART + 11, RLENGTH - 11)
      match($0, /height=\(int\)[0-9]+/); height = substr($0, RSTART + 12, RLENGTH - 12)
      print "size", width, height
    }
    /type: segment / {
      gsub(/\([a-z0-9]*\)/, "")
      start = after(" start="); time = after(" time=")
    }
    / = chain / {
      pts = after("pts: "); duration = after("duration: ")
      if (pts == "none") { print "frame none 0"; next }
      printf "frame %.0f %.0f\n", ns(pts) - start + time, duration == "none" ? 0 : ns(duration)
    }' "$scratch/log"
}

frames "$1" >"$scratch/input"
frames "$2" >"$scratch/output"

paste -d ' ' "$scratch/input" "$scratch/output" | awk -v tolerance=$tolerance_ns '
  function fail(text) { print "check failed: " text; bad = 1; exit 1 }
  NF != 6 { next }
  $1 != $4 { fail("line " NR ": " $0) }
  $1 == "size" && ($2 != $5 || $3 != $6) { fail("the size is " $5 "x" $6 ", of the input " $2 "x" $3) }
  $1 == "frame" {
    if ($2 == "none" || $5 == "none") fail("frame " n ": pts " $5 ", of the input " $2)
    d = $5 - $2; if (d < 0) d = -d
    if (d > worst) worst = d
    if (d > tolerance) fail("frame " n " is at " $5 / 1e6 " ms, in the input at " $2 / 1e6 " ms")
    n++; end_in = $2 + $3; end_out = $5 + $6
  }
  END {
    if (bad) exit 1
    printf "%d frames, times within %.3f ms, ending at %.3f s (input %.3f s)\n", n, worst / 1e6, end_out / 1e9, end_in / 1e9
    if (n == 0) { print "check failed: no frame was read"; exit 1 }
    d = end_out - end_in; if (d < 0) d = -d
    if (d > tolerance) { print "check failed: the durations differ"; exit 1 }
  }' || exit 1

in_count=$(grep -c '^frame' "$scratch/input")
out_count=$(grep -c '^frame' "$scratch/output")
[ "$in_count" -eq "$out_count" ] || die "check failed: $out_count frames, the input has $in_count"
