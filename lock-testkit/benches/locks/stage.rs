//! The servers and the runtime that a scenario runs on, and which cores they have.
//!
//! One caller who waits for each answer leaves it to the kernel's mood whether client and server
//! take turns on one core or wake each other across two, and that alone makes a pair take 45 or
//! 250 µs, for minutes at a time and for one side more often than for the other. So where latency
//! is measured, the client has a core and the servers have the rest, as if they were two machines;
//! and its runtime has one worker, since two on one core wake each other for nothing. Where
//! throughput is measured, both have all cores.
//!
//! Where servers fail, all share one core. On two of them a client with fewer servers to write to has
//! to sleep for their answers, and on a virtual machine waking up takes longer than the writes that
//! it was spared. A core that all share never sleeps, and a pair takes what it costs. Servers that fail
//! leave their part of it to the others, so the client's own time is compared as well.

use lock_testkit::RedisServer;
use tokio::runtime::{Builder, Runtime};

use crate::BenchResult;

/// Tokio's worker threads where client and servers share the cores.
const WORKERS: usize = 2;
const SERVERS: usize = 5;

pub(crate) struct Stage {
    servers: Vec<RedisServer>,
    runtime: Runtime,
    /// The cores of the servers, which the thread that starts them hands on to them.
    cores: Option<cores::Set>,
}

impl Stage {
    /// Client and servers share the cores.
    pub(crate) fn shared() -> BenchResult<Self> {
        Self::start(None)
    }

    /// Client and servers share one core.
    pub(crate) fn one_core() -> BenchResult<Self> {
        Self::start(cores::one()?)
    }

    /// The client has a core of its own, if there are two and the system can be told.
    pub(crate) fn apart() -> BenchResult<Self> {
        Self::start(cores::split()?)
    }

    fn start(split: Option<cores::Split>) -> BenchResult<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(WORKERS).enable_all();
        let mut servers_on = None;
        if let Some(split) = split {
            builder.worker_threads(1).on_thread_start(move || {
                if let Err(error) = cores::keep_to(&split.client) {
                    eprintln!("a worker is not kept to its core: {error}");
                }
            });
            servers_on = Some(split.servers);
        }
        let runtime = builder.build()?;
        let servers = cores::on(servers_on.as_ref(), || RedisServer::start_many(SERVERS))??;
        Ok(Self {
            servers,
            runtime,
            cores: servers_on,
        })
    }

    /// Runs a scenario on some of the servers; whichever it starts again stay on their cores.
    pub(crate) fn run<T>(
        &self,
        nodes: usize,
        scenario: impl AsyncFnOnce(&[RedisServer]) -> BenchResult<T>,
    ) -> BenchResult<T> {
        let servers = &self.servers[..nodes];
        cores::on(self.cores.as_ref(), || {
            self.runtime.block_on(scenario(servers))
        })?
    }
}

#[cfg(target_os = "linux")]
mod cores {
    use std::io;

    pub(super) use rustix::thread::CpuSet as Set;
    use rustix::thread::{sched_getaffinity, sched_setaffinity};

    pub(super) struct Split {
        pub(super) client: Set,
        pub(super) servers: Set,
    }

    /// The first core for the client, the others for the servers; `None` if there is only one.
    pub(super) fn split() -> io::Result<Option<Split>> {
        let all = sched_getaffinity(None)?;
        let mut cores = (0..Set::MAX_CPU).filter(|core| all.is_set(*core));
        let (Some(first), true) = (cores.next(), cores.next().is_some()) else {
            return Ok(None);
        };
        let mut client = Set::new();
        client.set(first);
        let mut servers = all;
        servers.unset(first);
        Ok(Some(Split { client, servers }))
    }

    /// The first core for all; `None` if there is only one.
    pub(super) fn one() -> io::Result<Option<Split>> {
        let on_client = |split: Split| Split {
            servers: split.client,
            ..split
        };
        Ok(split()?.map(on_client))
    }

    pub(super) fn keep_to(set: &Set) -> io::Result<()> {
        Ok(sched_setaffinity(None, set)?)
    }

    /// Runs something on these cores, and gives the thread its own back.
    pub(super) fn on<T>(set: Option<&Set>, run: impl FnOnce() -> T) -> io::Result<T> {
        let Some(set) = set else {
            return Ok(run());
        };
        let before = sched_getaffinity(None)?;
        keep_to(set)?;
        let result = run();
        keep_to(&before)?;
        Ok(result)
    }
}

/// Elsewhere there is no such choice.
#[cfg(not(target_os = "linux"))]
mod cores {
    use std::convert::Infallible;
    use std::io;

    pub(super) type Set = Infallible;

    pub(super) struct Split {
        pub(super) client: Set,
        pub(super) servers: Set,
    }

    pub(super) fn split() -> io::Result<Option<Split>> {
        Ok(None)
    }

    pub(super) fn one() -> io::Result<Option<Split>> {
        Ok(None)
    }

    pub(super) fn keep_to(set: &Set) -> io::Result<()> {
        match *set {}
    }

    pub(super) fn on<T>(_set: Option<&Set>, run: impl FnOnce() -> T) -> io::Result<T> {
        Ok(run())
    }
}
