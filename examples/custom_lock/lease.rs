//! A lease in a file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;
use std::time::Duration;

/// Who holds a lock, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) token: String,
    /// By the clock of [`now`].
    pub(crate) until: Duration,
    /// How long it was given for, to tell a lease that is left from before a restart.
    pub(crate) ttl: Duration,
}

/// A file that holds a lease or nothing, locked for as long as this lives.
///
/// The lock of the file itself is held for microseconds: it makes "look and then write" one step.
#[derive(Debug)]
pub(crate) struct LeaseFile {
    file: File,
}

impl LeaseFile {
    /// `None` while another process has the file locked.
    pub(crate) fn try_open(path: &Path) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = options.open(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    /// The lease that is in force.
    pub(crate) fn read(&mut self, now: Duration) -> io::Result<Option<Lease>> {
        let mut text = String::new();
        self.file.rewind()?;
        self.file.read_to_string(&mut text)?;
        Ok(parse(&text).filter(|lease| {
            // The clock starts anew with the machine: no lease lasts longer than it was given for.
            let left = lease.until.saturating_sub(now);
            !left.is_zero() && left <= lease.ttl
        }))
    }

    /// Writes a lease, or that there is none.
    pub(crate) fn write(&mut self, lease: Option<&Lease>) -> io::Result<()> {
        let text = lease.map_or_else(String::new, |lease| {
            let (until, ttl) = (lease.until.as_nanos(), lease.ttl.as_nanos());
            format!("{} {until} {ttl}\n", lease.token)
        });
        self.file.rewind()?;
        self.file.set_len(0)?;
        self.file.write_all(text.as_bytes())
    }
}

/// A line that was not written to its end is no lease: it was never given.
fn parse(text: &str) -> Option<Lease> {
    let mut words = text.strip_suffix('\n')?.split(' ');
    let token = words.next()?.to_owned();
    let mut time = || Some(Duration::from_nanos(words.next()?.parse().ok()?));
    Some(Lease {
        token,
        until: time()?,
        ttl: time()?,
    })
}

/// A clock that all processes of the machine share, and that nobody sets. On Linux it goes on while
/// the machine sleeps.
pub(crate) fn now() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: rustix::time::ClockId = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(CLOCK);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}
