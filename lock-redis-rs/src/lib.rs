//! Distributed locks over the [`redis`] crate: a [`RedisNode`](lock_core::RedisNode) for one
//! server.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use lock_core::{Command, RedisNode};
//! use lock_redis_rs::RedisRsNode;
//!
//! # async fn run(command: Command) -> Result<(), Box<dyn std::error::Error>> {
//! let node = RedisRsNode::new("redis://user:password@redis-1.internal:6379/?protocol=resp3")?
//!     .connect_timeout(Duration::from_millis(500));
//! // Usually a `Redlock` over several such nodes does this.
//! let reply = node.execute(&command, Duration::from_millis(100)).await?;
//! println!("{}: {reply:?}", node.label());
//! # Ok(())
//! # }
//! ```
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
//! While connecting, redis-rs also sends `AUTH` or, only with `protocol=resp3`, `HELLO`, which everybody may send
//! and a proxy may not know: RESP2, the default, does without. It sends `CLIENT SETINFO` too, and goes on where that
//! is denied; `+client|setinfo`, which Redis 7.0 alone refuses and does not need, keeps it out of the `ACL LOG` of
//! servers and sentinels.
//!
//! # What to expect of the connection
//!
//! [`lock_core::backend`] keeps it:
//!
//! - It is opened at the first call. While the server is away, calls fail fast with
//!   [`NotSent`](lock_core::node::NodeErrorKind::NotSent) and the cause. Calls alone make it try
//!   again, after pauses of 250 ms at most.
//! - Calls that find a connect running wait for it, for no longer than they may take, and leave in
//!   their order.
//! - After three calls in a row without an answer it is replaced. The releases that belong behind
//!   acquires of unknown fate are sent on the old one first.
//! - A handshake that the server answers with an error (`NOAUTH`, `WRONGPASS`, `LOADING`), or before which
//!   it hangs up with one (`ERR max number of clients reached`), gives calls that error.
//! - A reply that is not a legal one ends it, as do more than 64 KiB for a reply (and 8 bytes more for each
//!   word of the longest command so far; 2.6 MB once `Redlock::list` was called), and, behind the handshake, a
//!   reply that nobody asked for. This does not hold where redis-rs opens the connection by itself: with TLS of
//!   its own, with `from_connection` and with `from_pool`.
//! - **One node is one server.** The addresses of a name are tried one after the other, in an order that is
//!   the same for every process, and a warning says if there are several: where they lead to different
//!   servers, two processes may hold one lock. A name is looked up by the operating system, once at a time
//!   and on a thread of its own, which keeps no runtime from ending.
//! - A server that says that it is the wrong one (`READONLY`, `MASTERDOWN`, `LOADING`) is used until another
//!   connection stands, which is opened at once and then every 250 ms at most, to the next address first.
//! - What has waited for ten seconds to be written, since the runtime of the connection was blocked, is never
//!   written: the connection closes.
//! - No command is ever sent twice.
//! - It belongs to the runtime of the call that opened it, and serves calls from everywhere. When
//!   that runtime ends, the next call opens another. A tokio runtime needs its IO enabled.
//!
//! redis-rs itself looks names up, as the runtime does it, for a client with TLS of its own and for a pool.
//!
//! All calls share the connection, as they share the server: a command of anybody's that keeps
//! Redis busy keeps every lock on it waiting.
//!
//! # Features
//!
//! | feature | what it gives | what it costs |
//! |---|---|---|
//! | `tokio` (default) | serves callers on tokio; switches `lock-core/tokio` on as well | |
//! | `smol` | serves callers on any executor, and on plain threads | two threads, and a dependency under the MPL-2.0, see below |
//! | `rustls` | TLS by rustls, with the cryptography of aws-lc-rs | a C compiler, a minute of it |
//! | `rustls-ring` | TLS by rustls, with that of ring | a C compiler |
//! | `native-tls` | TLS by what the system has: OpenSSL on Linux | its headers and `pkg-config` |
//! | `bb8` | `RedisRsNode::from_pool`: connects as a pool of the `bb8` crate does; switches `tokio` on | a connection beside the pool |
//!
//! With more than one for TLS, the first of the table is used. A default `CryptoProvider` of rustls
//! that the process has installed is used in place of the feature's own.
//!
//! # Runtimes
//!
//! One of the two runtimes is needed:
//!
//! - `tokio` serves callers on a tokio runtime. A call from elsewhere is an error, unless a tokio
//!   runtime runs the connection already. The error counts as a failed connect, and is told to all
//!   callers during the pause that follows.
//! - `smol` serves callers on any executor, and on plain threads with
//!   [`ThreadRuntime::block_on`](lock_core::runtime::ThreadRuntime::block_on). Locks are extended
//!   and released in the background on `lock-core`'s `ThreadRuntime`.
//!
//!   The connection is run there too: on one thread, which starts when it is needed, beside that of
//!   smol's reactor. smol's global executor is not used, so tasks that block it do no harm. tokio's
//!   runtime is not linked, only those parts of tokio that redis-rs uses everywhere. redis-rs depends
//!   on `smol-timeout` for it, whose licence is the MPL-2.0: changes to that crate's files must be
//!   published. No other feature pulls it in.
//!
//! With both, callers on tokio are served by tokio and all others by smol, over one connection.
//! On tokio that costs nothing more. A build without `tokio` is not for callers on tokio, who are
//! served too, but whom tokio may hold back where order matters (rule N12 of
//! [`RedisNode`](lock_core::RedisNode)): switch both on.
//!
//! ```toml
//! lock-redis-rs = { version = "0.1", default-features = false, features = ["smol"] }
//! ```
//!
//! **If redis does not compile** (`not all trait items implemented, missing: connect_tcp_tls`), your
//! program switches TLS of redis on for one runtime, while another one is on here. Switch that other
//! one off (`default-features = false`), or give redis its TLS for both:
//! `features = ["tokio-rustls-comp", "smol-rustls-comp"]`. Our own TLS needs neither.
//!
//! # TLS
//!
//! `rediss://` with one of the features above; without, such a URL is an [`InvalidUrl`]. The
//! connection is then as good as one without TLS: an end that comes while nobody calls is noticed,
//! and the settings of TCP hold. Each new connection takes one round trip more, two with TLS 1.2.
//!
//! - **The server's certificate** has to be signed by one of the system's roots, for the host that
//!   the URL names: a name, or an IP address that is in the certificate. A private CA goes into
//!   `Tls::root_certificates`, a client certificate into `Tls::client_certificate`, both into
//!   `RedisRsNode::tls`.
//! - **The host name** is sent to the server in plain text (SNI), as TLS has it. Behind a tunnel or a
//!   port forward the name in the URL is not that of the certificate: give the machine that name in
//!   its `hosts` file.
//! - **"not valid yet" or "expired"** for a certificate that is in order means that the clock of
//!   this machine is wrong.
//! - **A self-signed certificate** may be its own root, unless it says that it is a CA, which rustls
//!   does not take for a server's (`CaUsedAsEndEntity`).
//! - **`rediss://host#insecure`**, which redis-rs takes for "do not look at the certificate", is
//!   refused: a lock is worth what the answers are that it rests upon. A client of redis-rs
//!   itself may do so, see below.
//!
//! What goes wrong is told by the cause of an error [`NotSent`](lock_core::node::NodeErrorKind::NotSent):
//! `invalid peer certificate: UnknownIssuer`, `received fatal alert: CertificateRequired` (the server
//! wants to see a client certificate), or that the server does not speak TLS on this port, or the
//! reverse. To find out the last two, which no server says by itself, the node asks once more on a
//! second connection, with a `PING` or the beginning of a handshake, and never once the server has
//! been understood.
//!
//! **A client of redis-rs that has TLS of its own**, handed to [`RedisRsNode::from_client`], connects
//! by redis-rs: with its features, roots and certificates (`redis::Client::build_with_tls`), and with
//! a `CryptoProvider` that your program has to install or to choose by a feature of rustls. Then an
//! end of the connection is noticed by the next call only, which fails, and errors tell less. With
//! `RedisRsNode::tls` behind it, such a node connects as every other does, by those certificates
//! alone.
//!
//! # Sentinels
//!
//! [`RedisRsNode::sentinels`] makes one node of a master that sentinels watch. They are asked where it is at each
//! connect, so after `READONLY` and after a loss of the connection too:
//!
//! - **More than half of all listed sentinels have to name one server**, and that has to say by `ROLE` that it
//!   is a master. One that lies, hangs or is behind is outvoted; a client that is cut off from most of them does
//!   not connect (a connection that it has already stays). Without a majority a call is told what each of them says. They have half of the
//!   [`connect_timeout`](RedisRsNode::connect_timeout) for it; their own one means nothing.
//! - **They are listened to** (`+switch-master`) while the connection is up. When most of them name another
//!   master, the connection ends, and the next call goes there: in a planned failover the old master
//!   takes writes for about ten seconds more, all of which are lost. A call that is under way in that moment fails.
//!   That costs a connection to each sentinel.
//! - **Names and TLS**: the master is reached where the sentinels say, so its certificate has to have that address.
//!   `sentinel resolve-hostnames yes` and `announce-hostnames yes` make them give names.
//!
//! The master has to allow `+role` beside [the rest](#what-the-server-has-to-allow), and the sentinels this, and RESP3 for listening:
//!
//! ```text
//! ACL SETUSER locks on >password resetchannels &+switch-master +subscribe +sentinel|get-master-addr-by-name
//! ```
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
//! [`RedisRsNode::cluster`] makes one node of a whole Redis Cluster, with one vote, over a connection to each of its
//! masters; [`ClusterNode`](lock_core::backend::ClusterNode) says how a command finds its server. Give it some of the
//! servers, so that one is there to name the others:
//!
//! - **Locks live on while slots move.** `MOVED` and `ASK` are followed. An acquire that is redirected while its
//!   release is on its way already is not sent again.
//! - **Several resources** are taken one after the other, as their keys belong to different slots. Those with a common
//!   `{tag}` in their names go in one command, except while their slot moves (`TRYAGAIN`, which is tried again).
//! - **A master that is away** costs the locks of its slots alone, with `cluster-require-full-coverage no`. By
//!   default all servers then say `CLUSTERDOWN`.
//! - **A node of a lock is down or up as a whole**: calls to a master that hangs make the node suspect, so that
//!   acquires for the other masters may be held back until one of them was answered.
//! - **Addresses** are those that the servers announce (`cluster-announce-ip`, `cluster-announce-hostname`); they have
//!   to be reachable. For TLS the certificates have to have them, and the servers need `tls-cluster yes`. A server that says only its port has the host
//!   that was asked. There is no database but 0.
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
//! `unix:///run/redis/redis.sock`, with `?db=1&user=u&pass=p&protocol=resp3` as needed, takes no
//! feature. The path is the node's label. The process needs the right to write to the socket
//! (`unixsocketperm` of the server), and the path may have about a hundred bytes (`SUN_LEN`).
//! `redis+unix://` is the same. A server opens no socket unless its configuration has `unixsocket`.
//! Into a container, mount the socket's folder rather than the socket, which is another one after a
//! restart. Processes that reach one server by its socket and by TCP share its locks.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub use lock_core::backend::{Credentials, InvalidCluster, InvalidSentinels, InvalidUrl};

cfg_if::cfg_if! {
    if #[cfg(any(feature = "tokio", feature = "smol"))] {
        mod address;
        mod borrowed;
        mod checked;
        mod cluster;
        mod connection;
        mod convert;
        mod dial;
        mod dial_error;
        mod limit;
        mod network;
        mod node;
        mod peer;
        #[cfg(feature = "bb8")]
        mod pooled;
        mod sentinel;

        #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
        mod tls;
        #[cfg(not(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls")))]
        #[path = "no_tls.rs"]
        mod tls;

        pub use node::RedisRsNode;
        #[cfg(any(feature = "rustls", feature = "rustls-ring", feature = "native-tls"))]
        pub use tls::{InvalidCertificate, Tls};
    } else {
        compile_error!(
            "lock-redis-rs needs an async runtime: switch its feature `tokio` or `smol` on"
        );
    }
}

/// The README's program must compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
