#!/bin/sh
# Installs the .deb of a release in a Debian that has nothing but its essential packages, and uses what it installs there:
# try.sh DIST. Needs root, mmdebstrap and bubblewrap, and takes half a minute.
set -eu
dist=$1
for need in mmdebstrap bwrap; do
  command -v $need >/dev/null || { echo "$need is not installed: apt-get install mmdebstrap bubblewrap" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "the packages of another system can only be installed by root: run this as root" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mmdebstrap --quiet --variant=essential bookworm "$root"
deb=$(echo "$dist"/acphost_*_"$(dpkg --print-architecture)".deb)
cp "$deb" "$root/acphost.deb"

# bare runs a command in the root, without a network, with nothing of this machine's.
bare() { bwrap --unshare-all --die-with-parent --clearenv --setenv PATH /usr/sbin:/usr/bin:/sbin:/bin --setenv HOME /root \
  --bind "$root" / --proc /proc --dev /dev --chdir / "$@"; }

bare dpkg -i /acphost.deb
bare acphost version
bare acphost demo
for program in fsd termd permd; do bare $program --version; done
bare sh -c 'test -s /usr/share/man/man1/acphost-run.1 && test -s /usr/share/doc/acphost/copyright && test -s /usr/share/bash-completion/completions/acphost' 2>/dev/null \
  || echo "this Debian leaves out documents (dpkg's path-exclude)"
bare dpkg -V acphost
bare dpkg -r acphost
if [ -e "$root/usr/bin/acphost" ]; then echo "acphost is still there after dpkg -r" >&2; exit 1; fi
echo "the package works, and leaves nothing"
