//! A store that refuses a writer whose lock has ended without its notice.
//!
//! Ann takes the lock, and her thread stalls for longer than the lock lives: a long garbage collection, a
//! machine that swaps. Bob gets the lock meanwhile and writes. Then Ann goes on where she was, and writes
//! too. No lock can stop her, but the store can: it compares her fencing token with the largest that it has
//! seen.
//!
//! `cargo run --release --example fencing`, with `--nodes redis://..,redis://..` on real servers, and with
//! `--features sqlite .. -- --store sqlite` on a real database.

#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use examples::{BoxError, USAGE, args, fail, nodes};
use lock_core::{DistributedLockExt, LockRequest, Redlock};
use store::{MemoryStore, Store, Written};

/// How long a lock lives that nobody extends.
const TTL: Duration = Duration::from_millis(500);

fn main() -> ExitCode {
    let options = match Options::parse() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail("fencing", &*error, USAGE),
    };
    match run(options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => fail("fencing", &*error, 1),
    }
}

const HELP: &str = "\
Shows a store that refuses a stale writer by its fencing token.

  --nodes URL,URL,..   real servers; without it, five nodes in this process
  --store NAME         memory, or sqlite if it is built with --features sqlite";

struct Options {
    locks: Redlock,
    store: Arc<dyn Store>,
}

impl Options {
    /// `None` if help was asked for.
    fn parse() -> Result<Option<Self>, BoxError> {
        use lexopt::Arg::Long;

        let mut urls = Vec::new();
        let mut name = "memory".to_owned();
        let mut parser = lexopt::Parser::from_env();
        while let Some(arg) = parser.next()? {
            match arg {
                Long("nodes") => urls = args::urls(&parser.value()?.to_string_lossy())?,
                Long("store") => name = parser.value()?.to_string_lossy().into_owned(),
                Long("help") => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        let locks = nodes::redlock(nodes::choose(&urls)?)?;
        let store = store(&name)?;
        Ok(Some(Self { locks, store }))
    }
}

fn store(name: &str) -> Result<Arc<dyn Store>, BoxError> {
    match name {
        "memory" => Ok(Arc::new(MemoryStore::default())),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok(Arc::new(sqlite::SqliteStore::open()?)),
        other => Err(format!("--store {other}: memory, or sqlite with --features sqlite").into()),
    }
}

/// Returns whether the stale write was refused, and nothing else.
fn run(Options { locks, store }: Options) -> Result<bool, BoxError> {
    let ann = thread::spawn({
        let (locks, store) = (locks.clone(), Arc::clone(&store));
        move || pay("Ann", &locks, &*store, || thread::sleep(TTL * 4))
    });
    // Ann has the lock by then.
    thread::sleep(TTL / 2);
    let by_bob = pay("Bob", &locks, &*store, || ())?;
    let by_ann = ann.join().map_err(|_| "Ann's thread panicked")??;

    let paid_by = store.paid_by()?;
    println!("Invoice 7 was paid by {paid_by}.");
    let is_shown = by_bob == Written::Yes && matches!(by_ann, Written::TooLate { .. });
    Ok(is_shown && paid_by == "Bob")
}

/// Takes the lock, works, and writes with the fencing token. It is a mistake not to look at the guard before
/// the write. But even who looks may stall right behind that.
fn pay(
    who: &str,
    locks: &Redlock,
    store: &dyn Store,
    work: impl FnOnce(),
) -> Result<Written, BoxError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let request = LockRequest::new("invoice-7").ttl(TTL).fencing(true);
    let guard = runtime.block_on(locks.lock(request))?;
    let token = guard
        .fencing_token()
        .ok_or("the lock has no fencing token")?;
    println!("{who} has the lock, with the fencing token {token}.");
    work();
    let written = store.pay(who, token)?;
    match written {
        Written::Yes => println!("{who} pays the invoice."),
        Written::TooLate { largest } => {
            println!("{who} is refused: {token} is smaller than {largest}.");
        }
    }
    // The lock may have ended before. That is what this is about.
    if let Err(error) = runtime.block_on(guard.release()) {
        println!("{who} hears too late: {error}.");
    }
    Ok(written)
}
