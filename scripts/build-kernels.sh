#!/usr/bin/env bash
# Builds the CUDA kernels: kernels/*.cu to PTX, which is checked in and ships in the plugin, and
# that to machine code for each GPU architecture, which is only looked at.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# The compiler of CUDA 12.2 makes PTX that every driver from 535 on takes. Other versions make other
# text from the same source.
version=12.2.140
packages=(nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12)

usage() {
  cat <<TXT
usage: scripts/build-kernels.sh [--check]

Writes kernels/ptx/*.ptx, then assembles them for sm_75, 80, 86, 89 and 90 and writes registers,
shared memory and occupancy of each kernel (by calculation, without the shared memory that a launch asks
for) to tests/gpu/resources.txt; fails if one spills or needs a stack. Needs Python and, the first
time, the network: the compiler comes from PyPI (300 MB, into target/). Needs no GPU.
  --check   write nothing: fail if the PTX or the table that is checked in is not what the sources give
TXT
}

check=
case ${1:-} in
  '') ;;
  --check) check=--check ;;
  -h | --help) usage; exit 0 ;;
  *) usage >&2; exit 2 ;;
esac

command -v python3 >/dev/null || die 'python3 was not found; on Debian and Ubuntu: apt-get install python3 python3-venv'

venv=$root/target/cuda-$version
if [ ! -e "$venv/complete" ]; then
  say "fetching CUDA's compiler, $version, into $venv (once)"
  rm -rf "$venv"
  python3 -m venv "$venv" >"$scratch/venv" 2>&1 || {
    rm -rf "$venv"
    cat "$scratch/venv" >&2
    die 'Python cannot make virtual environments here; on Debian and Ubuntu: apt-get install python3-venv'
  }
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary=:all: \
    "${packages[@]/%/==$version}" >"$scratch/pip" 2>&1 || {
    cat "$scratch/pip" >&2
    die "pip could not install ${packages[*]} $version; its output stands above"
  }
  touch "$venv/complete"
fi

in_root "$venv/bin/python" scripts/kernels.py $check
