//! Distributed locks over the [`fred`] crate: a [`RedisNode`](lock_core::RedisNode) for one
//! server.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use lock_core::{Command, RedisNode};
//! use lock_fred::FredNode;
//!
//! # async fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
//! let node = FredNode::new("redis://user:password@redis-1.internal:6379/?protocol=resp3")?
//!     .connect_timeout(Duration::from_millis(500));
//! // Usually a `Redlock` over several such nodes does this.
//! let reply = node.execute(&command, Duration::from_millis(100)).await?;
//! println!("{}: {reply:?}", node.label());
//! # Ok(())
//! # }
//! ```
//!
//! **Give it servers that you trust, and reach them over networks that you trust or by TLS.** fred reads
//! replies without any limit, before the server has authenticated anything, and no setting of it changes
//! that:
//!
//! - Arrays in arrays (`*1\r\n` some thousand times) overflow the stack of fred's parser, **which ends the
//!   process**.
//! - A reply without an end fills memory for as long as it comes: 700 MB in half a second were seen. If it is
//!   an array, it is parsed from its beginning again and again, and takes the thread of the runtime.
//! - Replies that nobody asked for, without an end, take a good part of that thread.
//!
//! A node that does this harms every lock of the process, although it is one of three.
//! [`lock-redis-rs`](https://docs.rs/lock-redis-rs) ends such a connection after 64 KiB.
//!
//! fred runs on tokio alone, and so does this crate; it switches `lock-core/tokio` on. A connection
//! belongs to the tokio runtime of the call that opened it. While one is up, calls may come from
//! anywhere; a call that has to open one outside of a tokio runtime, or on one without timers and
//! IO, is an error.
//!
//! # What the server has to allow
//!
//! `SET`, `GET`, `PTTL`, `PEXPIRE`, `DEL`, `EVAL` and `EVALSHA` on the keys of the locks:
//!
//! ```text
//! ACL SETUSER locks on >password ~lock:* +set +get +pttl +pexpire +del +eval +evalsha
//! ```
//!
//! Fencing tokens need `+time` besides, and their counters have names of their own: `~{lock:*`.
//!
//! `lock:` is then the lock's prefix, which is empty by default: `Redlock::builder().prefix("lock:")`.
//! `Redlock::list`, which is for operators, needs `SCAN` too, and a URL with a database other than 0 `SELECT`.
//!
//! `PING` too, where there is no password (with one, `AUTH` goes first, which everybody may send; with
//! `protocol=resp3`, `HELLO`, which a proxy may not know). While connecting, fred also sends `CLIENT ID` and
//! `INFO`, and goes on where they are denied; `+client|id +info` keeps them out of the server's `ACL LOG`, and
//! out of that of sentinels.
//!
//! # What to expect of the connection
//!
//! - It is opened at the first call. While the server is away, calls fail fast with
//!   [`NotSent`](lock_core::node::NodeErrorKind::NotSent) and the cause. Calls alone make it try
//!   again, after pauses of 250 ms at most.
//! - A handshake that the server answers with an error (`NOAUTH`, `WRONGPASS`, `LOADING`) gives
//!   calls that error.
//! - Calls that find a connect running wait for it, for no longer than they may take, and leave in
//!   their order.
//! - After three calls in a row without an answer it is replaced. The releases that belong behind
//!   acquires of unknown fate are sent on the old one first.
//! - **One node is one server.** The addresses of a name are tried one after the other, in an order that is
//!   the same for every process, and a warning says if there are several: where they lead to different
//!   servers, two processes may hold one lock. A name is looked up by the operating system, once at a time
//!   and on a thread of its own, which keeps no runtime from ending.
//! - A server that says that it is the wrong one (`READONLY`, `MASTERDOWN`, `LOADING`) is used until another
//!   connection stands, which is opened at once and then every 250 ms at most, to the next address first.
//! - When the runtime of the connection has been blocked for ten seconds while commands waited, the
//!   connection closes. **fred's own task may write them first**, since it runs on that runtime: do not block
//!   for so long a runtime on which a lock is used that others use too.
//! - No command is ever sent twice, or on another connection than the one it was handed to. If its
//!   caller gives up while it waits for a connection, it is never sent.
//! - `CLUSTERDOWN` ends the connection, as fred has it; the next call opens another. Where a server of a cluster
//!   loses one slot (`cluster-require-full-coverage no`), that may cost the locks of all other slots too.
//! - When the runtime of the call that opened it ends, the next call opens another.
//! - When the node is dropped, it closes: at once, or after the releases that belong behind acquires
//!   of unknown fate.
//!
//! # Settings of fred
//!
//! A connection is a fred client that never reconnects: the node opens another one. fred's own
//! reconnect sends what waited for it, whether or not somebody still waits for the answer, and
//! that would be a lock that nobody holds. So of a `Config`, a `Client` or a `Pool` that you hand
//! in, only this is used:
//!
//! | setting | what the node does |
//! |---|---|
//! | `Config::server` | must be `Centralized` (or `Unix`): a node is one server, one master of [sentinels](#sentinels), or a whole [cluster](#cluster) of which that is one server. Others are an [`InvalidConfig`]. The node looks the host up, and gives fred an address |
//! | `Config`: credentials and their provider, `database`, `version`, `tls`, `tracing` | uses it |
//! | `Config::fail_fast`, `Config::blocking` | `true`, `Block` |
//! | `PerformanceConfig` | uses it, but for `default_command_timeout`: a call has the lock's node timeout |
//! | `ConnectionConfig::auto_client_setname` | uses it |
//! | `ConnectionConfig::tcp` | uses it, but for `linger`; unless set, `nodelay` is on and keepalive begins after 15 s |
//! | `ConnectionConfig::max_command_attempts` | 1: an acquire that is sent again takes its own key for somebody else's |
//! | timeouts of `ConnectionConfig`, `unresponsive` | [`FredNode::connect_timeout`], three calls without an answer |
//! | `max_command_buffer_len` | at most 8192 calls are in flight |
//! | `max_redirections`, `replica`, other settings of clusters | none: a `MOVED` is an error, and a node of a [cluster](#cluster) follows it by itself |
//! | `reconnect_on_auth_error`, `reconnect_errors` | fred's defaults |
//! | `ReconnectPolicy` | none for fred; the node pauses 10 to 250 ms, with jitter |
//!
//! All calls of a node share its connection, as they share the server: a command of anybody's that
//! keeps Redis busy keeps every lock on it waiting.
//!
//! # Features
//!
//! For TLS (`rediss://`), one of `enable-rustls`, `enable-rustls-ring` and `enable-native-tls`;
//! `unix-sockets` for `redis+unix://`. They are fred's, by its names. With both features of rustls
//! on, but not `enable-native-tls`, install a default `CryptoProvider` of rustls first.
//! `enable-rustls` takes a C compiler and a minute of it, `enable-rustls-ring` a C compiler,
//! `enable-native-tls` OpenSSL's headers and `pkg-config` on Linux.
//!
//! # Sentinels
//!
//! [`FredNode::sentinels`] makes one node of a master that sentinels watch. They are asked where it is at each
//! connect, so after `READONLY` and after a loss of the connection too:
//!
//! - **More than half of all listed sentinels have to name one server**, and that has to say by `ROLE` that it
//!   is a master. One that lies, hangs or is behind is outvoted; a client that is cut off from most of them does
//!   not connect (a connection that it has already stays). Without a majority a call is told what each of them says. They have half of the
//!   [`connect_timeout`](FredNode::connect_timeout) for it; their own one means nothing.
//! - **They are listened to** (`+switch-master`) while the connection is up. When most of them name another
//!   master, the connection ends, and the next call goes there: in a planned failover the old master
//!   takes writes for about ten seconds more, all of which are lost. A call that is under way in that moment fails.
//!   That costs a connection to each sentinel, for each connection of a pool.
//! - **Names and TLS**: the master is reached where the sentinels say, so its certificate has to have that address.
//!   `sentinel resolve-hostnames yes` and `announce-hostnames yes` make them give names.
//!
//! The master has to allow `+role` beside [the rest](#what-the-server-has-to-allow), and the sentinels this:
//!
//! ```text
//! ACL SETUSER locks on >password resetchannels &+switch-master +subscribe +sentinel|get-master-addr-by-name
//! ```
//!
//! Where there is no password, `PING` too.
//!
//! **A failover can forget locks.** Replication is not waited for, and lag is not exclusion: a lock that its master
//! granted just before it died, or while it was cut off together with some of its clients, is unknown to the next
//! master, which grants it again. No client can prevent that.
//!
//! - `min-replicas-to-write 1` on the master and its replicas (Redis 6.2 or newer) makes it narrower, not zero: a
//!   master without a replica that has reported within `min-replicas-max-lag` (10 s, unless set lower) refuses
//!   locks with `NOREPLICAS`; an old master does so at once when its replicas have left it. No lock waits for a copy.
//!   Have two replicas then: with one, nobody gets a lock while it is down, nor after a failover until the old
//!   master is back as a replica.
//! - `WAIT` is not used: it counts the writes of its own connection and blocks it, and all calls share one.
//! - **Several independent nodes are the better answer**: with three, a lock that one of them forgets is still held
//!   by the other two. Each may be a master with sentinels of its own; one such group is one node, with one vote.
//!
//! # Cluster
//!
//! [`FredNode::cluster`] makes one node of a whole Redis Cluster, with one vote, over a connection to each of its
//! masters; [`ClusterNode`](lock_core::backend::ClusterNode) says how a command finds its server. Give it some of the
//! servers, so that one is there to name the others:
//!
//! - **Locks live on while slots move.** `MOVED` and `ASK` are followed. An acquire that is redirected while its
//!   release is on its way already is not sent again.
//! - **Several resources** are taken one after the other, as their keys belong to different slots. Those with a common
//!   `{tag}` in their names go in one command, except while their slot moves (`TRYAGAIN`, which is tried again).
//! - **A master that is away** costs the locks of its slots alone, with `cluster-require-full-coverage no`. By
//!   default all servers then say `CLUSTERDOWN`, and fred closes the connection over
//!   which it hears that.
//! - **A node of a lock is down or up as a whole**: calls to a master that hangs make the node suspect, so that
//!   acquires for the other masters may be held back until one of them was answered.
//! - **Addresses** are those that the servers announce (`cluster-announce-ip`, `cluster-announce-hostname`); they have
//!   to be reachable. For TLS the certificates have to have them, and the servers need `tls-cluster yes`. A server that says only its port has the host
//!   that was asked. Database 0 is the only one.
//!
//! The servers have to allow this beside [the rest](#what-the-server-has-to-allow):
//!
//! ```text
//! +cluster|slots +cluster|myid +asking
//! ```
//!
//! **A failover can forget locks**, as [with sentinels](#sentinels): a lock that its master granted just before it
//! died is unknown to its replica. A master that is cut off from the others takes locks for `cluster-node-timeout`
//! more. Several independent nodes are the better answer; a cluster can be one of them.
//!
//! # Unix sockets
//!
//! `redis+unix:///run/redis/redis.sock`; with a password
//! `redis+unix://user:password@any/run/redis/redis.sock`, where `any` is ignored. **`?db=` is ignored
//! too**: for another database than 0 set `Config::database` and use [`FredNode::from_config`]. The
//! process needs the right to write to the socket (`unixsocketperm` of the server).
//!
//! # TLS
//!
//! The server's certificate has to be signed by one of the system's roots, for the host that the URL
//! names. Another CA and a client certificate are what `Config::tls` is for:
//!
#![cfg_attr(
    all(
        any(feature = "enable-rustls", feature = "enable-rustls-ring"),
        not(feature = "enable-native-tls")
    ),
    doc = "```no_run"
)]
#![cfg_attr(
    not(all(
        any(feature = "enable-rustls", feature = "enable-rustls-ring"),
        not(feature = "enable-native-tls")
    )),
    doc = "```ignore"
)]
//! use fred::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
//! use fred::rustls::{ClientConfig, RootCertStore};
//! use fred::types::config::{Config, TlsConnector};
//! use lock_fred::FredNode;
//!
//! # fn node() -> Result<FredNode, Box<dyn std::error::Error>> {
//! let mut roots = RootCertStore::empty();
//! roots.add(CertificateDer::from_pem_file("ca.crt")?)?;
//! let chain = CertificateDer::pem_file_iter("client.crt")?.collect::<Result<Vec<_>, _>>()?;
//! let tls = ClientConfig::builder()
//!     .with_root_certificates(roots)
//!     .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file("client.key")?)?;
//! let mut config = Config::from_url("rediss://redis-1.internal:6379")?;
//! config.tls = Some(TlsConnector::from(tls).into());
//! let node = FredNode::from_config(config)?;
//! # Ok(node)
//! # }
//! ```
//!
//! What goes wrong is told by the cause of an error [`NotSent`](lock_core::node::NodeErrorKind::NotSent):
//! `invalid peer certificate: UnknownIssuer`, "not valid yet" where the clock of this machine is
//! wrong, `received fatal alert: CertificateRequired` (the server wants to see a client certificate),
//! or that the server does not speak TLS on this port, or the reverse. To find out, the node asks
//! once more on a second connection: with a handshake that ends there, or a `PING`.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod client;
mod cluster;
mod connection;
mod convert;
mod mismatch;
mod node;
mod sentinel;
mod settings;
mod url;

pub use lock_core::backend::{Credentials, InvalidCluster, InvalidSentinels, InvalidUrl};
pub use node::FredNode;
pub use settings::InvalidConfig;

/// The README's program must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
