//! Looks at what goes over a connection before redis-rs reads it.
//!
//! redis-rs takes a reply of any length into memory, reads each negative length as nil, reads on for as
//! long as a server sends what nobody asked for, and keeps what is said in a handshake to itself.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most bytes of a reply, and how many more for each word of the longest command so far: the longest
/// replies are arrays with an integer for each of many keys.
const REPLY: usize = 64 * 1024;
const REPLY_PER_WORD: usize = 8;

/// How many more for a part of a scan: it asks for 20 keys, and may get some more of up to 64 KiB each. So many are
/// enough for the slots of a cluster too, in some thousand ranges.
const LONG_REPLY: usize = 40 * 64 * 1024;

/// How long the reply to a command can be.
pub(crate) fn longest_reply(words: usize, is_long: bool) -> usize {
    let more = if is_long { LONG_REPLY } else { 0 };
    REPLY.saturating_add(words.saturating_mul(REPLY_PER_WORD)) + more
}

/// How much of a line is kept: more than of an error in the end, and than any length has digits.
const LINE: usize = 1024;

/// What is wrong with a reply. The connection is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Garbage {
    /// A length that is no number, or that nothing can have.
    Length,
    /// A nil with something in it.
    Nil,
    /// The reply is longer than one to its command can be.
    TooLong { limit: usize },
    /// There is no command left that it could belong to.
    Unasked,
}

impl fmt::Display for Garbage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("the server sent a reply of an impossible length"),
            Self::Nil => f.write_str("the server sent a malformed nil"),
            Self::TooLong { limit } => {
                write!(f, "the server sent a reply of more than {limit} bytes")
            }
            Self::Unasked => f.write_str("the server sent a reply that nobody asked for"),
        }
    }
}

impl std::error::Error for Garbage {}

/// What was asked and heard over a connection.
#[derive(Clone, Default)]
pub(crate) struct Heard(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// How many commands have no reply yet, those of the handshake aside.
    asked: AtomicUsize,
    /// How long the longest reply to a command so far can be.
    longest: AtomicUsize,
    is_up: AtomicBool,
}

#[derive(Default)]
struct State {
    /// The first error since the client wrote last: it sends its whole handshake at once, and what
    /// follows the first error may only be due to that one.
    error: Option<String>,
    garbage: Option<Garbage>,
}

impl Heard {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A command with replies as long as this is about to be handed to redis-rs. If it is never sent, one
    /// reply that nobody asked for goes unnoticed.
    pub(crate) fn asks(&self, longest: usize) {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        if self.0.longest.load(Ordering::Relaxed) < longest {
            self.0.longest.fetch_max(longest, Ordering::Relaxed);
        }
    }

    /// What the server said to a handshake that failed.
    pub(crate) fn error(&self) -> Option<String> {
        self.with(|state| state.error.take())
    }

    /// The handshake is over: from now on errors are told to those who asked.
    pub(crate) fn is_up(&self) {
        self.0.is_up.store(true, Ordering::Relaxed);
        self.with(|state| state.error = None);
    }

    /// Why the connection was ended from this side.
    pub(crate) fn garbage(&self) -> Option<Garbage> {
        self.with(|state| state.garbage)
    }

    /// The client writes, or the server has answered so.
    fn note(&self, error: Option<String>) {
        if !self.0.is_up.load(Ordering::Relaxed) {
            self.with(|state| match error {
                Some(error) => drop(state.error.get_or_insert(error)),
                None => state.error = None,
            });
        }
    }

    /// The longest reply that the server may send now.
    fn limit(&self) -> usize {
        self.0.longest.load(Ordering::Relaxed).max(REPLY)
    }

    /// The server has answered a command.
    fn answered(&self) -> Result<(), Garbage> {
        if !self.0.is_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        let less = |asked: usize| asked.checked_sub(1);
        let asked = &self.0.asked;
        let answered = asked.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        answered.map(drop).map_err(|_| Garbage::Unasked)
    }
}

/// A stream whose replies are looked at.
pub(crate) struct Checked<S> {
    stream: S,
    read: Frames,
    heard: Heard,
}

impl<S> Checked<S> {
    pub(crate) fn new(stream: S, heard: Heard) -> Self {
        Self {
            stream,
            read: Frames::default(),
            heard,
        }
    }

    fn has_read(&mut self, mut bytes: &[u8]) -> Result<(), Garbage> {
        let limit = self.heard.limit();
        while let Some(reply) = self.read.next(&mut bytes, limit)? {
            // A push message answers nothing. Its bytes count for the reply that follows, so that there
            // is no end of them either.
            if reply.kind == b'>' {
                continue;
            }
            self.read.size = 0;
            if reply.error.is_some() {
                self.heard.note(reply.error);
            }
            self.heard.answered()?;
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Checked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let result = self.has_read(&buffer.filled()[before..]);
        Poll::Ready(result.map_err(|garbage| {
            self.heard.with(|state| state.garbage = Some(garbage));
            io::Error::new(io::ErrorKind::InvalidData, garbage)
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Checked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.heard.note(None);
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// A whole reply.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    /// Its text, if it is an error.
    error: Option<String>,
}

/// Finds the ends of replies in what comes in pieces, and keeps no more than a line.
#[derive(Default)]
struct Frames {
    /// The line that is read, as much as is kept of it.
    line: Vec<u8>,
    /// What is left of a string.
    body: usize,
    /// How many parts the frame still needs; zero between two frames.
    open: usize,
    /// What the frame consists of so far.
    kind: u8,
    size: usize,
    error: Option<String>,
}

impl Frames {
    /// Reads on to the end of a frame; `None` if it does not come in these bytes.
    fn next(&mut self, bytes: &mut &[u8], limit: usize) -> Result<Option<Frame>, Garbage> {
        while !bytes.is_empty() {
            if self.body > 0 {
                let (_, rest) = bytes.split_at(self.body.min(bytes.len()));
                let count = bytes.len() - rest.len();
                self.body -= count;
                self.size = self.size.saturating_add(count);
                *bytes = rest;
            } else {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let (piece, rest) = bytes.split_at(end.map_or(bytes.len(), |end| end + 1));
                *bytes = rest;
                self.size = self.size.saturating_add(piece.len());
                self.read_line(piece)?;
            }
            // Each part takes three bytes at least.
            let least = self.open.saturating_mul(3).saturating_add(self.body);
            if self.size.saturating_add(least) > limit {
                return Err(Garbage::TooLong { limit });
            }
            if self.line.is_empty() && self.body == 0 && self.open == 0 {
                return Ok(Some(Frame {
                    kind: self.kind,
                    error: self.error.take(),
                }));
            }
        }
        Ok(None)
    }

    /// Reads a piece of a line, which may end with it.
    fn read_line(&mut self, piece: &[u8]) -> Result<(), Garbage> {
        // Most lines come in one piece.
        if self.line.is_empty() && piece.ends_with(b"\r\n") && piece.len() <= LINE {
            return self.end_line(piece);
        }
        let (&last, piece) = match piece.split_last() {
            Some(split) => split,
            None => return Ok(()),
        };
        let is_end = last == b'\n' && piece.last().or(self.line.last()) == Some(&b'\r');
        let room = LINE.saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
        // The last byte is always kept, so that the end of a long line is found.
        self.line.truncate(LINE - 1);
        self.line.push(last);
        if is_end {
            let mut line = std::mem::take(&mut self.line);
            self.end_line(&line)?;
            line.clear();
            self.line = line;
        }
        Ok(())
    }

    fn end_line(&mut self, line: &[u8]) -> Result<(), Garbage> {
        let kind = line.first().copied().unwrap_or_default();
        let text = &line[1..line.len().saturating_sub(2).max(1)];
        if self.open == 0 {
            self.kind = kind;
            self.open = 1;
            let error = (kind == b'-').then(|| String::from_utf8_lossy(text).into_owned());
            self.error = error;
        }
        self.open -= 1;
        match kind {
            b'$' | b'*' if text == b"-1" => {}
            // The line break behind it is a part of its body.
            b'$' | b'!' | b'=' => self.body = length(text)?.saturating_add(2),
            b'*' | b'~' | b'>' => self.open = self.open.saturating_add(length(text)?),
            b'%' => self.open = self.open.saturating_add(length(text)?.saturating_mul(2)),
            // The value that it belongs to follows.
            b'|' => {
                let parts = length(text)?.saturating_mul(2).saturating_add(1);
                self.open = self.open.saturating_add(parts);
            }
            b'_' if !text.is_empty() => return Err(Garbage::Nil),
            // Of all else redis-rs says what is wrong with it.
            _ => {}
        }
        Ok(())
    }
}

/// A length as servers write it; redis-rs takes others too.
fn length(text: &[u8]) -> Result<usize, Garbage> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number);
    text.and_then(|text| text.parse().ok())
        .ok_or(Garbage::Length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The kinds of the frames in these bytes, which come in pieces.
    fn frames(bytes: &[u8], piece: usize) -> Result<String, Garbage> {
        let mut reader = Frames::default();
        let mut found = String::new();
        for mut bytes in bytes.chunks(piece) {
            while let Some(frame) = reader.next(&mut bytes, 100)? {
                reader.size = 0;
                found.push(char::from(frame.kind));
            }
        }
        Ok(found)
    }

    #[test]
    fn frames_end_where_they_end_in_whatever_pieces_they_come() {
        let table = [
            ("+OK\r\n:1\r\n$-1\r\n*-1\r\n", "+:$*"),
            ("$0\r\n\r\n$4\r\n\r\n\r\n\r\n_\r\n", "$$_"),
            ("*0\r\n*2\r\n$1\r\nx\r\n:-5\r\n", "**"),
            ("*2\r\n*1\r\n$-1\r\n*1\r\n*0\r\n", "*"),
            ("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", "%"),
            ("|1\r\n+a\r\n+b\r\n~1\r\n:1\r\n", "|"),
            (">2\r\n+a\r\n+b\r\n#t\r\n", ">#"),
            ("!3\r\nERR\r\n=5\r\ntxt:x\r\n,1.5\r\n(12\r\n", "!=,("),
            ("-a\rb\nc\r\r\n+\r\n", "-+"),
            ("+O", ""),
            ("*2\r\n+OK\r\n", ""),
        ];
        for (bytes, expected) in table {
            for piece in 1..=bytes.len() {
                let found = frames(bytes.as_bytes(), piece);
                assert_eq!(found.as_deref(), Ok(expected), "{bytes:?} in {piece}s");
            }
        }
    }

    #[test]
    fn lengths_are_numbers_and_a_nil_is_empty() {
        for bytes in [
            "$-2\r\n",
            "$-01\r\n",
            "$\r\n",
            "$ 1\r\n",
            "$+1\r\n",
            "*-2\r\n",
            "*x\r\n",
            "~-1\r\n",
            ">-1\r\n",
            "%-1\r\n",
            "|-1\r\n",
            "!-1\r\n",
            "=-1\r\n",
            "$?\r\n",
            "$99999999999999999999\r\n",
        ] {
            assert_eq!(
                frames(bytes.as_bytes(), 2),
                Err(Garbage::Length),
                "{bytes:?}"
            );
        }
        assert_eq!(frames(b"_x\r\n", 2), Err(Garbage::Nil));
    }

    #[test]
    fn a_long_frame_is_known_as_soon_as_its_length() {
        let too_long = Err(Garbage::TooLong { limit: 100 });
        let line = format!("+{}", "x".repeat(99));
        let ends = format!("{}\r\n", &line[..98]);
        for bytes in [
            &line,
            "$94\r\n",
            "*33\r\n",
            "%16\r\n",
            "*2\r\n$89\r\n",
            "*18446744073709551615\r\n",
        ] {
            let longer = format!("{bytes}x");
            assert_eq!(frames(longer.as_bytes(), 1), too_long, "{bytes:?}");
        }
        assert_eq!(frames(ends.as_bytes(), 1), Ok("+".to_owned()));
        assert_eq!(frames(b"$93\r\n", 1), Ok(String::new()));
    }

    #[test]
    fn the_first_error_is_heard_in_part_and_without_those_inside_of_arrays() {
        let error = |bytes: &[u8]| {
            let mut reader = Frames::default();
            reader
                .next(&mut { bytes }, usize::MAX)
                .unwrap()
                .unwrap()
                .error
        };
        assert_eq!(error(b"-NOAUTH no\r\n").as_deref(), Some("NOAUTH no"));
        assert_eq!(error(b"*1\r\n-NOAUTH no\r\n"), None);
        let long = format!("-{}\r\n", "x".repeat(10_000));
        assert!(error(long.as_bytes()).unwrap().len() < LINE);
    }
}

#[cfg(test)]
mod foreign {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 1000;

    /// What a server may send, well-formed or not.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            "+",
            "-",
            ":",
            "$",
            "*",
            "%",
            "~",
            ">",
            "|",
            "_",
            "!",
            "=",
            "#t",
            ",1.5",
            "(1",
            "\r\n",
            "\r\n",
            "\r\n",
            "\r",
            "\n",
            "0",
            "1",
            "2",
            "-1",
            "17",
            "18446744073709551615",
            "OK",
            "ERR no",
            "$1\r\nx\r\n",
            ":1\r\n",
        ];
        let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40);
        let any = prop::collection::vec(any::<u8>(), 0..200);
        prop_oneof![any, pieces.prop_map(|pieces| pieces.concat().into_bytes())]
    }

    /// The frames in these bytes, which come in pieces of these lengths, and what is wrong with the next one.
    fn frames(bytes: &[u8], lengths: &[usize]) -> (Vec<Frame>, Option<Garbage>) {
        let (mut reader, mut found, mut rest) = (Frames::default(), Vec::new(), bytes);
        let mut lengths = lengths.iter().copied().cycle();
        while !rest.is_empty() {
            let (mut piece, after) = rest.split_at(lengths.next().unwrap_or(1).min(rest.len()));
            rest = after;
            loop {
                match reader.next(&mut piece, LIMIT) {
                    Ok(Some(frame)) => found.push(frame),
                    Ok(None) => break,
                    Err(garbage) => return (found, Some(garbage)),
                }
                reader.size = 0;
            }
            assert!(reader.line.len() <= LINE);
        }
        (found, None)
    }

    /// How many replies redis-rs reads in these bytes, up to what it does not understand.
    fn read_by_redis(mut bytes: &[u8]) -> usize {
        let mut count = 0;
        while !bytes.is_empty() && redis::Parser::new().parse_value(&mut bytes).is_ok() {
            count += 1;
        }
        count
    }

    proptest! {
        #[test]
        fn replies_end_where_they_end_in_whatever_pieces_they_come(
            bytes in bytes(),
            lengths in prop::collection::vec(1..9_usize, 1..6),
        ) {
            let whole = frames(&bytes, &[usize::MAX]);
            let (found, garbage) = frames(&bytes, &lengths);
            prop_assert_eq!(&found, &whole.0);
            prop_assert_eq!(garbage.is_some(), whole.1.is_some());
        }

        /// Else a reply would be counted for another command than the one that redis-rs gives it to.
        #[test]
        fn redis_rs_reads_no_reply_that_was_not_counted(bytes in bytes()) {
            let (found, garbage) = frames(&bytes, &[usize::MAX]);
            if garbage.is_none() {
                prop_assert!(read_by_redis(&bytes) <= found.len());
            }
        }
    }
}
