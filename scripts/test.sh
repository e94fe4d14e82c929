#!/usr/bin/env bash
# test.sh all|unit|e2e: runs the tests and ends with the list of what was skipped and why.
# DRAINPROOF_NO_SKIP=1 turns every missing capability into a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}

work=$(mktemp -d)
skips=$work/skips
touch "$skips"
cluster= # the local cluster that is to be taken down at the end
finish() {
  local code=$?
  [ -z "$cluster" ] || bin/drainproof cluster down "$cluster" || code=1
  if [ -s "$skips" ]; then
    printf '\nskipped:\n'
    sort -u "$skips" | sed 's/^/  /'
  fi
  rm -rf "$work"
  exit "$code"
}
trap finish EXIT
export DRAINPROOF_SKIP_LOG=$skips
# Debian keeps nft, iptables and conntrack where only root's PATH looks.
export PATH=$PATH:/usr/sbin:/sbin

skip() { # what, why
  if [ -n "${DRAINPROOF_NO_SKIP:-}" ]; then
    echo "$1: $2, and this run may skip nothing" >&2
    exit 1
  fi
  echo "$1: $2" >>"$skips"
}

install_packages() {
  local missing=()
  for p in "$@"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing+=("$p")
  done
  [ ${#missing[@]} -eq 0 ] && return 0
  echo "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 update -qq >/dev/null
  apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

can_install=
if [ "$(id -u)" = 0 ] && [ -x /usr/bin/apt-get ]; then
  can_install=1
  # gcc is for the race detector, patch for the audit's diffs, chromium for the report; the rest is what a local cluster runs on.
  install_packages gcc libc6-dev patch containerd runc containernetworking-plugins iptables nftables conntrack iproute2 chromium
fi

unit() {
  echo "== unit tests"
  go vet ./...
  if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
    go test -race -timeout 15m ./...
  else
    skip "race detector" "there is no C compiler"
    go test -timeout 15m ./...
  fi
}

e2e() {
  if [ "$(uname -s)" != Linux ]; then
    skip "end-to-end tests" "a local cluster needs Linux"
    return
  fi
  if [ "$(id -u)" != 0 ]; then
    skip "end-to-end tests" "a local cluster needs root"
    return
  fi
  if [ -z "$can_install" ] && ! command -v containerd >/dev/null; then
    skip "end-to-end tests" "containerd and its friends are not installed, and this is not Debian or Ubuntu"
    return
  fi
  echo "== end-to-end tests on real local clusters (the first run builds Kubernetes: 10 to 25 minutes)"
  make -s build
  # One package at a time: each measures, and two cores are few.
  go test -tags e2e -count=1 -timeout 10m ./internal/render/htmlview
  go test -tags e2e -count=1 -timeout 85m ./internal/localcluster
  cluster=e2e
  bin/drainproof cluster up e2e --kubernetes-from build
  bin/drainproof cluster kubeconfig e2e >"$work/kubeconfig"
  bin/drainproof image save "$work/image.tar" >"$work/reference"
  bin/drainproof cluster load-image "$work/image.tar" e2e
  KUBECONFIG=$work/kubeconfig DRAINPROOF_IMAGE=$(cat "$work/reference") \
    go test -tags e2e -count=1 -timeout 15m ./internal/kube
  go test -tags e2e -count=1 -timeout 45m ./internal/e2e
}

case $mode in
  unit) unit ;;
  e2e) e2e ;;
  all) unit; e2e ;;
  *) echo "usage: $0 all|unit|e2e" >&2; exit 2 ;;
esac
