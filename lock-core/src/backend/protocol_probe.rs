//! What a server speaks that does not understand us: TLS, or Redis in plain text.

use std::future::Future;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::runtime::ambient;
use crate::sync::locked;

/// For how long an answer stands: to ask costs a connection.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Finds out whether a server speaks another protocol than it is spoken to.
///
/// A redis-server that expects TLS resets a connection that begins in plain text, without a word; one
/// that expects plain text waits for ever for the end of the line with which TLS begins. So neither can
/// be told from its answer, and another connection asks: once a second at most, and never again once
/// the server was [understood](Self::understood).
#[derive(Debug, Default)]
pub struct ProtocolProbe {
    is_understood: AtomicBool,
    /// When the server was asked last, and whether it was so.
    asked: Mutex<Option<(Duration, bool)>>,
}

/// What a server may expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TLS, of whatever version.
    Tls,
    /// Redis in plain text.
    PlainText,
}

impl ProtocolProbe {
    /// A connection came about: there is nothing to find out any more.
    pub fn understood(&self) {
        self.is_understood.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server speaks this protocol, which it is not spoken to in.
    ///
    /// `ask` opens a connection without any handshake, writes the bytes that it is given, and reads the
    /// first two of the answer. It is to be bounded by the caller: a server that understands neither
    /// stays silent. If it is dropped, the answer is `false` until the next second.
    pub async fn expects<A>(&self, protocol: Protocol, ask: impl FnOnce(Vec<u8>) -> A) -> bool
    where
        A: Future<Output = io::Result<[u8; 2]>>,
    {
        if self.is_understood.load(Ordering::Relaxed) {
            return false;
        }
        let now = ambient().now();
        {
            let mut asked = locked(&self.asked);
            match *asked {
                Some((at, answer)) if now.saturating_sub(at) < ASKED_EVERY => return answer,
                _ => *asked = Some((now, false)),
            }
        }
        let answer = ask(protocol.question()).await;
        let answer = answer.is_ok_and(|begin| protocol.is_answer(begin));
        *locked(&self.asked) = Some((now, answer));
        answer
    }
}

impl Protocol {
    fn question(self) -> Vec<u8> {
        match self {
            Self::PlainText => b"PING\r\n".to_vec(),
            Self::Tls => client_hello(),
        }
    }

    /// Whether an answer begins so.
    fn is_answer(self, [kind, version]: [u8; 2]) -> bool {
        match self {
            // Even if it is an error.
            Self::PlainText => matches!(kind, b'+' | b'-'),
            Self::Tls => matches!(kind, ALERT | HANDSHAKE) && version == 3,
        }
    }
}

/// The kinds of records of TLS with which a server may begin.
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;

/// A hello of TLS 1.2, whole, but without a cipher that anybody would take.
fn client_hello() -> Vec<u8> {
    let mut hello = vec![
        HANDSHAKE, 3, 1, 0, 45, // A record of 45 bytes,
        1, 0, 0, 41, // which is a hello of 41 bytes,
        3, 3, // for TLS 1.2,
    ];
    hello.extend([b'?'; 32]); // with a random of no use,
    hello.extend([
        0, // no session,
        0, 2, 0, 0, // the cipher `NULL_WITH_NULL_NULL`
        1, 0, // and no compression.
    ]);
    hello
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;

    use super::*;

    fn expects(probe: &ProtocolProbe, answer: io::Result<[u8; 2]>, protocol: Protocol) -> bool {
        block_on(probe.expects(protocol, |_| async { answer }))
    }

    #[test]
    fn an_answer_is_told_by_its_first_bytes() {
        use Protocol::{PlainText, Tls};
        for (answer, tls, plain_text) in [
            (*b"+P", false, true),
            (*b"-N", false, true),
            ([ALERT, 3], true, false),
            ([HANDSHAKE, 3], true, false),
            ([ALERT, 1], false, false),
            (*b"HT", false, false),
        ] {
            assert_eq!(expects(&ProtocolProbe::default(), Ok(answer), Tls), tls);
            assert_eq!(
                expects(&ProtocolProbe::default(), Ok(answer), PlainText),
                plain_text
            );
        }
        let silent = || Err(io::ErrorKind::ConnectionReset.into());
        assert!(!expects(&ProtocolProbe::default(), silent(), Tls));
    }

    #[test]
    fn a_server_is_asked_once_a_second_and_never_once_it_was_understood() {
        let probe = ProtocolProbe::default();
        assert!(expects(&probe, Ok(*b"+P"), Protocol::PlainText));
        let asks = |_| async { panic!("asked again") };
        assert!(
            block_on(probe.expects(Protocol::PlainText, asks)),
            "a moment ago it was so"
        );
        *locked(&probe.asked) = Some((ambient().now() - ASKED_EVERY, true));
        assert!(!expects(&probe, Ok(*b"HT"), Protocol::PlainText));
        *locked(&probe.asked) = None;
        probe.understood();
        assert!(!block_on(probe.expects(Protocol::PlainText, asks)));
    }

    #[test]
    fn the_lengths_in_the_hello_are_right() {
        let hello = client_hello();
        assert_eq!(usize::from(hello[4]), hello[5..].len());
        assert_eq!(usize::from(hello[8]), hello[9..].len());
    }
}
