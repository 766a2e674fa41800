#!/usr/bin/env bash
# Gathers into .gpu/ all that a machine with an NVIDIA driver, but without Rust and GStreamer, needs
# to run scripts/gpu-verify.sh: a GStreamer runtime, the plugin, and the test and benchmark
# programs, stripped.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

usage() {
  cat <<TXT
usage: scripts/gpu-bundle.sh [CLIP …]

Builds the plugin, the program, the tests of the GPU, the element and the latency, and the GPU benchmark, optimised, and
puts them with GStreamer's launcher, plugins and libraries into .gpu/. CLIP: H.264 files to decode there;
without one, those of ../shared/media that exist. Copy the repository with .gpu/ to the other
machine and run scripts/gpu-verify.sh there.
TXT
}

case ${1:-} in -h | --help) usage; exit 0 ;; esac

bundle=$root/.gpu
# The most that all of it may take, in MiB.
limit=56

# The launcher can do without all but the first five; the others are for decoding and comparing.
plugins=(coreelements app videotestsrc videoconvertscale rawparse
  typefindfunctions playback videoparsersbad isomp4 openh264 nvcodec videofilter multifile
  coretracers debug debugutilsbad)
# Parts of every Linux, of its compiler, or of the driver: theirs must be used.
system='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libstdc\+\+|libgcc_s|libcuda|libnv.*|linux-vdso)\.so'

# executable KIND NAME: the file that cargo builds for a test or bench target.
executable() {
  local command=(cargo test --test "$2")
  [ "$1" = test ] || command=(cargo bench --bench "$2")
  local profile=(--release)
  [ "$1" = test ] || profile=()
  in_root "${command[@]}" "${profile[@]}" --no-run --quiet --message-format=json |
    sed -n 's/.*"name":"'"$2"'".*"executable":"\([^"]*\)".*/\1/p' | tail -1
}

# put FILE NAME: a stripped copy in the bundle.
put() {
  [ -e "$1" ] || die "cargo built nothing for $2"
  cp "$1" "$bundle/bin/$2"
  strip "$bundle/bin/$2"
}

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/plugins" "$bundle/media"
build_release
cp "$(target_dir)/release/libgstcudaconv.so" "$bundle/plugins/"
strip "$bundle/plugins/libgstcudaconv.so"
say 'building the tests and the benchmark, optimised'
put "$(executable test gpu)" gpu-tests
put "$(executable test element)" element-tests
put "$(executable test latency)" latency-tests
put "$(executable bench gpu-figures)" gpu-figures
put "$(executable bench exactness)" exactness
put "$(target_dir)/release/cudaconv" cudaconv

say 'gathering GStreamer'
libraries=$(pkg-config --variable=libdir gstreamer-1.0)
folder=$(pkg-config --variable=pluginsdir gstreamer-1.0)
scanner=$(pkg-config --variable=pluginscannerdir gstreamer-1.0)/gst-plugin-scanner
stage=$scratch/gst
mkdir -p "$stage/bin" "$stage/lib" "$stage/plugins" "$stage/libexec"
cp "$(command -v gst-launch-1.0)" "$(command -v gst-inspect-1.0)" "$stage/bin/"
cp "$scanner" "$stage/libexec/"
for plugin in "${plugins[@]}"; do
  file=$folder/libgst$plugin.so
  if [ -e "$file" ]; then cp "$file" "$stage/plugins/"; else say "without $plugin: not installed here"; fi
done
ldd "$stage"/bin/* "$stage"/libexec/* "$stage"/plugins/*.so "$bundle"/bin/* "$bundle"/plugins/*.so 2>/dev/null |
  awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' | sort -u |
  while read -r name path; do
    [[ $name =~ $system ]] || cp -L "$path" "$stage/lib/$name"
  done
[ -e "$stage/lib/libgstreamer-1.0.so.0" ] || die "GStreamer's libraries were not found in $libraries"
tar -C "$stage" -czf "$bundle/gst.tar.gz" .
# Every program has all kernels in it, as text.
tar -C "$bundle" --remove-files -czf "$bundle/programs.tar.gz" bin plugins

cat >"$bundle/env.sh" <<'TXT'
# shellcheck shell=bash
# Sourced: unpacks the programs and the GStreamer runtime, once, and makes the former use the latter.
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -d "$bundle/bin" ] || tar -C "$bundle" -xzf "$bundle/programs.tar.gz"
runtime=${TMPDIR:-/tmp}/cudaconv-gst-$(cksum <"$bundle/gst.tar.gz" | cut -d' ' -f1)
if [ ! -d "$runtime" ]; then
  mkdir "$runtime.new"
  tar -C "$runtime.new" -xzf "$bundle/gst.tar.gz"
  mv "$runtime.new" "$runtime"
fi
export PATH=$runtime/bin:$PATH
export LD_LIBRARY_PATH=$runtime/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export GST_PLUGIN_SYSTEM_PATH_1_0=$runtime/plugins GST_PLUGIN_PATH_1_0=$bundle/plugins
export GST_PLUGIN_SCANNER_1_0=$runtime/libexec/gst-plugin-scanner GST_REGISTRY_1_0=$runtime/registry
TXT

clips=("$@")
if [ $# -eq 0 ]; then
  for clip in "$root"/../shared/media/*.mp4; do [ ! -e "$clip" ] || clips+=("$clip"); done
fi
for clip in ${clips[@]+"${clips[@]}"}; do cp "$clip" "$bundle/media/"; done

size=$(du -sm "$bundle" | cut -f1)
[ "$size" -le "$limit" ] || die ".gpu is $size MiB; the most is $limit"
say ".gpu is ready, $size MiB; on the machine with the GPU: scripts/gpu-verify.sh"
