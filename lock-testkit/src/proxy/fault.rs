//! The faults of a proxy.

use std::time::Duration;

/// What a [`FaultProxy`](super::FaultProxy) does to connections, see
/// [`set_fault`](super::FaultProxy::set_fault).
///
/// *The next request* is the first whole request, on any connection, that is not part of a handshake,
/// as `HELLO`, `AUTH`, `SELECT`, `CLIENT`, `PING` and `CLUSTER` are: clients send those by themselves. The fault
/// is over once it has met that request. Its effect on the reply remains even if another fault is set
/// before the reply comes, but not after a [`heal`](super::FaultProxy::heal).
///
/// Where bytes were lost, nothing that follows them is ever passed on, just as with TCP: a client
/// must not take a later reply for the one that it missed. So such a connection stays silent, even
/// after [`heal`](super::FaultProxy::heal), until the client or [`cut`](super::FaultProxy::cut)
/// closes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyFault {
    /// Each reply is held back for this long after it has arrived. The order stays the same.
    ///
    /// This concerns replies on all connections, and replies that are already held back.
    Delay(Duration),
    /// The bytes of both directions vanish, on open connections and on new ones. New connections are
    /// accepted, and nothing is closed: neither side notices that the other has closed.
    ///
    /// Connections on which nothing was lost continue after the fault.
    BlackHole,
    /// The connections that are open at this moment are dead for good: the bytes of both directions
    /// vanish, and neither side notices that the other has closed. New connections pass.
    HalfOpen,
    /// The next request is swallowed and its connection is cut, so that the server never sees the
    /// request. Then everything passes again.
    CutAfterRequest,
    /// The next request reaches the server, and its connection is cut when its reply arrives, so that
    /// the server has carried it out. Then everything passes again.
    CutBeforeReply,
    /// The next request reaches the server, but its reply vanishes, with everything that follows it on
    /// that connection. The connection stays open and its requests still reach the server. On other
    /// connections everything passes.
    LoseReply,
    /// Replies are held back until another fault is set or [`heal`](super::FaultProxy::heal) is
    /// called; then they are delivered in order. If the server closes meanwhile, the client notices
    /// that after them.
    Hold,
    /// Open connections are cut, and new ones are refused.
    Refuse,
    /// Requests are not passed on. Each of them is answered with these bytes
    /// (`b"-LOADING Redis is loading the dataset in memory\r\n"`), after the replies to earlier ones.
    /// Requests of a handshake still pass.
    Answer(Vec<u8>),
}
