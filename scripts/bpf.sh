#!/usr/bin/env bash
# Compile the agent's eBPF programs: bpf.sh [DIRECTORY], by default beside their source, where the objects are committed, with a
# record of what made them. Needs clang (12 or newer) and llvm-strip; CLANG and LLVM_STRIP name others. Exit 4: they are not here.
set -euo pipefail
cd "$(dirname "$0")/../internal/agent/kernel/bpf"
out=${1:-.}

first() { # the first of these programs that there is
  for p in "$@"; do
    if command -v "$p" >/dev/null; then echo "$p"; return; fi
  done
}
# Debian's clang 14 first: the committed objects are made with it.
clang=${CLANG:-$(first clang-14 clang)}
strip=${LLVM_STRIP:-$(first llvm-strip-14 llvm-strip)}
if [ -z "$clang" ] || [ -z "$strip" ]; then
  echo "bpf: needs clang and llvm-strip (Debian, Ubuntu: apt-get install clang llvm)" >&2
  exit 4
fi

for source in *.bpf.c; do
  object=$out/${source%.bpf.c}.bpfel.o
  "$clang" -target bpfel -mcpu=v3 -O2 -g -Wall -Wextra -Werror -fdebug-compilation-dir=. -c "$source" -o "$object"
  "$strip" -g "$object" # BTF stays; DWARF would be most of it
done
{
  echo "# compiled by $("$clang" --version | head -n 1)"
  sha256sum -- *.bpf.c *.h
} >"$out/sources.sha256"
