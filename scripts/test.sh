#!/usr/bin/env bash
# test.sh all|unit|e2e: runs the tests and ends with the list of what was skipped and why.
# DRAINPROOF_NO_SKIP=1 turns every missing capability into a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=${1:-all}

skips=$(mktemp)
trap 'rm -f "$skips"' EXIT
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
  apt-get update -qq >/dev/null
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
}

can_install=
if [ "$(id -u)" = 0 ] && [ -x /usr/bin/apt-get ]; then
  can_install=1
  # gcc is for the race detector; the rest is what a local cluster runs on.
  install_packages gcc libc6-dev containerd runc containernetworking-plugins iptables nftables conntrack iproute2
fi

unit() {
  echo "== unit tests (race detector on)"
  go vet ./...
  go test -race -timeout 15m ./...
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
  echo "== end-to-end tests on a real local cluster (the first run builds Kubernetes: 10 to 25 minutes)"
  make -s build
  # One package at a time: each measures, and two cores are few.
  go test -tags e2e -count=1 -timeout 85m ./internal/localcluster
  bin/drainproof cluster up e2e --kubernetes-from build
  trap 'bin/drainproof cluster down e2e; rm -f "$skips"' EXIT
  KUBECONFIG=/var/lib/drainproof/clusters/e2e/kubeconfig go test -tags e2e -count=1 -timeout 15m ./internal/kube
  go test -tags e2e -count=1 -timeout 45m ./internal/e2e
}

case $mode in
  unit) unit ;;
  e2e) e2e ;;
  all) unit; e2e ;;
  *) echo "usage: $0 all|unit|e2e" >&2; exit 2 ;;
esac

if [ -s "$skips" ]; then
  echo
  echo "skipped:"
  sort -u "$skips" | sed 's/^/  /'
fi
