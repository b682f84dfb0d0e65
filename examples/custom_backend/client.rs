//! A hand-made Redis client: it writes commands, and reads replies in the same order.
//!
//! It stands for any client that you have. All that a backend needs of one is a way to send the
//! words of a command, and what the server answered.

use std::io;
use std::pin::Pin;

use lock_core::Reply;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// An error reply is an answer too, though not to what was asked.
pub(crate) type Answer = Result<Reply, String>;

/// The bytes of a command.
pub(crate) fn encode(words: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words.iter().map(AsRef::as_ref) {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Reads one reply of RESP2.
pub(crate) fn read<'a>(
    stream: &'a mut (impl AsyncBufRead + Unpin + Send),
) -> Pin<Box<dyn Future<Output = io::Result<Answer>> + Send + 'a>> {
    Box::pin(async move {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end_matches("\r\n");
        let (kind, rest) = line.split_at_checked(1).unwrap_or_default();
        Ok(match kind {
            "+" => Ok(Reply::Bytes(rest.into())),
            "-" => Err(rest.to_owned()),
            ":" => Ok(Reply::Int(number(rest)?)),
            "$" | "*" if rest == "-1" => Ok(Reply::Nil),
            "$" => {
                let mut bytes = vec![0; number::<usize>(rest)? + 2];
                stream.read_exact(&mut bytes).await?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Bytes(bytes))
            }
            "*" => {
                let mut items = Vec::new();
                for _ in 0..number::<usize>(rest)? {
                    items.push(read(stream).await?);
                }
                let items: Result<_, String> = items.into_iter().collect();
                items.map(Reply::Array)
            }
            _ => return Err(malformed(line)),
        })
    })
}

fn number<T: std::str::FromStr>(text: &str) -> io::Result<T> {
    text.parse().map_err(|_| malformed(text))
}

fn malformed(line: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("malformed reply: {line:?}"),
    )
}
