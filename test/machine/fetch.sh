#!/usr/bin/env bash
# Unpacks what "make arm64" needs of Debian for arm64 into the folder that it is given, unless it is there: two kernels and a static
# busybox. Nothing is installed, and apt's own settings and lists stay as they are. Needs apt and Debian's keys
# (debian-archive-keyring); DEBIAN_MIRROR is the mirror, the first of apt's own unless it is set.
set -euo pipefail
into=$1
if [ -e "$into/complete" ]; then exit; fi
keys=/usr/share/keyrings/debian-archive-keyring.gpg
for need in apt-get apt-cache dpkg-deb; do
  command -v "$need" >/dev/null || { echo "$need is not installed: run this on Debian, or on Ubuntu" >&2; exit 1; }
done
[ -e "$keys" ] || { echo "Debian's keys are not installed: apt-get install debian-archive-keyring" >&2; exit 1; }
mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n 1p)}
[ -n "$mirror" ] || { echo "apt names no mirror of Debian: set DEBIAN_MIRROR to one" >&2; exit 1; }
rm -rf "$into"
mkdir -p "$into"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
: >"$work/status"
for suite in bookworm trixie; do
  echo "deb [signed-by=$keys] $mirror $suite main"
done >"$work/sources.list"
cat >"$work/apt.conf" <<END
APT::Architecture "arm64";
APT::Architectures { "arm64"; };
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "$work";
Dir::State::lists "$work/lists";
Dir::State::status "$work/status";
Dir::Cache "$work/cache";
Dir::Etc::sourcelist "$work/sources.list";
Dir::Etc::sourceparts "-";
END
export APT_CONFIG=$work/apt.conf
cd "$work"
apt-get update -qq
# Linux 6.1 has Landlock 2, Linux 6.12 has 6: the first one that can confine.
for version in 6.1 6.12; do
  image=$(apt-cache pkgnames "linux-image-$version." | grep -E -- '[0-9]-cloud-arm64$|deb[0-9]+-cloud-arm64$' | sort -V | tail -1)
  apt-get download -qq "$image"
  dpkg-deb -x "$image"_*.deb kernel
  mv kernel/boot/vmlinuz-* "$into/linux-$version"
  rm -rf kernel
done
apt-get download -qq busybox-static
dpkg-deb -x busybox-static_*.deb busybox
busybox=busybox/bin/busybox
[ -e "$busybox" ] || busybox=busybox/usr/bin/busybox
mv "$busybox" "$into/busybox"
touch "$into/complete"
