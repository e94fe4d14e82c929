#!/usr/bin/env bash
# The benchmarks behind every claim on performance; some minutes (the first run builds the peers). Nothing else
# should run beside them: they hold 15,000 connections on the loopback interface.
set -euo pipefail
cd "$(dirname "$0")/.."

# 15,000 flows on each side of a connection, in two processes.
ulimit -n "$(ulimit -Hn)"
if [ "$(ulimit -n)" != unlimited ] && [ "$(ulimit -n)" -lt 16000 ]; then
  echo "bench: needs 16,000 open files per process, and the limit is $(ulimit -n) (ulimit -n)" >&2
  exit 4
fi
echo "# targets: total-KiB/flow <= 12, late-p99.9-ms <= 50 (Hold: 15,000 flows, 500 ms heartbeats); p99-ms <= 2 (Reset: 5,000 flows)"
go test -run '^$' -bench . -count "${COUNT:-1}" ./internal/traffic/bench
echo "# targets: x-vegeta >= 2, late-p99.9-ms <= 1 (NewConnection: 5,000 requests/s); x-vegeta >= 3 (KeepAlive: 10,000 requests/s); MiB <= 300 (Million)"
go test -run '^$' -bench 'NewConnection|KeepAlive' -benchtime 3x -count "${COUNT:-1}" ./internal/traffic/request/bench
go test -run '^$' -bench Million -benchtime 1x -count "${COUNT:-1}" ./internal/traffic/request/bench
echo "# targets: x-faster >= 5, memory-share <= 0.5 (Peer: 10,000 documents beside kube-score); s <= 10, MiB <= 300 (Live: 5,000 Pods)"
go test -run '^$' -bench . -benchtime 5x -count "${COUNT:-1}" ./internal/audit/bench
echo "# targets: %-of-a-core <= 10, peak-MiB <= 57 (60 MB), lost, entries-missing and closes-missing 0 (NewConnections: 5,000 a second); served-ratio >= 0.97 and cost-ratio <= 1.03 (Cost: 5,000 a second); throughput-ratio >= 0.97 (Throughput: no processor time left); off-max-us <= 50 (EventTime); needs root"
go test -run '^$' -bench . -benchtime 1x -timeout 0 -count "${COUNT:-1}" ./internal/agent/bench
if command -v chromium >/dev/null; then
  echo "# targets: ms <= 2000 (Open: a page of 100,000 requests, and one of 100,000 failures, in Chromium)"
  go test -tags e2e -run '^$' -bench Open -benchtime 5x -count "${COUNT:-1}" ./internal/render/htmlview
else
  echo "bench: without chromium the opening of a report is not measured" >&2
fi
