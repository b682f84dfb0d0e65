//! A held lock as data.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::display::Names;

/// A held lock as data, with which another task or process can go on; from
/// [`LockGuard::into_lease`](crate::LockGuard::into_lease).
///
/// Nothing extends or releases the lock meanwhile: it ends with its ttl unless the lease is
/// [resumed](crate::Redlock::resume) in time. Anybody who has the lease can release the lock, so keep
/// it as safe as what the lock protects. Its `Debug` does not show the secret part, its `Display` is
/// the lease.
///
/// A lease travels as text (`Display` and `FromStr`; with the feature `serde`, in any format):
///
/// ```
/// # use lock_core::{DistributedLockExt, Lease, Redlock};
/// # use lock_testkit::MemoryNode;
/// # futures::executor::block_on(async {
/// # let nodes = MemoryNode::several(5);
/// let locks = Redlock::new(nodes.clone())?;
/// let lease = locks.lock("invoice-7").await?.into_lease().ok_or("lost")?;
/// let text = lease.to_string();
///
/// // In another process:
/// # let locks = Redlock::new(nodes)?;
/// let guard = locks.resume(&text.parse::<Lease>()?).await?;
/// assert_eq!(guard.resource(), b"invoice-7");
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    resources: Vec<Vec<u8>>,
    token: String,
    ttl: Duration,
    remaining: Duration,
    hold: Duration,
    /// The nodes that are known to hold it, as bits in the configured order.
    pub(crate) granted: u64,
}

impl Lease {
    pub(crate) fn new(
        resources: Vec<Vec<u8>>,
        token: impl Into<String>,
        ttl: Duration,
        remaining: Duration,
    ) -> Self {
        Self {
            resources,
            token: token.into(),
            ttl,
            remaining,
            hold: Duration::ZERO,
            granted: 0,
        }
    }

    /// Returns the lease of a lock that stays taken for at least `hold` from now on, even if it is
    /// released. For authors of locks.
    #[must_use]
    pub fn with_hold_at_least(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    pub(crate) fn granted_by(mut self, nodes: u64) -> Self {
        self.granted = nodes;
        self
    }

    /// The resource, without the lock's prefix; the first one, if there are several.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        self.resources.first().map_or(&[], |resource| resource)
    }

    /// The resources that are locked together.
    pub fn resources(&self) -> impl Iterator<Item = &[u8]> + Clone {
        self.resources.iter().map(|resource| &**resource)
    }

    /// The random value that names the owner, a secret.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The lifetime that the lock was acquired with. Resuming extends the lock to it.
    #[must_use]
    pub fn ttl(&self) -> Duration {
        self.ttl
    }

    /// For how long the lock could be relied on when its guard became a lease. The time since then is
    /// not subtracted; only resuming shows what is left.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.remaining
    }

    /// For how long the lock was to stay taken at least, counted like
    /// [`remaining`](Self::remaining).
    #[must_use]
    pub fn hold_at_least(&self) -> Duration {
        self.hold
    }
}

/// Without the token, by which anybody could release the lock.
impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("resources", &Names(self.resources()))
            .field("remaining", &self.remaining)
            .finish_non_exhaustive()
    }
}

/// What the text begins with. A later version may add words.
const FORMAT: &str = "lease1";

impl fmt::Display for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FORMAT}:")?;
        for (i, resource) in self.resources.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            resource
                .iter()
                .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        }
        let [ttl, remaining, hold] =
            [self.ttl, self.remaining, self.hold].map(|time| time.as_nanos());
        write!(
            f,
            ":{}:{ttl}:{remaining}:{hold}:{:x}",
            self.token, self.granted
        )
    }
}

/// The text is not a [`Lease`]. The error names the part that is wrong, but not the text, which is
/// secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed lease: {part} is {fault}")]
#[non_exhaustive]
pub struct ParseLeaseError {
    part: &'static str,
    fault: &'static str,
}

impl FromStr for Lease {
    type Err = ParseLeaseError;

    fn from_str(text: &str) -> Result<Self, ParseLeaseError> {
        let mut parts = text.split(':');
        let mut next = |part| {
            let fault = "missing";
            parts.next().ok_or(ParseLeaseError { part, fault })
        };
        let malformed = |part| ParseLeaseError {
            part,
            fault: "malformed",
        };
        if next("the format")? != FORMAT {
            return Err(malformed("the format"));
        }
        let resources = next("the resource")?
            .split(',')
            .map(unhex)
            .collect::<Option<_>>();
        let resources = resources.ok_or(malformed("the resource"))?;
        let token = next("the token")?.to_owned();
        let mut time = |part| {
            let nanos = next(part)?.parse().map_err(|_| malformed(part))?;
            Ok(Duration::from_nanos(nanos))
        };
        let (ttl, remaining, hold) = (time("the ttl")?, time("what remains")?, time("the hold")?);
        let granted = next("the nodes")?;
        let granted = u64::from_str_radix(granted, 16).map_err(|_| malformed("the nodes"))?;
        if parts.next().is_some() {
            return Err(malformed("the end"));
        }
        Ok(Self {
            resources,
            token,
            ttl,
            remaining,
            hold,
            granted,
        })
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|pair| match pair {
            [a, b] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => {
                u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()
            }
            _ => None,
        })
        .collect()
}

#[cfg(feature = "serde")]
impl serde::Serialize for Lease {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Lease {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn lease() -> Lease {
        Lease::new(
            vec![b"\xff\x00:k".to_vec()],
            "token",
            30_000 * MS,
            12_345 * MS,
        )
        .with_hold_at_least(7 * MS)
        .granted_by(0b10110)
    }

    #[test]
    fn a_lease_is_the_same_after_a_journey_as_text() {
        let of = |resources| Lease::new(resources, "", Duration::ZERO, Duration::ZERO);
        let several = of(vec![b"a".to_vec(), b",:".to_vec(), Vec::new()]);
        for lease in [lease(), several, of(vec![Vec::new()])] {
            assert_eq!(lease.to_string().parse::<Lease>(), Ok(lease));
        }
    }

    #[test]
    fn a_text_that_is_not_a_lease_is_refused_with_the_part_that_is_wrong() {
        let text = lease().to_string();
        let error = |text: &str| text.parse::<Lease>().unwrap_err().to_string();
        assert_eq!(error(""), "malformed lease: the format is malformed");
        assert_eq!(error("lease1"), "malformed lease: the resource is missing");
        assert_eq!(
            error(&format!("{text}:more")),
            "malformed lease: the end is malformed"
        );
        assert_eq!(
            error(&text.replace("ff00", "ff0")),
            "malformed lease: the resource is malformed"
        );
        assert_eq!(
            error(&text.replace("ff00", "+f00")),
            "malformed lease: the resource is malformed"
        );
        assert_eq!(
            error(&text.replace(":30000", ":-3000")),
            "malformed lease: the ttl is malformed"
        );
        assert_eq!(
            error(text.rsplit_once(':').unwrap().0),
            "malformed lease: the nodes is missing"
        );
    }

    #[test]
    fn its_debug_is_short_and_shows_no_token() {
        let debug = r#"Lease { resources: ["�\0:k"], remaining: 12.345s, .. }"#;
        assert_eq!(format!("{:?}", lease()), debug);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn serde_writes_it_as_text() {
        let json = serde_json::to_string(&lease()).unwrap();
        assert_eq!(json, format!("\"{}\"", lease()));
        assert_eq!(serde_json::from_str::<Lease>(&json).unwrap(), lease());
        assert!(serde_json::from_str::<Lease>("\"lease2:\"").is_err());
    }
}
