# What scripts/test, scripts/nightly and .ci/run share. They source it from the root of the workspace.

# What one build leaves for the next one of the same crate would fill the disk.
export CARGO_INCREMENTAL=0
# Tests wait for servers and timers more than they work: two cores are good for four at a time.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-4}

# All features on tokio, with TLS by ring, which the tests' certificates take anyway. Other libraries for TLS
# need OpenSSL's headers and minutes of a C compiler.
features=lock-core/tokio,lock-core/serde,lock-core/cron,lock-redis-rs/bb8,lock-redis-rs/rustls-ring
features=$features,lock-fred/unix-sockets,lock-fred/enable-rustls-ring
features=$features,examples/redis-rs,examples/fred,examples/axum,examples/apalis,examples/sqlite
# Not the crate interop: for all that are built with it, it switches TLS of redis on.
workspace=(--locked --workspace --exclude interop)

step() {
  echo
  echo "== $1 (after $SECONDS s)"
}

fail() {
  echo "$0: $*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    fail "this takes root or sudo: $*"
  fi
}

# Whether a package with certain features links what runs tasks, timers or sockets on tokio.
links_tokio_runtime() {
  local tree
  tree=$(cargo tree --locked -e normal --prefix none -f '{p} {f}' "$@")
  grep -qE '^tokio v.*[ ,](rt|net|time)(,| |$)' <<<"$tree"
}
