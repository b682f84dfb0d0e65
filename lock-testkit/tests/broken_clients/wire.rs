//! The protocol: words out, replies in.

use lock_core::Reply;

use crate::bug::Bug;

/// What the server sent: a reply, or an error line.
pub(crate) type Line = Result<Reply, String>;

pub(crate) fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Takes the first whole reply off the bytes. `None` asks for more of them.
pub(crate) fn take(bytes: &mut Vec<u8>, bug: Bug) -> Option<Line> {
    let mut rest = &bytes[..];
    let line = parse(&mut rest, bug)?;
    let used = bytes.len() - rest.len();
    bytes.drain(..used);
    Some(line)
}

fn parse(bytes: &mut &[u8], bug: Bug) -> Option<Line> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    *bytes = &bytes[end + 2..];
    let (kind, rest) = head.split_at(1);
    Some(match kind {
        "-" => Err(rest.to_owned()),
        ":" => Ok(Reply::Int(rest.parse().ok()?)),
        "_" if bug == Bug::ReadsNullAsText => Ok(Reply::Bytes(head.into_bytes())),
        "_" => Ok(Reply::Nil),
        "#" => Ok(Reply::Int(i64::from(rest == "t"))),
        "$" => match rest.parse::<usize>() {
            Ok(length) => {
                let body = bytes.get(..length + 2)?;
                *bytes = &bytes[length + 2..];
                Ok(Reply::Bytes(body[..length].to_vec()))
            }
            Err(_) if bug == Bug::ReadsNilAsEmpty => Ok(Reply::Bytes(Vec::new())),
            Err(_) => Ok(Reply::Nil),
        },
        "*" | "%" => {
            let parts: usize = rest.parse().ok()?;
            let parts = if kind == "%" { 2 * parts } else { parts };
            let parts = (0..parts).map(|_| parse(bytes, bug));
            parts.collect::<Option<Result<_, _>>>()?.map(Reply::Array)
        }
        _ => Ok(Reply::Bytes(rest.as_bytes().to_vec())),
    })
}
