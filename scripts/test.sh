#!/usr/bin/env bash
# Everything that must hold: formatting, lints, all tests. Arguments go to `cargo test`, as in
# `scripts/test.sh --test formats` or `scripts/test.sh -- --nocapture`.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/common.sh"

"$here/setup.sh"
for tool in fmt clippy; do
  cargo "$tool" --version >/dev/null 2>&1 ||
    die "cargo $tool is missing: rustup component add rustfmt clippy"
done

cd "$root"
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
