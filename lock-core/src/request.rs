//! What a caller asks of a lock.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::display::{Name, Names};
use crate::error::InvalidInput;
use crate::fencing::FencingToken;
use crate::retry::RetryPolicy;
use crate::ttl::Ttl;

/// The resource to lock, and how to lock it.
///
/// Whatever is not set falls back to the lock's own defaults. Values are checked when the request
/// is used, before anything is sent. Where a request is expected, a plain name will do: `&str`,
/// `String`, bytes and more convert into one.
///
/// ```
/// use std::time::Duration;
/// use lock_core::{DistributedLockExt, LockRequest, Redlock};
/// # use lock_testkit::MemoryNode;
///
/// # futures::executor::block_on(async {
/// let locks = Redlock::new(MemoryNode::several(5))?;
/// let request = LockRequest::new("invoice-7")
///     .ttl(Duration::from_secs(10)) // how long others wait if this process crashes
///     .max_wait(Duration::from_secs(2)) // how long to wait for another holder
///     .auto_extend(true); // held for as long as the guard lives
/// let guard = locks.lock(request).await?;
/// assert_eq!(guard.resource(), b"invoice-7");
/// guard.release().await?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct LockRequest {
    resource: Arc<[u8]>,
    /// All resources, unless there is exactly one.
    several: Option<Arc<[Arc<[u8]>]>>,
    options: RequestOptions,
}

/// What a request sets, from [`LockRequest::options`]. Authors of locks read it.
///
/// `None` means that the request leaves the value to the lock's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestOptions {
    /// See [`LockRequest::ttl`].
    pub ttl: Option<Duration>,
    /// See [`LockRequest::max_wait`].
    pub max_wait: Option<MaxWait>,
    /// See [`LockRequest::retry`].
    pub retry: Option<RetryPolicy>,
    /// See [`LockRequest::hold_at_least`]; zero unless it was set.
    pub hold_at_least: Duration,
    /// See [`LockRequest::fail_if_held`].
    pub fail_if_held: bool,
    /// See [`LockRequest::fail_if_unavailable`].
    pub fail_if_unavailable: bool,
    /// See [`LockRequest::auto_extend`].
    pub auto_extend: Option<bool>,
    /// See [`LockRequest::extend_interval`].
    pub extend_interval: Option<Duration>,
    /// See [`LockRequest::max_hold`].
    pub max_hold: Option<Duration>,
    /// See [`LockRequest::fencing`].
    pub fencing: Option<bool>,
    /// See [`LockRequest::fencing_floor`].
    pub fencing_floor: Option<FencingToken>,
}

/// How long an acquire may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxWait {
    /// At most this long; zero tries once.
    Limit(Duration),
    /// As long as it takes.
    Unlimited,
}

impl MaxWait {
    /// The limit, if there is one.
    #[must_use]
    pub const fn limit(self) -> Option<Duration> {
        match self {
            Self::Limit(limit) => Some(limit),
            Self::Unlimited => None,
        }
    }
}

impl From<Option<Duration>> for MaxWait {
    fn from(limit: Option<Duration>) -> Self {
        limit.map_or(Self::Unlimited, Self::Limit)
    }
}

impl LockRequest {
    /// A request for one resource: any bytes, at least one.
    pub fn new(resource: impl AsRef<[u8]>) -> Self {
        Self::of(Arc::from(resource.as_ref()), None)
    }

    /// A request for several resources, all or nothing: at least one, at most 100, none of them twice,
    /// in any order.
    ///
    /// They are locked in one round. On nodes of a cluster where their keys are apart, they are
    /// locked one after the other in the order of their bytes, so that two requests cannot
    /// deadlock.
    ///
    /// ```
    /// # use lock_core::LockRequest;
    /// let transfer = LockRequest::many(["account-1", "account-2"]);
    /// assert_eq!(transfer.resources().count(), 2);
    /// ```
    pub fn many<R: AsRef<[u8]>>(resources: impl IntoIterator<Item = R>) -> Self {
        let resources = resources.into_iter();
        let several = resources
            .map(|resource| Arc::from(resource.as_ref()))
            .collect::<Arc<[_]>>();
        match &*several {
            [only] => Self::of(Arc::clone(only), None),
            [first, ..] => Self::of(Arc::clone(first), Some(several)),
            [] => Self::of(Arc::from([]), Some(several)),
        }
    }

    fn of(resource: Arc<[u8]>, several: Option<Arc<[Arc<[u8]>]>>) -> Self {
        Self {
            resource,
            several,
            options: RequestOptions::default(),
        }
    }

    /// How long the lock lives unless it is extended or released: at least 1 ms, at most 365
    /// days; fractions of a millisecond are cut off. It is also how long others wait after the holder
    /// has crashed. Defaults to the lock's default: 30 s.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.options.ttl = Some(ttl);
        self
    }

    /// How long an acquire may wait before it reports why it failed. Zero tries once and does not
    /// wait; `None` waits without a limit. An attempt that is under way when the time is over ends at
    /// once, except for the first, which always gets its node timeout. Defaults to the lock's
    /// default: 10 s.
    #[must_use]
    pub fn max_wait(mut self, max_wait: impl Into<Option<Duration>>) -> Self {
        self.options.max_wait = Some(MaxWait::from(max_wait.into()));
        self
    }

    /// How long an acquire that waits pauses between attempts. Defaults to the lock's default: from
    /// 5 ms doubling to 200 ms, with full jitter.
    #[must_use]
    pub fn retry(mut self, retry: RetryPolicy) -> Self {
        self.options.retry = Some(retry);
        self
    }

    /// Keeps the lock taken for at least this long after it was acquired, even if it is released
    /// or dropped earlier; at most the ttl. A key never outlives its ttl, which counts from when the
    /// node was asked, so a hold that is close to the ttl ends a little early, with the key. Defaults
    /// to zero.
    #[must_use]
    pub fn hold_at_least(mut self, hold: Duration) -> Self {
        self.options.hold_at_least = hold;
        self
    }

    /// Ends a wait with [`Contended`](crate::AcquireError::Contended) as soon as it is certain that
    /// one other holder has the lock. Outages, unless
    /// [`fail_if_unavailable`](Self::fail_if_unavailable) is set too, and rivals that still compete for
    /// the lock are retried until `max_wait` ends. Defaults to off: a wait outlasts holders.
    #[must_use]
    pub fn fail_if_held(mut self, fail: bool) -> Self {
        self.options.fail_if_held = fail;
        self
    }

    /// Ends a wait with [`Unavailable`](crate::AcquireError::Unavailable) as soon as too few nodes have
    /// answered an attempt: it waits for holders, but not for nodes. For callers that would rather fail at
    /// once, or go on without the lock, than queue up while the servers are down.
    ///
    /// "At once" is one node timeout where nodes hang, and the connect timeout where one has never
    /// answered. Defaults to off: a wait outlasts outages.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use lock_core::{AcquireError, DistributedLockExt, LockRequest, Redlock};
    /// # use lock_testkit::{Fault, MemoryNode};
    /// # futures::executor::block_on(async {
    /// let nodes = MemoryNode::several(3);
    /// let locks = Redlock::new(nodes.clone())?;
    /// nodes.iter().for_each(|node| node.set_fault(Fault::Refuse));
    ///
    /// let request = LockRequest::new("invoice-7")
    ///     .max_wait(Duration::from_secs(60)) // for another holder
    ///     .fail_if_unavailable(true);
    /// match locks.lock(request).await {
    ///     Err(AcquireError::Unavailable(outage)) => println!("not now: {outage}"),
    ///     other => panic!("the servers are down: {other:?}"),
    /// }
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// # }).unwrap();
    /// ```
    #[must_use]
    pub fn fail_if_unavailable(mut self, fail: bool) -> Self {
        self.options.fail_if_unavailable = fail;
        self
    }

    /// Extends the lock in the background, again and again, for as long as its guard lives. The ttl
    /// then need not be as long as the work: it is only how long others wait after a crash.
    ///
    /// This runs on the runtime of the acquire, which has to be driven: a current-thread runtime of tokio
    /// stands still outside of `block_on`. A node that fails is asked again until the validity ends. If that does not help, the lock is
    /// [lost](crate::LockGuard::lost). Defaults to the lock's default: off.
    #[must_use]
    pub fn auto_extend(mut self, auto_extend: bool) -> Self {
        self.options.auto_extend = Some(auto_extend);
        self
    }

    /// How long after one automatic extension the next one begins: at least 1 ms, and at most two
    /// thirds of the validity, so that there is time for another try. It may come up to an eighth
    /// earlier, to go along with those of other locks. Defaults to the lock's default: a third of the
    /// validity.
    #[must_use]
    pub fn extend_interval(mut self, interval: Duration) -> Self {
        self.options.extend_interval = Some(interval);
        self
    }

    /// For how long, from its acquisition on, a lock is extended automatically, so that a forgotten
    /// guard does not hold it for ever. After the last extension it lives to the end of its ttl.
    /// Defaults to the lock's default: one hour.
    #[must_use]
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.options.max_hold = Some(max_hold);
        self
    }

    /// Gives the lock a [`FencingToken`], by which what it protects can refuse a holder whose time is over.
    /// Such a lock keeps a counter beside its key on each node. Several resources have one token together,
    /// and all their keys must go in one command: on nodes of a cluster they must share a slot.
    /// Defaults to the lock's default: off.
    #[must_use]
    pub fn fencing(mut self, fencing: bool) -> Self {
        self.options.fencing = Some(fencing);
        self
    }

    /// Asks for a [`FencingToken`] above this one, at most [`FencingToken::MAX_FLOOR`]. A store that
    /// remembers the largest token it has seen can so repair counters that were lost, together with the
    /// clocks that should have made up for it. It switches [`fencing`](Self::fencing) on. Defaults to none.
    #[must_use]
    pub fn fencing_floor(mut self, floor: FencingToken) -> Self {
        self.options.fencing_floor = Some(floor);
        self.fencing(true)
    }

    /// The resource's bytes; those of the first resource, if there are several.
    #[must_use]
    pub fn resource(&self) -> &[u8] {
        &self.resource
    }

    /// All resources, in the order given.
    pub fn resources(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let several = self.several.as_deref();
        let all = several.unwrap_or(std::slice::from_ref(&self.resource));
        all.iter().map(|resource| &**resource)
    }

    /// All resources, if there are several or none.
    pub(crate) fn several(&self) -> Option<&[Arc<[u8]>]> {
        self.several.as_deref()
    }

    /// What the request sets. Only a lock needs to read it: see [`custom`](crate::custom).
    #[must_use]
    pub fn options(&self) -> &RequestOptions {
        &self.options
    }

    /// See [`custom::one_by_one`](crate::custom::one_by_one).
    pub(crate) fn one_by_one(&self) -> impl Iterator<Item = Self> + use<> {
        let several = self.several.as_deref();
        let all = several.unwrap_or(std::slice::from_ref(&self.resource));
        let mut resources = all.to_vec();
        if !mutant!(SeveralInAnyOrder) {
            resources.sort_unstable();
        }
        let options = self.options;
        resources.into_iter().map(move |resource| Self {
            resource,
            several: None,
            options,
        })
    }

    /// See [`custom::validate`](crate::custom::validate).
    pub(crate) fn validate(&self, default_ttl: Duration) -> Result<Ttl, InvalidInput> {
        self.check_resources()?;
        let given = self.options.ttl.unwrap_or(default_ttl);
        let ttl = Ttl::new(given)?;
        let hold = self.options.hold_at_least;
        if hold > ttl.as_duration() {
            return Err(InvalidInput::HoldAboveTtl { hold, ttl: given });
        }
        let (floor, max) = (self.options.fencing_floor, FencingToken::MAX_FLOOR);
        match floor.filter(|floor| *floor > max) {
            Some(floor) => Err(InvalidInput::FencingFloor { floor, max }),
            None => Ok(ttl),
        }
    }

    fn check_resources(&self) -> Result<(), InvalidInput> {
        let Some(several) = self.several() else {
            return check_len(0, &self.resource);
        };
        let (count, max) = (several.len(), MAX_RESOURCES);
        match count {
            0 => return Err(InvalidInput::NoResources),
            count if count > max => return Err(InvalidInput::TooManyResources { count, max }),
            _ => {}
        }
        let mut seen = HashSet::new();
        for resource in several {
            check_len(0, resource)?;
            if !seen.insert(resource) {
                let resource = Name(resource).to_string();
                return Err(InvalidInput::DuplicateResource { resource });
            }
        }
        Ok(())
    }

    pub(crate) fn shared_resource(&self) -> Arc<[u8]> {
        Arc::clone(&self.resource)
    }
}

impl fmt::Debug for LockRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockRequest")
            .field("resources", &Names(self.resources()))
            .field("options", &self.options)
            .finish()
    }
}

/// For how long a lock is extended automatically, unless told otherwise.
pub(crate) const MAX_HOLD: Duration = Duration::from_secs(60 * 60);

/// The most resources of one request, so that a script does not keep a server busy.
const MAX_RESOURCES: usize = 100;

/// The longest key: resource and prefix together.
const MAX_KEY_LEN: usize = 64 * 1024;

/// Refuses a resource that is empty, or too long with its prefix.
pub(crate) fn check_len(prefix_len: usize, resource: &[u8]) -> Result<(), InvalidInput> {
    if resource.is_empty() {
        return Err(InvalidInput::ResourceEmpty);
    }
    let (len, max) = (prefix_len.saturating_add(resource.len()), MAX_KEY_LEN);
    if len > max {
        return Err(InvalidInput::ResourceTooLong { len, max });
    }
    Ok(())
}

macro_rules! request_from {
    ($($name:ty),*) => {$(
        impl From<$name> for LockRequest {
            fn from(resource: $name) -> Self {
                Self::new(resource)
            }
        }
    )*};
}

request_from!(&str, String, &String, &[u8], Vec<u8>);

impl<const N: usize> From<&[u8; N]> for LockRequest {
    fn from(resource: &[u8; N]) -> Self {
        Self::new(resource)
    }
}

impl From<Cow<'_, str>> for LockRequest {
    fn from(resource: Cow<'_, str>) -> Self {
        Self::new(resource.as_bytes())
    }
}

impl From<Arc<str>> for LockRequest {
    fn from(resource: Arc<str>) -> Self {
        Self::of(resource.into(), None)
    }
}

impl From<Arc<[u8]>> for LockRequest {
    fn from(resource: Arc<[u8]>) -> Self {
        Self::of(resource, None)
    }
}

impl From<&LockRequest> for LockRequest {
    fn from(request: &LockRequest) -> Self {
        request.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_usual_kind_of_name_makes_the_same_request() {
        let name = LockRequest::new("name");
        let (owned, shared) = (String::from("name"), Arc::<str>::from("name"));
        assert_eq!(LockRequest::from(b"name"), name);
        assert_eq!(LockRequest::from(&b"name"[..]), name);
        assert_eq!(LockRequest::from(b"name".to_vec()), name);
        assert_eq!(LockRequest::from(&owned), name);
        assert_eq!(LockRequest::from(Cow::Borrowed(&*owned)), name);
        assert_eq!(LockRequest::from(Cow::<str>::Owned(owned)), name);
        assert_eq!(LockRequest::from(Arc::<[u8]>::from(*b"name")), name);
        assert_eq!(LockRequest::from(shared), name);
        assert_eq!(LockRequest::from(&name), name);
    }

    #[test]
    fn what_was_not_set_is_left_to_the_lock() {
        let request = LockRequest::new("name");
        assert_eq!(request.options(), &RequestOptions::default());
        let wait = |request: LockRequest| request.options().max_wait;
        let limit = Duration::from_secs(1);
        assert_eq!(
            wait(request.clone().max_wait(limit)),
            Some(MaxWait::Limit(limit))
        );
        assert_eq!(wait(request.max_wait(None)), Some(MaxWait::Unlimited));
    }
}
