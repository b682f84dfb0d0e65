//! A held lock as data.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::display::Names;
use crate::fencing::FencingToken;

/// A held lock as data, with which another task or process can go on; from
/// [`LockGuard::into_lease`](crate::LockGuard::into_lease).
///
/// Nothing extends or releases the lock meanwhile: it ends with its ttl unless the lease is
/// [resumed](crate::Redlock::resume) in time. That can be done once: the lease is used up by it, and
/// whoever resumes a copy of it gets no guard. Anybody who has the lease can release the lock, so keep
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
    /// At least one. At each node the key may hold any of them.
    tokens: Vec<String>,
    ttl: Duration,
    remaining: Duration,
    hold: Duration,
    fencing_token: Option<FencingToken>,
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
            tokens: vec![token.into()],
            ttl,
            remaining,
            hold: Duration::ZERO,
            fencing_token: None,
        }
    }

    /// Returns the lease of a lock that stays taken for at least `hold` from now on, even if it is
    /// released. For authors of locks.
    #[must_use]
    pub fn with_hold_at_least(mut self, hold: Duration) -> Self {
        self.hold = hold;
        self
    }

    /// Returns the lease of a lock with this fencing token, if it has one. For authors of locks.
    #[must_use]
    pub fn with_fencing_token(mut self, token: Option<FencingToken>) -> Self {
        self.fencing_token = token;
        self
    }

    /// Some nodes may hold the lock by this token. Of more tokens than `most`, it forgets those in between
    /// the first and the latest.
    pub(crate) fn or_by(mut self, token: &str, most: usize) -> Self {
        if self.tokens.len() >= most.max(2) {
            self.tokens.remove(1);
        }
        self.tokens.push(token.to_owned());
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
        self.tokens.first().map_or("", |token| token)
    }

    /// All values that may name the owner: that one, and the one of each attempt to resume the lease for
    /// which too few nodes answered.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.tokens.iter().map(|token| &**token)
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

    /// The fencing token of the lock, if it has one. The guard of whoever resumes the lease has it too.
    #[must_use]
    pub fn fencing_token(&self) -> Option<FencingToken> {
        self.fencing_token
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

/// What the text begins with.
const FORMAT: &str = "lease2";

/// What it began with when it had one token, and the nodes behind the times.
const OLD_FORMAT: &str = "lease1";

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
        let tokens = self.tokens.iter().map(|token| escaped(token));
        let tokens = tokens.collect::<Vec<_>>().join(",");
        write!(f, ":{tokens}:{ttl}:{remaining}:{hold}")?;
        match self.fencing_token {
            Some(token) => write!(f, ":{token}"),
            None => Ok(()),
        }
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
        let is_old = match next("the format")? {
            FORMAT => false,
            OLD_FORMAT => true,
            _ => return Err(malformed("the format")),
        };
        let resources = next("the resource")?
            .split(',')
            .map(unhex)
            .collect::<Option<_>>();
        let resources = resources.ok_or(malformed("the resource"))?;
        let tokens = next("the token")?.split(',').map(unescaped);
        let tokens = tokens
            .collect::<Option<_>>()
            .ok_or(malformed("the token"))?;
        let mut time = |part| {
            let nanos = next(part)?.parse().map_err(|_| malformed(part))?;
            Ok(Duration::from_nanos(nanos))
        };
        let (ttl, remaining, hold) = (time("the ttl")?, time("what remains")?, time("the hold")?);
        if is_old {
            next("the nodes")?;
        }
        let fencing_token = parts.next().map(str::parse).transpose();
        let fencing_token = fencing_token.map_err(|_| malformed("the fencing token"))?;
        if parts.next().is_some() {
            return Err(malformed("the end"));
        }
        Ok(Self {
            resources,
            tokens,
            ttl,
            remaining,
            hold,
            fencing_token: fencing_token.map(FencingToken::new),
        })
    }
}

/// The text with each byte that may mean something around it as `%` and two digits.
fn escaped(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'-' | b'.' | b'_' => escaped.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02x}")),
        }
        escaped
    })
}

fn unescaped(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes.extend(unhex(digits)?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
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
        .or_by("another", 8)
    }

    #[test]
    fn a_lease_is_the_same_after_a_journey_as_text() {
        let of = |resources| Lease::new(resources, "", Duration::ZERO, Duration::ZERO);
        let several = of(vec![b"a".to_vec(), b",:".to_vec(), Vec::new()]);
        let noted = lease().or_by("id web-1: 100 %,\u{e9}", 8);
        let fenced = lease().with_fencing_token(Some(FencingToken::MAX));
        assert_eq!(fenced.fencing_token(), Some(FencingToken::MAX));
        for lease in [lease(), several, of(vec![Vec::new()]), noted, fenced] {
            assert_eq!(lease.to_string().parse::<Lease>(), Ok(lease));
        }
    }

    #[test]
    fn a_text_that_is_not_a_lease_is_refused_with_the_part_that_is_wrong() {
        let text = lease().to_string();
        let error = |text: &str| text.parse::<Lease>().unwrap_err().to_string();
        assert_eq!(error(""), "malformed lease: the format is malformed");
        assert_eq!(error("lease2"), "malformed lease: the resource is missing");
        assert_eq!(
            error("lease3:6b"),
            "malformed lease: the format is malformed"
        );
        assert_eq!(
            error(&text.replace("lease2", "lease1")),
            "malformed lease: the nodes is missing"
        );
        assert_eq!(
            error(&format!("{text}:more")),
            "malformed lease: the fencing token is malformed"
        );
        assert_eq!(
            error(&format!("{text}:7:more")),
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
        for token in ["to%ken", "%e", "%g0", "%ff"] {
            assert_eq!(
                error(&text.replace("token", token)),
                "malformed lease: the token is malformed"
            );
        }
        assert_eq!(
            error(&text.replace(":30000", ":-3000")),
            "malformed lease: the ttl is malformed"
        );
        assert_eq!(
            error(text.rsplit_once(':').unwrap().0),
            "malformed lease: the hold is missing"
        );
    }

    #[test]
    fn a_text_of_before_there_were_several_tokens_is_a_lease() {
        let text = "lease1:ff003a6b:token:30000000000:12345000000:7000000:16";
        let old = Lease {
            tokens: vec!["token".to_owned()],
            ..lease()
        };
        assert_eq!(text.parse::<Lease>(), Ok(old));
    }

    #[test]
    fn of_too_many_tokens_the_first_and_the_latest_are_kept() {
        let of = |names: &[&str]| names.iter().fold(lease(), |it, name| it.or_by(name, 4));
        let lease = of(&["a", "b", "c", "d"]);
        assert_eq!(lease.tokens().collect::<Vec<_>>(), ["token", "b", "c", "d"]);
        assert_eq!(lease.token(), "token");
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
        assert!(serde_json::from_str::<Lease>("\"lease3:\"").is_err());
    }
}

#[cfg(test)]
mod foreign {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of a lease in any order.
    fn text() -> impl Strategy<Value = String> {
        let pieces = [
            "lease1",
            "lease2",
            ":",
            ":",
            ":",
            ":",
            ",",
            "6b",
            "ff0",
            "%",
            "%2",
            "%ff",
            "token",
            "-",
            "0",
            "18446744073709551616",
            "\u{e9}",
        ];
        let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..20);
        prop_oneof![any::<String>(), pieces.prop_map(|pieces| pieces.concat())]
    }

    proptest! {
        #[test]
        fn a_text_is_a_lease_that_is_written_alike_or_an_error_without_it(text in text()) {
            match text.parse::<Lease>() {
                Ok(lease) => prop_assert_eq!(lease.to_string().parse(), Ok(lease)),
                Err(error) => prop_assert!(error.to_string().len() < 60, "{}", error),
            }
        }

        #[test]
        fn any_lease_is_the_same_after_a_journey_as_text_and_one_byte_less_is_never_a_panic(
            resources in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..4),
            [one, other] in prop::array::uniform2(any::<String>()),
            [ttl, remaining] in prop::array::uniform2(any::<u64>()),
            cut in any::<prop::sample::Index>(),
        ) {
            let [ttl, remaining] = [ttl, remaining].map(Duration::from_nanos);
            let lease = Lease::new(resources, &one, ttl, remaining).or_by(&other, 8);
            let text = lease.to_string();
            prop_assert_eq!(text.parse(), Ok(lease));
            let shorter = &text[..cut.index(text.len())];
            shorter.parse::<Lease>().ok();
        }
    }
}
