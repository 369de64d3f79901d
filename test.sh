#!/usr/bin/env bash
# All tests. --long runs more seeds and sizes. What is missing is installed where that is possible, and otherwise said.
set -euo pipefail
cd "$(dirname "$0")"
long=0
for argument in "$@"; do
  case $argument in
    --long) long=1 ;;
    *) echo "test.sh: unknown argument $argument (there is only --long)" >&2; exit 2 ;;
  esac
done
step() { printf '\n== %s (%ss)\n' "$1" "$SECONDS"; }

step "MPI"
missing=()
command -v mpicc.openmpi >/dev/null || missing+=(openmpi-bin libopenmpi-dev)
command -v mpicc.mpich >/dev/null || missing+=(mpich libmpich-dev)
if [ ${#missing[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}"; } >/dev/null 2>&1 \
    || echo "installing ${missing[*]} failed"
fi
for flavor in openmpi mpich; do
  if command -v "mpicc.$flavor" >/dev/null && command -v "mpirun.$flavor" >/dev/null; then
    echo "$flavor: found"
  else
    echo "$flavor: NOT FOUND, its tests are SKIPPED"
  fi
done

step "format and lints"
if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else echo "rustfmt: NOT FOUND, SKIPPED"; fi
if cargo clippy --version >/dev/null 2>&1; then
  cargo clippy --workspace --all-targets --quiet -- -D warnings
  # As it is released: without what only tests turn on.
  cargo clippy -p treepie-cli --quiet -- -D warnings
else
  echo "clippy: NOT FOUND, SKIPPED"
fi

# The models wait for nothing, so they run while tests wait for processes.
mkdir -p target
RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
  setsid nice -n 19 cargo test -p treepie-shm --release --lib --quiet >target/loom.log 2>&1 &
loom=$!
trap 'kill -- -$loom 2>/dev/null || true' EXIT

step "tests"
if [ $long = 1 ]; then export TREEPIE_SEEDS="${TREEPIE_SEEDS:-20000}" TREEPIE_LONG=1; fi
cargo test --workspace --quiet

step "models of what several ranks touch at once (loom)"
wait $loom || { cat target/loom.log; exit 1; }
tail -n 3 target/loom.log
trap - EXIT

step "documentation"
RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet

step "done"
