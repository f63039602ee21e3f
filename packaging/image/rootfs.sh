#!/bin/sh
# Makes the image's files: `rootfs.sh WHEEL DIR [EXTRAS]`. Python and its libraries come from Debian's packages of this
# machine's release, ottla and what it needs as wheels. Nothing else is there: no shell but busybox, no package manager.
# Needs Debian or Ubuntu with python3 and pip; no root.
set -eu
wheel=$(realpath "$1") root=$2 extras=${3:-}
here=$(dirname "$(realpath "$0")")
python=python$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
system=/usr/bin/$python
[ -x "$system" ] || system=$(command -v "$python")

rm -rf "$root"
mkdir -p "$root"
root=$(realpath "$root")
debs=$(mktemp -d)
trap 'rm -rf "$debs"' EXIT

# The system's Python and the libraries that its modules load; a t64 name is that of newer releases.
packages=""
for name in "lib$python-minimal" "lib$python-stdlib" "$python-minimal" libc6 libgcc-s1 libstdc++6 libssl3 zlib1g libexpat1 \
    libffi8 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1 libcrypt1 busybox-static ca-certificates tzdata netbase base-files; do
    if apt-cache show "$name" >/dev/null 2>&1; then packages="$packages $name"
    elif apt-cache show "${name}t64" >/dev/null 2>&1; then packages="$packages ${name}t64"
    else echo "rootfs: Debian's packages have no $name; run apt-get update, or build in debian:bookworm" >&2; exit 1; fi
done
# shellcheck disable=SC2086  # a list of names
(cd "$debs" && apt-get download -q $packages >/dev/null 2>"$debs/log") || { cat "$debs/log" >&2; exit 1; }
for package in "$debs"/*.deb; do dpkg-deb -x "$package" "$root"; done

# What no broker reads.
rm -rf "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/locale "$root"/usr/share/lintian "$root"/usr/share/info
rm -rf "$root"/usr/lib/"$python"/test "$root"/usr/lib/"$python"/idlelib "$root"/usr/lib/"$python"/lib2to3 \
    "$root"/usr/lib/"$python"/pydoc_data "$root"/usr/lib/"$python"/ensurepip "$root"/usr/lib/"$python"/tkinter \
    "$root"/usr/share/zoneinfo/right "$root"/usr/share/zoneinfo/posix "$root"/usr/lib/*/gconv
ln -sf "$python" "$root/usr/bin/python3"

# The programs that scripts of others expect, and certificates in the one file that OpenSSL reads.
for name in sh bash sleep cat echo ls test id wget hostname env mkdir chmod grep; do
    [ -e "$root/bin/$name" ] || ln -s /bin/busybox "$root/bin/$name"
done
ln -s /bin/busybox "$root/usr/bin/env"
mkdir -p "$root/etc/ssl/certs" "$root/etc/kafka/docker" "$root/etc/confluent/docker" "$root/etc/kafka/secrets" \
    "$root/mnt/shared/config" "$root/var/lib/kafka/data" "$root/var/lib/kafka/cluster" "$root/opt/kafka/bin" "$root/tmp"
find "$root/usr/share/ca-certificates" -name '*.crt' -exec cat {} + >"$root/etc/ssl/certs/ca-certificates.crt"
rm -rf "$root/usr/share/ca-certificates"
printf 'root:x:0:0:root:/root:/bin/sh\nappuser:x:1000:1000:ottla:/var/lib/kafka:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nappuser:x:1000:\n' >"$root/etc/group"
printf 'hosts: files dns\n' >"$root/etc/nsswitch.conf"

"$here/../program.sh" "$wheel" "$root" "$extras"
install -m 755 "$here/run" "$root/etc/kafka/docker/run"
ln -s ../../kafka/docker/run "$root/etc/confluent/docker/run"
for tool in $(PYTHONPATH="$root/usr/lib/ottla" "$system" -c 'from ottla.cli.main import KAFKA_TOOLS; print(*KAFKA_TOOLS)'); do
    printf '#!/bin/sh\nexec /usr/bin/ottla %s "$@"\n' "$tool" >"$root/opt/kafka/bin/$tool.sh"
    chmod 755 "$root/opt/kafka/bin/$tool.sh"
done
# As program.sh does for the package: nothing may be written while it runs.
"$system" -m compileall -q --invalidation-mode unchecked-hash -s "$root" "$root/usr/lib/$python" >/dev/null
chmod 1777 "$root/tmp"
