# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Builds programs of Kubernetes 1.20.2 from Debian bookworm's source package; the scripts fetch and fetch-kubelet source this
# file after debian.sh. The script fetch leaves Go, the source and Go's build cache (1.4 GB) for fetch-kubelet, which removes them.

# shellcheck disable=SC2154 # debian.sh sets cache
# shellcheck disable=SC2034 # scripts that source this file use the variables
release=bookworm
kube=v1.20.2
go=1.19
work=$cache/build-$kube
tree=$work/src/k8s.io/kubernetes

unpack() {
	debs "$work/apt" "$release" "$work/root" "golang-$go-go" "golang-$go-src" golang-github-modern-go-reflect2-dev "$@"
	apt-get -q source --download-only kubernetes
	# Applies Debian's patches; apt has checked the signature.
	dpkg-source --no-check -x kubernetes_*.dsc "$tree"
}

use_go() {
	export GOROOT=$work/root/usr/lib/go-$go GOPATH=$work GOCACHE=$work/cache
	export GO111MODULE=off GOFLAGS=-buildvcs=false CGO_ENABLED=0 PATH=$work/root/usr/lib/go-$go/bin:$PATH
	cd "$tree" || return
}

# The vendored reflect2 1.0.1 corrupts JSON maps if it is compiled with Go 1.18 or later.
newer_reflect2() {
	rm -rf vendor/github.com/modern-go/reflect2
	cp -r "$work/root/usr/share/gocode/src/github.com/modern-go/reflect2" vendor/github.com/modern-go/
}

# Generates zz_generated.openapi.go, the only file that the source package lacks.
openapi() {
	local from packages

	go build -o "$work/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
	from=(cmd pkg plugin)
	for dir in staging/src/k8s.io/*; do
		from+=("vendor/k8s.io/${dir##*/}/")
	done
	packages=$(grep -rl --include='*.go' '+k8s:openapi-gen=' "${from[@]}" |
		grep -vE '^vendor/k8s.io/(code-generator|sample-apiserver)/|_test.go' |
		xargs -n1 dirname | LC_ALL=C sort -u | sed 's,^,k8s.io/kubernetes/,' | paste -sd,)
	"$work/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi \
		-O zz_generated.openapi -h hack/boilerplate/boilerplate.generatego.txt -r "$work/violations"
}

complete() {
	use_go
	newer_reflect2
	openapi
}

# source_tree PACKAGE...: puts Go and these packages into $work/root, and the completed source into $tree, unless $work/ready exists.
source_tree() {
	[ ! -e "$work/ready" ] || return 0
	rm -rf "$work"
	mkdir -p "${tree%/*}"
	(unpack "$@")
	(complete)
	touch "$work/ready"
}

# compile PROGRAM...: compiles into $work/bin.
compile() {
	local package stamp=

	use_go
	for package in k8s.io/client-go/pkg/version k8s.io/component-base/version; do
		package=k8s.io/kubernetes/vendor/$package
		stamp+=" -X $package.gitVersion=$kube -X $package.gitMajor=1 -X $package.gitMinor=20"
		stamp+=" -X $package.gitTreeState=clean"
	done
	mkdir -p "$work/bin"
	echo "$(date +%T) $*"
	# Upstream's tags: providerless leaves out the libraries of cloud providers; without dockerless a kubelet waits for Docker.
	go build -tags 'providerless dockerless' -trimpath -ldflags "-s -w $stamp" -o "$work/bin/" "${@/#/./cmd/}"
	date +%T
}
