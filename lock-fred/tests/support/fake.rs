//! A server that answers what a test tells it to, and counts what reaches it.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What the server does with a command.
pub enum Act {
    /// Sends these bytes.
    Answer(&'static str),
    /// Says nothing.
    Silence,
    /// Closes the connection.
    Close,
}

/// Words of one command, and the number of the connection that it came over, from 0.
type Script = dyn Fn(usize, &[Vec<u8>]) -> Act + Send + Sync;

pub struct FakeServer {
    port: u16,
    accepted: Arc<AtomicUsize>,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    _task: tokio::task::JoinSet<()>,
}

impl FakeServer {
    /// A server that says OK to what fred sends while it connects; the script sees all the rest.
    pub async fn start(
        script: impl Fn(usize, &[Vec<u8>]) -> Act + Send + Sync + 'static,
    ) -> FakeServer {
        Self::start_raw(move |connection, words| match words {
            words if is_handshake(words) => Act::Answer("+OK\r\n"),
            words => script(connection, words),
        })
        .await
    }

    /// A server whose script sees everything.
    pub async fn start_raw(
        script: impl Fn(usize, &[Vec<u8>]) -> Act + Send + Sync + 'static,
    ) -> FakeServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let received = Arc::new(Mutex::new(Vec::new()));
        let script: Arc<Script> = Arc::new(script);
        let mut task = tokio::task::JoinSet::new();
        let (count, log) = (Arc::clone(&accepted), Arc::clone(&received));
        task.spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let number = count.fetch_add(1, Ordering::SeqCst);
                let (script, log) = (Arc::clone(&script), Arc::clone(&log));
                connections.spawn(async move {
                    serve(stream, number, &script, &log).await.ok();
                });
            }
        });
        Self {
            port,
            accepted,
            received,
            _task: task,
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections were made.
    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// The names of the commands that came, in order, without those of the handshake.
    pub fn received(&self) -> Vec<String> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        self.received.lock().unwrap().iter().map(text).collect()
    }
}

fn is_handshake(words: &[Vec<u8>]) -> bool {
    matches!(words[0].as_slice(), b"PING" | b"CLIENT" | b"INFO")
}

async fn serve(
    stream: TcpStream,
    number: usize,
    script: &Arc<Script>,
    log: &Mutex<Vec<Vec<u8>>>,
) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = read_command(&mut stream).await?;
        if !is_handshake(&words) {
            log.lock().unwrap().push(words[0].clone());
        }
        match script(number, &words) {
            Act::Answer(text) => stream.write_all(text.as_bytes()).await?,
            Act::Silence => {}
            Act::Close => return Ok(()),
        }
    }
}

async fn read_command(stream: &mut BufReader<TcpStream>) -> io::Result<Vec<Vec<u8>>> {
    // fred sends its HELLO as a line of words.
    if stream.fill_buf().await?.first() == Some(&b'H') {
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        return Ok(line.split_whitespace().map(Vec::from).collect());
    }
    let count = read_number(stream).await?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut word = vec![0; read_number(stream).await? + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

/// The number of a line such as `*3` or `$5`.
async fn read_number(stream: &mut BufReader<TcpStream>) -> io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let number = line.trim_end().get(1..).and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
