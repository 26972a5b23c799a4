# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034 # the variables are for the scripts that source this file
# Functions and variables shared by vendor/fetch, vendor/build and each vendor/<name>/build. A change of this file
# rebuilds all libraries.

VENDOR=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${UNIRAIL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/unirail}

die() {
	echo "vendor: $*" >&2
	exit 1
}

say() {
	echo "vendor: $*" >&2
}

# names: everything in the manifest, in the order of its lines, which is the order of building.
names() {
	awk '!/^#/ && NF { print $1 }' "$VENDOR/manifest"
}

# row NAME: sets R_USE R_VERSION R_FILE R_SHA R_DEBIAN R_LICENCE R_UPSHA R_URL from the manifest.
row() {
	read -r _ R_USE R_VERSION R_FILE R_SHA R_DEBIAN R_LICENCE R_UPSHA R_URL \
		< <(awk -v n="$1" '$1 == n' "$VENDOR/manifest") ||
		die "manifest: no line for '$1'"
}

# fits FILE: checks that the file has the checksum in the manifest's current row.
fits() {
	local sum

	[ -f "$1" ] || return 1
	sum=$(sha256sum <"$1")
	sum=${sum%% *}
	[ "$sum" = "$R_SHA" ] || [ "$sum" = "$R_UPSHA" ]
}

# compiler_flags: sets CFLAGS for $LIBC. -ffile-prefix-map replaces this machine's paths in object files, so that builds are
# reproducible byte for byte. If several -ffile-prefix-map options match a path, the compiler uses the last one.
compiler_flags() {
	if [ "$LIBC" = musl ]; then
		CFLAGS=(-Os -ffunction-sections -fdata-sections -fPIE -fno-asynchronous-unwind-tables
			-fno-unwind-tables -fstack-protector-strong -fstack-clash-protection)
	else
		CFLAGS=(-Og -g1 -fPIE -fsanitize=address -fno-omit-frame-pointer)
	fi
	CFLAGS+=(-w "-ffile-prefix-map=$CACHE=/vendor" "-ffile-prefix-map=$WORK=/vendor/$NAME")
}

# unpack: extracts the source of the current row to $SRC and applies our patches.
unpack() {
	local p

	mkdir -p "$SRC"
	tar -xf "$CACHE/src/$R_FILE" -C "$SRC" --strip-components=1 "$@"
	for p in "$VENDOR/$NAME"/patches/*.patch; do
		[ -e "$p" ] || continue
		patch -d "$SRC" -p1 -s -i "$p" || die "$NAME: $p does not apply to $R_VERSION"
	done
}

# archive LIB FLAG... -- SOURCE...: compiles the sources in parallel and creates $OUT/lib/LIB.
archive() {
	local lib=$1 flags=() dir=$WORK/obj

	shift
	while [ "$1" != -- ]; do
		flags+=("$1")
		shift
	done
	shift
	mkdir -p "$dir" "$OUT/lib"
	# The object is named after the whole path, because two folders may contain files with the same name.
	# shellcheck disable=SC2016 # expands in the inner shell
	(cd "$SRC" && printf '%s\n' "$@" | xargs -P "$JOBS" -I{} sh -c \
		'dir=$1; src=$2; shift 2; exec "$@" -c "$src" -o "$dir/$(echo "${src%.c}" | tr / _).o"' \
		_ "$dir" {} "$CC" "${CFLAGS[@]}" "${flags[@]}") || die "$NAME: a file does not compile"
	"$AR" rcsD "$OUT/lib/$lib" "$dir"/*.o
}

# headers FILE...: copies headers (files or folders) of the source to $OUT/include.
headers() {
	mkdir -p "$OUT/include"
	(cd "$SRC" && cp -r "$@" "$OUT/include/")
}

# licence FILE...: copies licence texts for `make dist`.
licence() {
	mkdir -p "$OUT/share/licences/$NAME"
	(cd "$SRC" && cp "$@" "$OUT/share/licences/$NAME/")
}
