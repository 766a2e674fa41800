# shellcheck shell=bash
# Sourced by the other scripts: where things are, and the release build.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# rustup puts cargo where a shell that was open during its installation does not look yet.
if ! command -v cargo >/dev/null 2>&1 && [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ]; then
  PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
fi

say() { printf '%s\n' "$*" >&2; }

die() {
  say "error: $*"
  exit 1
}

# A file of which nobody but this script knows, removed when it ends.
scratch=$(mktemp -d)
ticker=
clean_up() {
  [ -z "$ticker" ] || kill "$ticker" 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT

# Runs one command from the repository's root, where cargo finds its configuration.
in_root() { (cd "$root" && "$@"); }

# Where cargo builds: CARGO_TARGET_DIR and cargo's configuration are taken into account by cargo itself.
target_dir() {
  in_root cargo metadata --format-version 1 --no-deps |
    sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Builds the plugin and the program, optimised. Silent when there is nothing to do or all goes well,
# but for a dot every few seconds; cargo's own output is shown when it fails.
build_release() {
  (
    # The sleep must not keep the caller's pipe open after its loop has been ended.
    while sleep 3 >/dev/null 2>&1; do
      [ -e "$scratch/said" ] || printf 'building cudaconv, optimised (the first time takes some minutes) ' >&2
      : >"$scratch/said"
      printf '.' >&2
    done
  ) &
  ticker=$!
  local rc=0
  in_root cargo build --release --lib --bins >"$scratch/build" 2>&1 || rc=$?
  kill "$ticker" 2>/dev/null || true
  wait "$ticker" 2>/dev/null || true
  ticker=
  [ ! -e "$scratch/said" ] || printf '\n' >&2
  if [ "$rc" -ne 0 ]; then
    cat "$scratch/build" >&2
    die "cargo build failed (exit code $rc); its output stands above"
  fi
}

# What a record of a GPU run depends on: kernels and the CUDA engine, names and contents.
gpu_sources_sha256() {
  in_root find kernels src/engine/cuda -type f | LC_ALL=C sort |
    (cd "$root" && xargs sha256sum) | sha256sum | cut -d' ' -f1
}
