//! Cuts a stream of RESP into frames.

/// A frame that is larger is passed on in pieces, and so is all that follows.
const MAX_FRAME: usize = 64 << 20;

/// The longest first line of a frame's part.
const MAX_LINE: usize = 64 << 10;

/// The bytes with which a part of a frame begins, of RESP2 and RESP3.
const KINDS: &[u8] = b"*~>%|$=!+-:_#,(";

/// Takes bytes in any pieces and returns whole requests or replies.
pub(super) struct Frames {
    /// The bytes with which a frame may begin.
    first: &'static [u8],
    /// Whether a line that begins with a letter is a frame.
    takes_lines: bool,
    bytes: Vec<u8>,
    /// Up to here the parts of the first frame are known to be whole.
    scanned: usize,
    /// How many parts the first frame still needs; 0 before its first byte.
    missing: u64,
    raw: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole frame.
    Frame(Vec<u8>),
    /// Bytes of a stream that is not RESP.
    Raw(Vec<u8>),
    /// Nothing, before more bytes come.
    Wait,
}

enum Part {
    Whole,
    Incomplete,
    NoResp,
}

impl Frames {
    /// Makes one for a stream of arrays and of commands in plain lines, which Redis also accepts: some
    /// clients greet a server with one.
    pub(super) fn of_requests() -> Self {
        Self::new(b"*", true)
    }

    pub(super) fn of_replies() -> Self {
        Self::new(KINDS, false)
    }

    fn new(first: &'static [u8], takes_lines: bool) -> Self {
        Self {
            first,
            takes_lines,
            bytes: Vec::new(),
            scanned: 0,
            missing: 0,
            raw: false,
        }
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn next(&mut self) -> Next {
        while !self.raw && !self.bytes.is_empty() {
            if self.scanned == 0 {
                self.missing = 1;
            }
            match self.scan_part() {
                Part::Whole if self.missing == 0 => {
                    let rest = self.bytes.split_off(self.scanned);
                    self.scanned = 0;
                    return Next::Frame(std::mem::replace(&mut self.bytes, rest));
                }
                Part::Whole => {}
                Part::Incomplete if self.bytes.len() <= MAX_FRAME => return Next::Wait,
                Part::Incomplete | Part::NoResp => self.raw = true,
            }
        }
        match self.take_rest() {
            rest if rest.is_empty() => Next::Wait,
            rest => Next::Raw(rest),
        }
    }

    /// From now on everything is returned as it comes.
    pub(super) fn make_raw(&mut self) {
        self.raw = true;
    }

    /// Returns what is left when no more bytes will come.
    pub(super) fn take_rest(&mut self) -> Vec<u8> {
        self.scanned = 0;
        std::mem::take(&mut self.bytes)
    }

    fn scan_part(&mut self) -> Part {
        let rest = &self.bytes[self.scanned..];
        let Some((&kind, after_kind)) = rest.split_first() else {
            return Part::Incomplete;
        };
        let is_line = self.takes_lines && self.scanned == 0 && kind.is_ascii_alphabetic();
        let kinds = if self.scanned == 0 { self.first } else { KINDS };
        if !is_line && !kinds.contains(&kind) {
            return Part::NoResp;
        }
        let Some(line) = line_of(after_kind) else {
            let too_long = after_kind.len() > MAX_LINE;
            return if too_long {
                Part::NoResp
            } else {
                Part::Incomplete
            };
        };
        let mut end = self.scanned + 1 + line.len() + 2;
        let mut more = 0;
        if b"*~>%|$=!".contains(&kind) {
            let Some(length) = number(line) else {
                return Part::NoResp;
            };
            // -1 means nil.
            let length = u64::try_from(length).unwrap_or(0);
            match kind {
                b'*' | b'~' | b'>' => more = length,
                b'%' => more = length.saturating_mul(2),
                // An attribute stands before what it describes.
                b'|' => more = length.saturating_mul(2).saturating_add(1),
                _ if line.starts_with(b"-") => {}
                _ => {
                    end = usize::try_from(length).map_or(usize::MAX, |body| {
                        end.saturating_add(body).saturating_add(2)
                    })
                }
            }
        }
        if end > self.bytes.len() {
            return Part::Incomplete;
        }
        self.scanned = end;
        self.missing = (self.missing - 1).saturating_add(more);
        Part::Whole
    }
}

/// Returns the words of a request, which is an array of bulk strings or a line, or `None` for any
/// other frame.
pub(super) fn words(frame: &[u8]) -> Option<Vec<Vec<u8>>> {
    if frame.first()?.is_ascii_alphabetic() {
        let words = frame.split(|byte| b" \r\n".contains(byte));
        return Some(
            words
                .filter(|word| !word.is_empty())
                .map(<[u8]>::to_vec)
                .collect(),
        );
    }
    let line = line_of(frame.strip_prefix(b"*")?)?;
    let mut rest = &frame[1 + line.len() + 2..];
    let mut words = Vec::new();
    while !rest.is_empty() {
        let line = line_of(rest.strip_prefix(b"$")?)?;
        let length = usize::try_from(number(line)?).ok()?;
        let start = 1 + line.len() + 2;
        words.push(rest.get(start..start + length)?.to_vec());
        rest = rest.get(start + length + 2..)?;
    }
    Some(words)
}

fn line_of(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some(&bytes[..end])
}

fn number(line: &[u8]) -> Option<i64> {
    std::str::from_utf8(line).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that comes out when the bytes come in pieces of this size.
    fn cut(bytes: &[u8], size: usize) -> Vec<Next> {
        let mut frames = Frames::of_replies();
        let mut all = Vec::new();
        for piece in bytes.chunks(size) {
            frames.push(piece);
            loop {
                match frames.next() {
                    Next::Wait => break,
                    next => all.push(next),
                }
            }
        }
        assert!(frames.take_rest().is_empty());
        all
    }

    #[test]
    fn frames_of_every_kind_come_whole_whatever_the_pieces() {
        let frames: [&[u8]; 12] = [
            b"*2\r\n$4\r\nECHO\r\n$5\r\na\r\n*1\r\n",
            b"+OK\r\n",
            b"-ERR no\r\n",
            b"$-1\r\n",
            b"$0\r\n\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"*2\r\n*1\r\n:1\r\n*2\r\n_\r\n$1\r\nx\r\n",
            b"%1\r\n+k\r\n~2\r\n#t\r\n,1.5\r\n",
            b">2\r\n+message\r\n=7\r\ntxt:abc\r\n",
            b"|1\r\n+ttl\r\n:3\r\n(12345\r\n",
            b"!5\r\nERR x\r\n",
        ];
        let expected: Vec<_> = frames.map(|frame| Next::Frame(frame.to_vec())).into();
        let bytes = frames.concat();
        for size in 1..=bytes.len() {
            assert_eq!(cut(&bytes, size), expected, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_resp_comes_as_it_is() {
        for bytes in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            b"*x\r\n",
            b"*1\r\n?\r\n",
            b"$?\r\n",
        ] {
            for size in 1..=bytes.len() {
                let mut passed = Vec::new();
                for next in cut(bytes, size) {
                    match next {
                        Next::Raw(raw) => passed.extend(raw),
                        other => panic!("{other:?}"),
                    }
                }
                assert_eq!(passed, bytes);
            }
        }
        let after_a_frame = cut(b"+OK\r\nhm", 7);
        assert_eq!(
            after_a_frame,
            [Next::Frame(b"+OK\r\n".into()), Next::Raw(b"hm".into())]
        );
    }

    #[test]
    fn a_length_that_cannot_be_waits_and_does_not_overflow() {
        let huge = format!("*{}\r\n${}\r\n", i64::MAX, i64::MAX);
        let mut frames = Frames::of_replies();
        frames.push(huge.as_bytes());
        assert_eq!(frames.next(), Next::Wait);
        assert_eq!(frames.take_rest(), huge.as_bytes());
    }

    #[test]
    fn only_an_array_of_bulk_strings_or_a_line_is_a_request() {
        let mut frames = Frames::of_requests();
        let hello = b"HELLO 3 AUTH default pass\r\n";
        frames.push(&hello[..7]);
        assert_eq!(frames.next(), Next::Wait);
        frames.push(&hello[7..]);
        assert_eq!(frames.next(), Next::Frame(hello.into()));
        assert_eq!(
            words(hello).unwrap(),
            ["HELLO", "3", "AUTH", "default", "pass"].map(Vec::from)
        );
        frames.push(b"+");
        assert_eq!(frames.next(), Next::Raw(b"+".into()));
        let request = b"*2\r\n$3\r\nGET\r\n$2\r\n\r\n\r\n";
        assert_eq!(words(request).unwrap(), [&b"GET"[..], b"\r\n"]);
        assert_eq!(words(b"*0\r\n").unwrap(), Vec::<Vec<u8>>::new());
        for other in [&b""[..], b"+OK\r\n", b"*1\r\n:1\r\n", b"*1\r\n$-1\r\n"] {
            assert_eq!(words(other), None);
        }
    }
}
