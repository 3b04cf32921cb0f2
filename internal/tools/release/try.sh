#!/bin/sh
# Installs the .deb of a release in a Debian that has nothing but its essential packages, and uses what it installs there; then the
# packages for npm in one that has Node.js besides. Then unpacks the images of the release and uses what is in them: try.sh DIST.
# Needs Go, Node.js, root, mmdebstrap and bubblewrap, and takes a minute.
set -eu
dist=$(cd "$1" && pwd)
cd "$(dirname "$0")"
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

# use plays the demo and a prompt, and writes an editor's settings, which name the program at a path. The prompt names its agent as
# the README does: it is found beside acphost.
use() { # PROGRAM-IN-SETTINGS COMMAND...
  path=$1; shift
  bare "$@" version
  bare "$@" demo
  bare sh -c 'mkdir -p ~/work && cd ~/work && echo "We will recieve it." >notes.md &&
    "$@" prompt --policy headless "Fix the spelling" -- demoagent </dev/null && grep "receive it" notes.md' sh "$@"
  bare "$@" setup zed --agent gemini -- --policy workspace
  bare grep -q "\"$path\"" /root/.config/zed/settings.json
  bare "$@" setup zed --undo
}

bare dpkg -i /acphost.deb
use /usr/bin/acphost acphost
for unit in system/acphost.socket system/acphost.service system/acphost-fsd.service user/acphost.socket; do
  [ -s "$root/usr/lib/systemd/$unit" ] || { echo "the package has no unit $unit" >&2; exit 1; }
done
[ -z "$(find "$root/etc/systemd" -name 'acphost*' 2>/dev/null)" ] || { echo "the package enables a unit" >&2; exit 1; }
for program in fsd termd permd gatewayd; do bare $program --version; done
bare sh -c 'test -s /usr/share/man/man1/acphost-run.1 && test -s /usr/share/doc/acphost/copyright && test -s /usr/share/bash-completion/completions/acphost' 2>/dev/null \
  || echo "this Debian leaves out documents (dpkg's path-exclude)"
bare dpkg -V acphost
bare dpkg -r acphost
if [ -e "$root/usr/bin/acphost" ]; then echo "acphost is still there after dpkg -r" >&2; exit 1; fi
echo "the package works, and leaves nothing"

# A Debian with Node.js as this machine has it, with npm, and without anything of acphost's.
rm -rf "$root"
mmdebstrap --quiet --variant=essential --include=libstdc++6 bookworm "$root"
cp "$(node -p process.execPath)" "$root/usr/bin/node"
mkdir -p "$root/usr/lib/node_modules"
cp -R "$(dirname "$(dirname "$(realpath "$(command -v npm)")")")" "$root/usr/lib/node_modules/npm"
ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/usr/bin/npm"
ln -s ../lib/node_modules/npm/bin/npx-cli.js "$root/usr/bin/npx"
system=linux-$(node -p process.arch)
version=$(basename "$dist"/npm/acphost-client-*.tgz .tgz | sed 's/^acphost-client-//')
mkdir "$root/tgz" "$root/project"
cp "$dist/npm/acphost-$version.tgz" "$dist/npm/acphost-$system-$version.tgz" "$root/tgz"
echo '{}' >"$root/project/package.json"
bare sh -c 'cd /project && npm install --offline --no-audit --no-fund /tgz/*.tgz'
programs=/project/node_modules/@acphost/$system/bin
use "$programs/acphost" npx --prefix /project acphost
bare sh -c 'cd /project && npm uninstall --offline acphost "@acphost/'"$system"'"'
if [ -e "$root$programs" ] || [ -e "$root/project/node_modules/acphost" ]; then echo "the programs are still there after npm uninstall" >&2; exit 1; fi
echo "the packages for npm work, and leave nothing"

# contained runs a command as a container of an image would: as the image's user, with nothing but its files, which cannot be
# written, and no network.
contained() { image=$1; shift; bwrap --unshare-all --die-with-parent --uid 65532 --gid 65532 --clearenv --setenv PATH /usr/bin \
  --setenv HOME /home/acphost --ro-bind "$work/$image" / --proc /proc --dev /dev --tmpfs /tmp --tmpfs /home/acphost --chdir /home/acphost "$@"; }

for image in acphost fsd permd termd gatewayd; do
  mkdir "$work/$image" "$work/$image.oci"
  tar -xf "$dist/images/$image.oci.tar" -C "$work/$image.oci"
  GOWORK=off go run . files -out "$work/$image.oci" > "$work/$image.tar"
  tar -xf "$work/$image.tar" -C "$work/$image"
  mkdir "$work/$image/proc" "$work/$image/dev" # as what runs containers does
  contained $image /usr/bin/$image --version
done
contained acphost acphost handler copy termd /tmp
contained acphost acphost doctor
contained acphost acphost demo
contained acphost acphost prompt --policy headless "repeat in the image" -- demoagent
for file in etc/passwd etc/ssl/certs/ca-certificates.crt usr/share/doc/acphost/sbom.cdx.json usr/share/doc/acphost/THIRD_PARTY_LICENSES; do
  for image in acphost fsd permd termd gatewayd; do [ -s "$work/$image/$file" ] || { echo "the image $image lacks /$file" >&2; exit 1; }; done
done
[ "$(stat -c %a "$work/acphost/tmp")" = 1777 ] || { echo "/tmp of the image is not for everybody" >&2; exit 1; }
if [ -e "$work/fsd/usr/bin/acphost" ]; then echo "the image fsd has acphost in it" >&2; exit 1; fi
echo "the images work"
