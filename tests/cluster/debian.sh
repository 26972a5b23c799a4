# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Sourced by the fetch scripts. An apt with separate state downloads packages and verifies them with Debian's archive key. The archive is
# UNIRAIL_DEBIAN=URI or, without it, the Debian archive that this system's apt uses.

# shellcheck disable=SC2034 # for scripts that source it
key=/usr/share/keyrings/debian-archive-keyring.gpg
cache=${UNIRAIL_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/unirail}/cluster

debian_base() {
	local uris

	if [ -n "${UNIRAIL_DEBIAN:-}" ]; then
		echo "${UNIRAIL_DEBIAN%/}"
		return
	fi
	# shellcheck disable=SC2016 # apt's own placeholder
	uris=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed 's,/*$,,' | sort -u)
	grep -m1 '/debian$' <<<"$uris" && return
	# A mirror of Ubuntu often provides Debian as well, at the same URL with /debian.
	sed -n 's,/ubuntu$,/debian,p' <<<"$uris" | grep -m1 . && return
	echo "$0: apt of this system has no Debian archive: set UNIRAIL_DEBIAN to the URL of one" >&2
	return 1
}

# own_apt FOLDER RELEASE: makes apt use lists, cache and status in FOLDER; those of the system stay unchanged.
own_apt() {
	local apt=$1 base

	base=$(debian_base)
	mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/dpkg"
	: >"$apt/dpkg/status"
	printf "%s [signed-by=$key] %s $2 main\n" deb "$base" deb-src "$base" >"$apt/sources.list"
	cat >"$apt/conf" <<-END
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::Etc::preferencesparts "/dev/null";
		Dir::State "$apt";
		Dir::State::Lists "$apt/lists";
		Dir::State::status "$apt/dpkg/status";
		Dir::Cache "$apt";
		Dir::Cache::archives "$apt/archives";
		APT::Architecture "amd64";
		APT::Architectures { "amd64"; };
		APT::Sandbox::User "root";
		Acquire::Retries "2";
		Acquire::Languages "none";
		Debug::NoLocking "true";
	END
	export APT_CONFIG=$apt/conf
	apt-get -q -o APT::Update::Error-Mode=any update
}

# debs FOLDER RELEASE INTO PACKAGE...: unpacks packages below INTO.
debs() {
	local into=$3

	own_apt "$1" "$2"
	cd "$1/archives" || return
	shift 3
	apt-get -q download "$@"
	for deb in *.deb; do
		dpkg -x "$deb" "$into"
	done
}

# once FILE WHAT VARIABLE...: unless FILE exists, prints WHAT and calls the function `all` of the script, which makes FILE and gets these
# variables. A lock keeps two runs of a script apart.
once() {
	local file=$1 what=$2 log

	shift 2
	log=$cache/$(basename "$0").log
	mkdir -p "$cache"
	exec 9>"$cache/$(basename "$0").lock"
	flock 9
	[ ! -e "$file" ] || return 0
	echo "$0: $what, once: see $log" >&2
	# In a separate shell: in this one `||` would make the shell ignore set -e in `all`.
	"$BASH" -c "set -euo pipefail; $(declare -p key cache "$@"); $(declare -f); all" >"$log" 2>&1 9>&- ||
		{ tail -n 5 "$log" >&2; exit 1; }
}
