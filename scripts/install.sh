#!/usr/bin/env bash
# Puts the plugin where every GStreamer program finds it, and the program `cudaconv` in the PATH.
set -euo pipefail
here=$(dirname "${BASH_SOURCE[0]}")
. "$here/common.sh"

usage() {
  cat <<TXT
usage: scripts/install.sh [--system] [--uninstall]

Without options: for you alone, into ~/.local (XDG_DATA_HOME is heeded for the plugin).
  --system      for all users: the system's GStreamer plugins and /usr/local/bin, as root or by sudo
  --uninstall   remove what this script has installed there
TXT
}

system=
uninstall=
for argument in "$@"; do
  case $argument in
    --system) system=1 ;;
    --uninstall) uninstall=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

as_root=()
if [ -n "$system" ]; then
  command -v pkg-config >/dev/null || "$here/setup.sh"
  plugins=$(pkg-config --variable=pluginsdir gstreamer-1.0) || die "pkg-config does not know gstreamer-1.0"
  programs=/usr/local/bin
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
else
  [ -z "${SUDO_USER:-}" ] || die 'this would install for root alone: run it without sudo, or with --system'
  plugins=${XDG_DATA_HOME:-$HOME/.local/share}/gstreamer-1.0/plugins
  programs=$HOME/.local/bin
fi
plugin=$plugins/libgstcudaconv.so
program=$programs/cudaconv

if [ -n "$uninstall" ]; then
  "${as_root[@]}" rm -fv "$plugin" "$program"
  exit 0
fi

"$here/setup.sh"
build_release
built=$(target_dir)/release
# `install` makes a new file in place of an old one, so programs that have the old one open keep it.
"${as_root[@]}" install -D -m 755 "$built/libgstcudaconv.so" "$plugin"
"${as_root[@]}" install -D -m 755 "$built/cudaconv" "$program"
say "installed $plugin"
say "installed $program"

# As any shell would see it: none of this one's GST_… variables.
plain=(env -i "HOME=$HOME" "PATH=$PATH")
[ -z "${XDG_DATA_HOME:-}" ] || plain+=("XDG_DATA_HOME=$XDG_DATA_HOME")
"${plain[@]}" gst-inspect-1.0 cudaconv >"$scratch/inspect" 2>&1 || {
  cat "$scratch/inspect" >&2
  die "GStreamer does not find the element in $plugins"
}
found=$(sed -n 's/^ *Filename *//p' "$scratch/inspect")
[ "$found" = "$plugin" ] || die "GStreamer takes another copy of the plugin: $found. Remove that one."
if [ -n "${GST_PLUGIN_SYSTEM_PATH_1_0-${GST_PLUGIN_SYSTEM_PATH-}}" ]; then
  say "note: GST_PLUGIN_SYSTEM_PATH is set in this shell, so GStreamer looks for plugins there instead"
fi
case :$PATH: in
  *:"$programs":*) ;;
  *) say "note: $programs is not in PATH, so the program is started as $program" ;;
esac
say 'GStreamer finds it. Try:'
say '  gst-launch-1.0 -v videotestsrc num-buffers=30 ! cudaconv kernel=bilateral silent=false ! fakesink'
