#!/usr/bin/env bash
# Makes this machine ready to build, test and run cudaconv: GStreamer with its plugins, a C linker
# and pkg-config from the distribution's packages (apt, on Debian and Ubuntu), and a look at Rust.
# Does nothing, within a second, where everything is there.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

gstreamer_needed=1.22

usage() {
  cat <<TXT
usage: scripts/setup.sh [--check] [--webcam] [--tests]

Installs what building and running cudaconv needs, by apt, as root or through sudo.
  --check    install nothing: say what is missing, exit code 1 if anything is
  --webcam   what the webcam demo needs besides: cameras and, with a display, windows
  --tests    what the tests of that window need besides: a display of their own
TXT
}

check_only=
webcam=
tests=
for argument in "$@"; do
  case $argument in
    --check) check_only=1 ;;
    --webcam) webcam=1 ;;
    --tests) tests=1 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done

# --- What is missing ---------------------------------------------------------------------------
# Judged by what works, not by package names, so that a GStreamer of one's own or of another
# distribution counts as well. Each entry: what is missing, and Debian's package for it.

missing=()
packages=()
need() {
  missing+=("$1")
  local package
  for package in "${@:2}"; do
    case " ${packages[*]} " in
      *" $package "*) ;;
      *) packages+=("$package") ;;
    esac
  done
}

# True when one of these elements can be made.
any_element() {
  local name
  for name in "$@"; do
    if gst-inspect-1.0 --exists "$name" 2>/dev/null; then return 0; fi
  done
  return 1
}

look() {
  missing=()
  packages=()
  command -v cc >/dev/null || need 'a C compiler, as the linker (cc)' gcc libc6-dev
  if ! command -v pkg-config >/dev/null; then
    need 'pkg-config' pkg-config
    need "GStreamer's headers, $gstreamer_needed or newer" libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev
  else
    pkg-config --atleast-version=$gstreamer_needed gstreamer-1.0 gstreamer-base-1.0 gstreamer-check-1.0 ||
      need "GStreamer's headers, $gstreamer_needed or newer" libgstreamer1.0-dev
    pkg-config --atleast-version=$gstreamer_needed gstreamer-video-1.0 gstreamer-app-1.0 ||
      need "headers of GStreamer's base libraries, $gstreamer_needed or newer" libgstreamer-plugins-base1.0-dev
  fi
  local tools=1
  command -v gst-launch-1.0 >/dev/null && command -v gst-inspect-1.0 >/dev/null || tools=
  [ -n "$tools" ] || need "GStreamer's tools (gst-launch-1.0, gst-inspect-1.0)" gstreamer1.0-tools
  element 'decodebin' gstreamer1.0-plugins-base decodebin
  element 'videoconvert' gstreamer1.0-plugins-base videoconvert
  element 'reading MP4 (qtdemux)' gstreamer1.0-plugins-good qtdemux
  element 'writing MP4 (mp4mux)' gstreamer1.0-plugins-good mp4mux
  element 'parsing H.264 (h264parse)' gstreamer1.0-plugins-bad h264parse
  element 'encoding H.264 (x264enc)' gstreamer1.0-plugins-ugly x264enc openh264enc nvh264enc vah264enc
  element 'decoding H.264 and AAC (avdec_h264)' gstreamer1.0-libav avdec_h264
  [ -z "$webcam" ] || look_for_webcam
  [ -z "$tests" ] || look_for_tests
}

look_for_webcam() {
  element 'cameras (v4l2src)' gstreamer1.0-plugins-good v4l2src
  element 'decoding MJPEG (jpegdec)' gstreamer1.0-plugins-good jpegdec
  element 'framing MJPEG (jpegparse)' gstreamer1.0-plugins-bad jpegparse
  element 'drawing on the picture (overlaycomposition)' gstreamer1.0-plugins-base overlaycomposition
  # Without a display there is nothing to open one on.
  [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || element 'a window (ximagesink)' gstreamer1.0-x ximagesink
}

look_for_tests() {
  command -v Xvfb >/dev/null || need 'a display without a screen (Xvfb)' xvfb
  command -v xdotool >/dev/null || need 'keys for a window (xdotool)' xdotool
  element 'windows and their pictures (ximagesink, ximagesrc)' gstreamer1.0-x ximagesrc
}

# element WHAT PACKAGE NAME…: one of the elements NAME… is needed. Without the tools nothing can
# be asked, so the package is asked for, and apt knows whether it is there.
element() {
  if [ -n "$tools" ] && any_element "${@:3}"; then return; fi
  need "$1" "$2"
}

list_missing() {
  local item
  for item in "${missing[@]}"; do say "  - $item"; done
}

# --- How to get it -----------------------------------------------------------------------------

distribution() {
  # shellcheck disable=SC1091
  (. /etc/os-release 2>/dev/null && printf '%s' "${PRETTY_NAME:-this system}") || printf 'this system'
}

# True on Debian, Ubuntu and what is made of them.
has_apt() {
  command -v apt-get >/dev/null || return 1
  # shellcheck disable=SC1091
  case " $(. /etc/os-release 2>/dev/null && printf '%s' "${ID:-} ${ID_LIKE:-}") " in
    *' debian '* | *' ubuntu '*) return 0 ;;
  esac
  return 1
}

hint() {
  if has_apt; then
    say 'Install it as root with:'
    say "  apt-get update && apt-get install --no-install-recommends ${packages[*]}"
    return
  fi
  cat >&2 <<TXT
$(distribution) is none of the systems this script installs on (Debian 12 and 13, Ubuntu 24.04).
The packages are called:
  Fedora:  dnf install gcc pkgconf-pkg-config gstreamer1-devel gstreamer1-plugins-base-devel gstreamer1-plugins-good gstreamer1-plugins-bad-free gstreamer1-plugin-libav gstreamer1-plugin-openh264
  Arch:    pacman -S --needed gcc pkgconf gstreamer gst-plugins-base gst-plugins-good gst-plugins-bad gst-plugins-ugly gst-libav
  Debian:  ${packages[*]}
TXT
}

# The version of GStreamer that apt would install, without epoch and Debian's revision.
apt_gstreamer() {
  apt-cache policy libgstreamer1.0-dev | sed -n 's/^ *Candidate: *\([0-9]*:\)\{0,1\}\([0-9.]*\).*/\2/p'
}

refuse_old_gstreamer() {
  die "$(distribution) has GStreamer $1, and cudaconv needs $gstreamer_needed or newer.
Debian 12, Ubuntu 24.04 and all later ones have it. On this system: use a container of one of them,
or a GStreamer of your own that pkg-config finds (PKG_CONFIG_PATH) and that comes first in PATH."
}

install_by_apt() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    as_root=(sudo)
    # Without a terminal nobody can type the password.
    [ -t 0 ] || as_root=(sudo -n)
  fi
  say "installing by apt (takes a minute or two): ${packages[*]}"
  "${as_root[@]}" apt-get update -qq >"$scratch/apt" 2>&1 || {
    cat "$scratch/apt" >&2
    die 'apt-get update failed; its output stands above'
  }
  local candidate
  candidate=$(apt_gstreamer)
  if [ -n "$candidate" ] && ! dpkg --compare-versions "$candidate" ge $gstreamer_needed; then
    refuse_old_gstreamer "$candidate"
  fi
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >"$scratch/apt" 2>&1 || {
    cat "$scratch/apt" >&2
    die 'apt-get install failed; its output stands above. (On Ubuntu the plugins are in the component universe.)'
  }
}

# --- Rust --------------------------------------------------------------------------------------

check_rust() {
  local needed found
  needed=$(sed -n 's/^rust-version *= *"\(.*\)"/\1/p' "$root/Cargo.toml")
  command -v cargo >/dev/null ||
    die "cargo was not found; cudaconv needs Rust $needed or newer.
Install it with rustup, as https://rustup.rs says, and run this again in a new shell."
  found=$(in_root cargo --version | sed 's/^cargo \([0-9.]*\).*/\1/')
  if [ "$(printf '%s\n' "$needed" "$found" | sort -V | head -n 1)" != "$needed" ]; then
    die "cargo is $found ($(command -v cargo)), and cudaconv needs Rust $needed or newer.
With rustup: rustup update stable. A distribution's cargo is often too old: install rustup, as
https://rustup.rs says, and see that ~/.cargo/bin comes first in PATH."
  fi
}

look
if [ ${#missing[@]} -gt 0 ]; then
  if [ -z "$check_only" ] && has_apt && { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null; }; then
    install_by_apt
    look
  fi
  if [ ${#missing[@]} -gt 0 ]; then
    if command -v pkg-config >/dev/null && found=$(pkg-config --modversion gstreamer-1.0 2>/dev/null) &&
      ! pkg-config --atleast-version=$gstreamer_needed gstreamer-1.0; then
      refuse_old_gstreamer "$found"
    fi
    say 'missing:'
    list_missing
    hint
    exit 1
  fi
fi
check_rust
