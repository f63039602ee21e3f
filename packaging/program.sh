#!/bin/sh
# Puts the program below a folder: `program.sh WHEEL DIR [EXTRAS]`. The package and what it needs go to /usr/lib/ottla,
# apart from the system's own modules, and /usr/bin/ottla starts it by the system's Python.
set -eu
wheel=$(realpath "$1") root=$2 extras=${3:-}
here=$(dirname "$(realpath "$0")")
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
mkdir -p "$root/usr/lib/ottla" "$root/usr/bin"

python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-compile --only-binary=:all: \
    --target "$root/usr/lib/ottla" -c "$here/../requirements/lock.txt" "$wheel${extras:+[$extras]}"
rm -rf "$root"/usr/lib/ottla/bin "$root"/usr/lib/ottla/ottla/sim "$root"/usr/lib/ottla/ottla/demo
find "$root/usr/lib/ottla" -name '*.pyi' -delete
if command -v strip >/dev/null; then find "$root/usr/lib/ottla" -name '*.so' -exec strip --strip-unneeded {} +; fi

cat >"$root/usr/bin/ottla" <<END
#!/usr/bin/python$version -sP
import sys
sys.path.insert(0, "/usr/lib/ottla")
from ottla.cli.main import main
sys.exit(main())
END
chmod 755 "$root/usr/bin/ottla"
# By contents: the files' times change on the way to where they are run, and nobody may write there.
python3 -m compileall -q --invalidation-mode unchecked-hash -s "$root" "$root/usr/lib/ottla" >/dev/null
