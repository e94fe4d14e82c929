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
declare -A others=() # what runs beside this, by name
finish() {
  local code=$? name
  for name in "${!others[@]}"; do # where it ends before they do
    kill "${others[$name]}" 2>/dev/null || true
    wait "${others[$name]}" || true
    cat "$work/$name.log"
  done
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

# beside starts a command beside others, and ended waits for all of them; what they say comes one after the other.
beside() { # name, command
  local name=$1
  shift
  (
    trap - INT # which a shell's background has not
    exec "$@"
  ) >"$work/$name.log" 2>&1 &
  others[$name]=$!
}
ended() {
  local name code=0
  for name in "${!others[@]}"; do
    wait "${others[$name]}" || code=1
    cat "$work/$name.log"
  done
  others=()
  return "$code"
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

# Their tests read every published record, which takes minutes under the race detector, and nothing in them runs beside anything else.
pure='/(schema|internal/record|internal/render|internal/render/testview)$'

unit() {
  echo "== unit tests"
  go vet ./...
  if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
    local all
    all=$(go list ./...)
    grep -E "$pure" <<<"$all" | xargs go test -timeout 15m
    grep -Ev "$pure" <<<"$all" | xargs go test -race -timeout 15m
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
  # One package at a time where they measure: two cores are few.
  go test -tags e2e -count=1 -timeout 85m ./internal/localcluster
  cluster=e2e
  bin/drainproof cluster up e2e --kubernetes-from build
  bin/drainproof cluster kubeconfig e2e >"$work/kubeconfig"
  bin/drainproof image save "$work/image.tar" >"$work/reference"
  bin/drainproof cluster load-image "$work/image.tar" e2e
  # None of these measures, and most of their time they wait.
  local dies='^TestE2EAPIServerDies$'
  beside chromium go test -tags e2e -count=1 -timeout 10m ./internal/render/htmlview
  beside kube env KUBECONFIG="$work/kubeconfig" DRAINPROOF_IMAGE="$(cat "$work/reference")" go test -tags e2e -count=1 -timeout 15m ./internal/kube
  beside dies env DRAINPROOF_E2E_CLUSTER=$cluster go test -tags e2e -count=1 -timeout 15m -run "$dies" ./internal/e2e
  ended
  # Tests that mostly wait run beside each other.
  go test -tags e2e -count=1 -timeout 60m -parallel 3 -skip "$dies" ./internal/e2e
}

case $mode in
  unit) unit ;;
  e2e) e2e ;;
  all) unit; e2e ;;
  *) echo "usage: $0 all|unit|e2e" >&2; exit 2 ;;
esac
