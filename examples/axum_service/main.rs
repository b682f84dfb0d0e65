//! An HTTP service, of which several instances run, charges each order once: a request takes the
//! order's lock with a deadline, and what went wrong becomes a status code.
//!
//! ```sh
//! cargo run --release --example axum_service --features axum
//! curl -i -X POST localhost:3000/orders/7/charge   # takes three seconds
//! curl -i -X POST localhost:3000/orders/7/charge   # meanwhile, in another terminal: 409
//! curl -i localhost:3000/health
//! ```
//!
//! It needs no server: five in-process nodes. For real ones, and for several instances:
//! `... --features axum -- --nodes redis://127.0.0.1:7001,redis://127.0.0.1:7002,... --port 3001`.
//! Stop most of them, and a request gets 503.
//!
//! - `app.rs`: the handlers. A client that goes away leaves no lock behind.
//! - `answer.rs`: which error becomes which status code.
//! - `payments.rs`: the work, which looks at the lock before the step that must not happen twice.
//! - `shutdown.rs`: at SIGTERM or Ctrl-C, requests come to their end, then locks are released.
//! - `tests.rs`: the whole without a port, in virtual time.

mod answer;
mod app;
mod args;
mod payments;
mod shutdown;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use app::App;
use args::Args;
use examples::{BoxError, USAGE, fail, nodes};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    let args = match args::parse(std::env::args_os()) {
        Ok(Some(args)) => args,
        Ok(None) => {
            println!("{}", args::HELP);
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail("axum_service", &*error, USAGE),
    };
    // What the lock has to tell is told under the target `lock_core`.
    tracing_subscriber::fmt().with_ansi(false).init();
    match serve(&args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail("axum_service", &*error, 1),
    }
}

async fn serve(args: &Args) -> Result<(), BoxError> {
    // One for the whole process. Clones share it.
    let locks = nodes::redlock(nodes::choose(&args.nodes)?)?;
    let app = App::new(locks.clone(), args.wait, args.work);

    let listener = TcpListener::bind(("127.0.0.1", args.port)).await?;
    println!("Listening on http://{}", listener.local_addr()?);
    let signal = shutdown::signal()?;
    shutdown::serve_until(listener, app.router(), signal).await?;

    // Whatever is held still is released, so that other instances need not wait for a ttl.
    locks.shutdown_within(shutdown::FOR_LOCKS).await?;
    println!("Stopped.");
    Ok(())
}
