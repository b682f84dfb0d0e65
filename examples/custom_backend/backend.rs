//! A hand-made Redis client, and how the keeper of connections uses it.

use std::{convert::Infallible, io, time::Duration};

use futures::future::{BoxFuture, pending};
use lock_core::backend::{Client, Connection, Opened};
use lock_core::{Command, NodeError, Reply};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};

type Answer = Result<Reply, NodeError>;
type Request = (Vec<u8>, oneshot::Sender<Answer>);
type Requests = mpsc::UnboundedReceiver<Request>;

/// A server, by its address `host:port`.
pub(crate) struct MyClient(pub(crate) String);
pub(crate) struct MyConnection(mpsc::UnboundedSender<Request>);

impl Client for MyClient {
    type Connection = MyConnection;

    fn label(&self) -> &str {
        &self.0
    }

    async fn connect(&self, _within: Duration) -> Result<Opened<MyConnection>, NodeError> {
        let failed = |error| NodeError::not_sent("cannot connect").with_source(error);
        let stream = TcpStream::connect(&self.0).await.map_err(failed)?;
        let (requests, receiver) = mpsc::unbounded_channel();
        Ok(Opened::new(MyConnection(requests), async {
            let Err(error) = exchange(stream, receiver).await;
            NodeError::connection("connection lost").with_source(error)
        }))
    }
}

impl Connection for MyConnection {
    fn send(&self, command: &Command) -> impl Future<Output = Answer> + Send + 'static {
        let words = command.args();
        let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            let length = format!("${}\r\n", word.len());
            bytes.extend([length.as_bytes(), word, b"\r\n"].concat());
        }
        let requests = self.0.clone();
        async move {
            let (reply_to, answer) = oneshot::channel();
            requests.send((bytes, reply_to)).ok();
            // Where the driver has ended, the keeper ends this call, and tells why.
            match answer.await {
                Ok(answer) => answer,
                Err(_) => pending().await,
            }
        }
    }
}

/// Writes requests, and gives each reply to the oldest of them, until the connection breaks.
async fn exchange(mut stream: TcpStream, mut requests: Requests) -> io::Result<Infallible> {
    let (reader, mut writer) = stream.split();
    let (written, mut unanswered) = mpsc::unbounded_channel();
    let write = async {
        loop {
            let request = requests.recv().await;
            let (bytes, reply_to) = request.ok_or(io::ErrorKind::BrokenPipe)?;
            written.send(reply_to).map_err(io::Error::other)?;
            writer.write_all(&bytes).await?;
        }
    };
    let mut reader = BufReader::new(reader);
    let read = async {
        loop {
            let answer = read(&mut reader).await?;
            let oldest = unanswered.try_recv().map_err(io::Error::other)?;
            // A caller that gave up does not get it.
            oldest.send(answer).ok();
        }
    };
    tokio::select! { end = write => end, end = read => end }
}

/// Reads one reply of RESP2. It trusts the server: a client for others limits lengths and how deep arrays lie
/// in arrays, or one node of three may fill the memory of all.
fn read<R: AsyncBufRead + Unpin + Send>(stream: &mut R) -> BoxFuture<'_, io::Result<Answer>> {
    Box::pin(async move {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let (kind, rest) = line.trim_end().split_at_checked(1).unwrap_or_default();
        let length = || rest.parse::<usize>().map_err(io::Error::other);
        Ok(match kind {
            "+" => Ok(Reply::Bytes(rest.into())),
            "-" => Err(NodeError::server(rest)),
            ":" => Ok(Reply::Int(rest.parse().map_err(io::Error::other)?)),
            "$" | "*" if rest == "-1" => Ok(Reply::Nil),
            "$" => {
                let mut bytes = vec![0; length()? + 2];
                stream.read_exact(&mut bytes).await?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Bytes(bytes))
            }
            "*" => {
                let mut items = Vec::new();
                for _ in 0..length()? {
                    items.push(read(stream).await?.map_err(io::Error::other)?);
                }
                Ok(Reply::Array(items))
            }
            "" => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => return Err(io::Error::other(format!("malformed reply: {line:?}"))),
        })
    })
}
