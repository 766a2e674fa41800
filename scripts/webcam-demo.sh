#!/usr/bin/env bash
# From a fresh clone to a camera before and after the filter, in a window: sets the machine up,
# builds cudaconv and runs it. Without a camera or a display it says what it does instead.
#
#   scripts/webcam-demo.sh [option …]         options as of `cudaconv webcam --help`
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/common.sh"

"$here/setup.sh" --webcam
build_release
program=$(target_dir)/release/cudaconv
clean_up
exec "$program" webcam "$@"
