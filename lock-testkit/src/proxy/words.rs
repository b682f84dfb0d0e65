//! What the proxy has to know about the words of Redis.

/// The kind of a frame from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The reply to the oldest request that has none.
    Reply,
    /// The reply to a subscription, if that is the oldest request; a request for several channels has
    /// several of them.
    Confirmation,
    /// A frame that was not asked for.
    Message,
}

/// Returns the kind of a frame, on a connection that has `subscribed` or has not.
///
/// RESP3 marks frames that are not replies, confirmations too. RESP2 does not, so there the first
/// word decides.
pub(super) fn kind_of(frame: &[u8], subscribed: bool) -> Kind {
    let is_push = frame.starts_with(b">");
    let tells_its_kind = is_push || (subscribed && frame.starts_with(b"*"));
    if !tells_its_kind {
        return Kind::Reply;
    }
    match first_word(frame) {
        Some(word) if is_subscription(word) => Kind::Confirmation,
        Some(b"message" | b"pmessage" | b"smessage") => Kind::Message,
        _ if is_push => Kind::Message,
        _ => Kind::Reply,
    }
}

/// Returns whether clients send this by themselves, before and between what they are asked to send.
pub(super) fn is_handshake(name: &[u8]) -> bool {
    is_one_of(
        name,
        &["HELLO", "AUTH", "SELECT", "CLIENT", "PING", "CLUSTER"],
    )
}

/// Returns whether confirmations answer this.
pub(super) fn is_subscription(name: &[u8]) -> bool {
    is_one_of(
        name,
        &[
            "SUBSCRIBE",
            "UNSUBSCRIBE",
            "PSUBSCRIBE",
            "PUNSUBSCRIBE",
            "SSUBSCRIBE",
            "SUNSUBSCRIBE",
        ],
    )
}

fn is_one_of(name: &[u8], names: &[&str]) -> bool {
    names
        .iter()
        .any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Returns the first word of an array whose first element is a bulk string.
fn first_word(frame: &[u8]) -> Option<&[u8]> {
    let mut lines = frame.split(|byte| *byte == b'\n');
    let (_count, length, word) = (lines.next()?, lines.next()?, lines.next()?);
    length.starts_with(b"$").then_some(())?;
    word.strip_suffix(b"\r")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_confirmations_and_messages_are_told_apart() {
        let message = "3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n";
        let confirmation = "3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
        let invalidate = "2\r\n$10\r\ninvalidate\r\n*0\r\n";
        for (body, kind) in [
            (message, Kind::Message),
            (confirmation, Kind::Confirmation),
            (invalidate, Kind::Message),
        ] {
            for subscribed in [false, true] {
                assert_eq!(kind_of(format!(">{body}").as_bytes(), subscribed), kind);
            }
        }
        let of_resp2 = |body, subscribed| kind_of(format!("*{body}").as_bytes(), subscribed);
        assert_eq!(of_resp2(message, true), Kind::Message);
        assert_eq!(of_resp2(confirmation, true), Kind::Confirmation);
        assert_eq!(of_resp2(message, false), Kind::Reply);
        for reply in [
            &b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"[..],
            b"+OK\r\n",
            b"*0\r\n",
            b"$-1\r\n",
        ] {
            assert_eq!(kind_of(reply, true), Kind::Reply);
        }
    }
}
