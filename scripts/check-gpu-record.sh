#!/usr/bin/env bash
# Says whether tests/gpu/record.toml, which scripts/gpu-verify.sh writes on a machine with a GPU, is
# of the kernels and the CUDA engine as they are now. Never fails for that: --strict does.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

strict=
case ${1:-} in
  '') ;;
  --strict) strict=yes ;;
  *) echo 'usage: scripts/check-gpu-record.sh [--strict]' >&2; exit 2 ;;
esac

outdated() {
  echo "GPU record: $*"
  [ -z "$strict" ] || exit 1
  exit 0
}

record=$root/tests/gpu/record.toml
[ -e "$record" ] || outdated 'there is none: scripts/gpu-bundle.sh, then scripts/gpu-verify.sh on a machine with a GPU'

# value KEY: the first value of that name.
value() { sed -n "s/^$1 = \"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$record" | head -1; }

about="of $(value date) on $(value name), driver $(value driver), CUDA $(value cuda)"
passed=$(grep -c '^result = "ok"$' "$record" || true)
failed=$(grep -c '^result = "failed"$' "$record" || true)
figures=$(grep -c '^\[\[figure\]\]$' "$record" || true)
[ "$(value sources-sha256)" = "$(gpu_sources_sha256)" ] ||
  outdated "out of date: kernels or the CUDA engine changed since that $about"
[ "$failed" -eq 0 ] || outdated "$failed tests failed in that $about"
echo "GPU record: current, $about: $passed tests passed, $figures figures"
