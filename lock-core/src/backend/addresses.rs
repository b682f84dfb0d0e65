//! Where a server is: the look-up of its name, and which of its addresses is tried when.

use std::future::{Future, pending};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::{Either, select};
use futures::stream::FuturesUnordered;

use crate::events;
use crate::runtime::{BoxFuture, ambient};
use crate::sync::locked;

/// How long an address that does not answer keeps the next one waiting.
const HEAD_START: Duration = Duration::from_millis(250);

type Found = io::Result<Vec<SocketAddr>>;

/// The addresses of one server.
///
/// **A node is one server.** If the addresses of a name lead to several, processes that reach different ones
/// do not exclude each other. So they are tried in an order that is the same for every process, one after
/// the other, and a warning says once that there are several. Where a server says that it is the wrong one
/// (see [`Client::prefer_another_address`](super::Client::prefer_another_address)), those behind it go first.
///
/// A name is looked up by the operating system on a thread, one at a time, which keeps no runtime from
/// ending, however long that takes.
#[derive(Debug)]
pub struct Addresses {
    resolve: fn(&str, u16) -> Found,
    look_up: Arc<Mutex<LookUp>>,
    choice: Mutex<Choice>,
}

#[derive(Debug, Default)]
struct LookUp {
    is_running: bool,
    waiting: Vec<oneshot::Sender<Found>>,
}

#[derive(Debug, Default)]
struct Choice {
    /// The one that was reached last.
    last: Option<SocketAddr>,
    /// The last one behind which the server was the wrong one.
    wrong: Option<SocketAddr>,
    has_warned: bool,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            resolve: |host, port| Ok((host, port).to_socket_addrs()?.collect()),
            look_up: Arc::default(),
            choice: Mutex::default(),
        }
    }
}

impl Addresses {
    /// Looks the host up, and connects to the first of its addresses that answers: each is tried when the
    /// one before has failed, or has not answered for 250 ms.
    ///
    /// # Errors
    ///
    /// What went wrong with the look-up, or with the first address that failed.
    pub async fn connect<T, E, F>(
        &self,
        host: &str,
        port: u16,
        connect: impl Fn(SocketAddr) -> F,
    ) -> Result<T, E>
    where
        E: From<io::Error>,
        F: Future<Output = Result<T, E>>,
    {
        let found = self.find(host, port).await?;
        let addresses = self.ordered(host, found);
        let connect = |address| {
            let connected = connect(address);
            async move { connected.await.map(|connected| (address, connected)) }
        };
        let (address, connected) = one_after_the_other(addresses, connect).await?;
        locked(&self.choice).last = Some(address);
        Ok(connected)
    }

    /// The server that was reached last is the wrong one: from now on the addresses behind it go first.
    pub fn prefer_another(&self) {
        let mut choice = locked(&self.choice);
        choice.wrong = choice.last;
    }

    fn ordered(&self, host: &str, found: Vec<SocketAddr>) -> Vec<SocketAddr> {
        let mut choice = locked(&self.choice);
        let addresses = order(found, choice.wrong);
        if addresses.len() > 1 && !std::mem::replace(&mut choice.has_warned, true) {
            events::several_addresses(host, addresses.len());
        }
        addresses
    }

    async fn find(&self, host: &str, port: u16) -> Found {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let (sender, answer) = oneshot::channel();
        {
            let mut look_up = locked(&self.look_up);
            look_up.waiting.retain(|waiting| !waiting.is_canceled());
            look_up.waiting.push(sender);
            if !look_up.is_running {
                let (resolve, host) = (self.resolve, host.to_owned());
                let shared = Arc::clone(&self.look_up);
                let thread = thread::Builder::new().name("lock-look-up".to_owned());
                // Nobody joins it: a look-up cannot be ended.
                thread.spawn(move || tell(&shared, &resolve(&host, port)))?;
                look_up.is_running = true;
            }
        }
        match answer.await {
            Ok(Ok(found)) if found.is_empty() => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the host has no address",
            )),
            Ok(found) => found,
            Err(oneshot::Canceled) => Err(io::ErrorKind::Interrupted.into()),
        }
    }
}

fn tell(look_up: &Mutex<LookUp>, found: &Found) {
    let waiting = {
        let mut look_up = locked(look_up);
        look_up.is_running = false;
        std::mem::take(&mut look_up.waiting)
    };
    for waiting in waiting {
        let found = match found {
            Ok(found) => Ok(found.clone()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        // Its caller may be gone.
        waiting.send(found).ok();
    }
}

/// The same for every process, whatever order the system found them in.
fn order(mut found: Vec<SocketAddr>, wrong: Option<SocketAddr>) -> Vec<SocketAddr> {
    found.sort_unstable();
    found.dedup();
    if let Some(wrong) = wrong {
        let behind = found.partition_point(|address| *address <= wrong);
        found.rotate_left(behind);
    }
    found
}

async fn one_after_the_other<T, E, F>(
    addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, E>
where
    E: From<io::Error>,
    F: Future<Output = Result<T, E>>,
{
    let mut left = addresses.into_iter();
    let mut running = FuturesUnordered::new();
    let mut failed = None;
    loop {
        if let Some(address) = left.next() {
            running.push(connect(address));
        }
        let head_start: BoxFuture<'static, ()> = match left.len() {
            0 => Box::pin(pending()),
            _ => ambient().sleep(HEAD_START),
        };
        match select(running.next(), head_start).await {
            Either::Left((Some(Ok(connected)), _)) => return Ok(connected),
            Either::Left((Some(Err(error)), _)) => {
                failed.get_or_insert(error);
            }
            Either::Left((None, _)) => {
                return Err(
                    failed.unwrap_or_else(|| io::Error::from(io::ErrorKind::NotFound).into())
                );
            }
            Either::Right(_) => {}
        }
    }
}

#[cfg(test)]
mod tests;
