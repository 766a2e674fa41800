#!/usr/bin/env bash
# From a fresh clone to a filtered video: sets the machine up, builds cudaconv and runs it.
#
#   scripts/run.sh                            a generated clip
#   scripts/run.sh INPUT [option …]           a file or URI; options as of `cudaconv run --help`
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/common.sh"

"$here/setup.sh"
build_release
if [ $# -eq 0 ]; then set -- test; fi
program=$(target_dir)/release/cudaconv
clean_up
exec "$program" run "$@"
