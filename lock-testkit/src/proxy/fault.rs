//! What a proxy can do to connections.

use std::time::Duration;

/// What a [`FaultProxy`](super::FaultProxy) does to connections, see
/// [`set_fault`](super::FaultProxy::set_fault).
///
/// *The next request* is the first whole request, on whichever connection, that is not part of a
/// handshake. `HELLO`, `AUTH`, `SELECT`, `CLIENT` and `PING` are: clients send them on their own.
/// The fault is over once it has met that request. What it does to the reply it does even if another
/// fault is set before the reply comes, but not after a [`heal`](super::FaultProxy::heal).
///
/// Where bytes were lost, nothing that follows them is ever passed, as TCP would not pass it either:
/// a client must not take a later reply for the one that it missed. So such a connection stays
/// silent, also after [`heal`](super::FaultProxy::heal), until the client closes it or
/// [`cut`](super::FaultProxy::cut) does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProxyFault {
    /// Each reply is held back for so long after it has arrived. The order stays.
    ///
    /// It holds for replies on all connections, and for replies that are held back already.
    Delay(Duration),
    /// The bytes of both directions vanish, on open connections and on new ones. These are
    /// accepted, and nothing is closed: neither side hears that the other has closed.
    ///
    /// Connections on which nothing was lost meanwhile go on after it.
    BlackHole,
    /// The connections that are open at this moment are dead, for good: the bytes of both
    /// directions vanish, and neither side hears that the other has closed. New connections pass.
    HalfOpen,
    /// The next request is swallowed and its connection is cut, so the server never sees it. Then
    /// everything passes again.
    CutAfterRequest,
    /// The next request reaches the server, and its connection is cut when its reply arrives, so
    /// the server has done it. Then everything passes again.
    CutBeforeReply,
    /// The next request reaches the server, and its reply vanishes, with all that follows it on
    /// that connection. It stays open and its requests still reach the server. Everything passes on
    /// the other connections.
    LoseReply,
    /// Replies are held back until another fault is set or [`heal`](super::FaultProxy::heal) is
    /// called; then they are delivered in order. If the server closes meanwhile, the client hears of
    /// it after them.
    Hold,
    /// Open connections are cut, and new ones are refused: nobody listens.
    Refuse,
    /// Requests are not passed on. Each is answered with these bytes
    /// (`b"-LOADING Redis is loading the dataset in memory\r\n"`), after the replies to earlier
    /// ones. What belongs to a handshake still passes.
    Answer(Vec<u8>),
}
