#!/usr/bin/env bash
# measure.sh [DIR]: a rolling restart of every server of docs/servers.md, under traffic, on a local cluster of its own. The records go to
# DIR (out/servers), packed as those in results/servers are. REPEATS (3, at least 2) trials of each; PARALLEL (2) workloads at a time.
#
# Each Deployment of servers/manifests is brought up for its own trials and then scaled to zero, so that the machine carries few at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:/usr/sbin:/sbin
export out=${1:-out/servers} repeats=${REPEATS:-3} cluster=${CLUSTER:-servers} drainproof=${DRAINPROOF:-bin/drainproof}

archive=$(servers/image.sh)
if ! "$drainproof" cluster status "$cluster" >/dev/null 2>&1; then
  "$drainproof" cluster up "$cluster" --install-packages --kubernetes-from "${KUBERNETES_FROM:-auto}"
fi
"$drainproof" cluster load-image "$archive" "$cluster"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(umask 077 && "$drainproof" cluster kubeconfig "$cluster" >"$work/kubeconfig")
kubectl=$("$drainproof" cluster status "$cluster" -o json | sed -n 's/.*"kubectl": *"\([^"]*\)".*/\1/p')
export kubectl="$kubectl --kubeconfig $work/kubeconfig --namespace servers"

measure() { # a Deployment
  local name=$1 server=${1%%-*} variant=${1#*-} modes=(new-connection) request=(--http-path /) after=6s
  case $name in # kept connections where the answer is another than the one for new ones: what ends in order
    nginx-quit-sleep | haproxy-usr1-sleep | httpd-winch-sleep | node-pid1 | node-close | node-announce-sleep | gunicorn-sleep | go-shutdown-sleep)
      modes+=(keep-alive) ;;
  esac
  case $name in # as long as its last Pod stays
    node-pid1) after=35s ;;
    *-sleep) after=12s ;;
  esac
  case $server in
    nginx | httpd) request=(--http-path /page.txt) ;;
    dnsmasq) # a query for drainproof.example, type A
      modes=(udp) request=(--data base64:EjQBAAABAAAAAAAACmRyYWlucHJvb2YHZXhhbXBsZQAAAQAB) ;;
  esac
  $kubectl scale deployment "$name" --replicas=2
  $kubectl rollout status deployment "$name" --timeout=5m
  for mode in "${modes[@]}"; do
    local code=3 attempt
    for attempt in 1 2 3 4 5; do # 3: not enough to judge, as where the client itself fell behind; that trial is measured again
      [ $code = 3 ] || break
      code=0
      # The client must keep its schedule whatever else the machine does.
      chrt --rr 1 "$drainproof" test "deployment/$name" --cluster "$cluster" -n servers --vantage host --mode "$mode" "${request[@]}" --rate 50 --users 20 \
        --before 3s --after "$after" --repeat "$repeats" --resume --out "$out/$server/$variant/$mode" --yes || code=$?
    done
    [ $code -le 1 ] || { # lost requests are what is measured
      echo "measure.sh: deployment $name, $mode: exit code $code in $attempt attempts" >&2
      return 1
    }
  done
  $kubectl scale deployment "$name" --replicas=0
}
export -f measure

for f in servers/manifests/*.yaml; do
  echo ---
  sed 's/^  replicas: 2$/  replicas: 0/' "$f"
done >"$work/all.yaml"
$kubectl create namespace servers --dry-run=client -o yaml | $kubectl apply -f -
$kubectl apply -f "$work/all.yaml"
$kubectl scale deployment app --replicas=2
$kubectl rollout status deployment app --timeout=5m
mkdir -p "$out"
cp "$(dirname "$archive")/packages.txt" "$out/packages.txt"
$kubectl get deployments -l 'server,server!=app' -o name | sed 's|.*/||' | xargs -P "${PARALLEL:-2}" -I{} bash -euo pipefail -c 'measure {}'
find "$out" -type d -name history -prune -exec rm -rf {} + # what was measured again
find "$out" -name record.json -exec gzip -9 -n {} +
echo "records: $out; the cluster $cluster still runs: $drainproof cluster down $cluster"
