//! Servers that do what a test tells them to, and count what reaches them.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

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

/// A server that understands commands.
pub struct FakeServer {
    raw: RawServer,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl FakeServer {
    /// A server that says OK to what a client sends while it connects; the script sees all the rest.
    pub fn start(script: impl Fn(usize, &[Vec<u8>]) -> Act + Send + Sync + 'static) -> FakeServer {
        Self::start_raw(move |connection, words| {
            if is_handshake(words) {
                Act::Answer("+OK\r\n")
            } else {
                script(connection, words)
            }
        })
    }

    /// A server whose script sees everything.
    pub fn start_raw(
        script: impl Fn(usize, &[Vec<u8>]) -> Act + Send + Sync + 'static,
    ) -> FakeServer {
        let received = Arc::default();
        let receiving = Arc::clone(&received);
        let raw = RawServer::start(move |number, stream| {
            serve(stream, number, &script, &receiving).ok();
        });
        Self { raw, received }
    }

    pub fn url(&self) -> String {
        self.raw.url()
    }

    pub fn port(&self) -> u16 {
        self.raw.port
    }

    /// How many connections were made.
    pub fn accepted(&self) -> usize {
        self.raw.shared.accepted.load(Ordering::SeqCst)
    }

    /// The names of the commands that came, in order, without those of the handshake.
    pub fn received(&self) -> Vec<String> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        self.received.lock().unwrap().iter().map(text).collect()
    }
}

fn serve(
    mut stream: &TcpStream,
    number: usize,
    script: &Script,
    received: &Mutex<Vec<Vec<u8>>>,
) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    loop {
        let words = read_command(&mut input)?;
        if !is_handshake(&words) {
            received.lock().unwrap().push(words[0].clone());
        }
        match script(number, &words) {
            Act::Answer(text) => stream.write_all(text.as_bytes())?,
            Act::Silence => {}
            Act::Close => return Ok(()),
        }
    }
}

/// What a [`RawServer`] does with a connection, which has a number, from 0.
type Serve = dyn Fn(usize, &TcpStream) + Send + Sync;

/// A server that does with each connection what it likes, and closes it then.
///
/// It has threads of its own, so that it serves tests on any runtime. Its connections end when it
/// is dropped.
pub struct RawServer {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    serve: Box<Serve>,
    accepted: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
    is_over: AtomicBool,
}

impl RawServer {
    pub fn start(serve: impl Fn(usize, &TcpStream) + Send + Sync + 'static) -> RawServer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            serve: Box::new(serve),
            accepted: AtomicUsize::new(0),
            connections: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        // It wakes the one that accepts.
        TcpStream::connect(("127.0.0.1", self.port)).ok();
        for connection in self.shared.connections.lock().unwrap().iter() {
            connection.shutdown(Shutdown::Both).ok();
        }
    }
}

impl Shared {
    fn accept(self: Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let mut connections = self.connections.lock().unwrap();
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            connections.push(stream.try_clone().unwrap());
            drop(connections);
            let number = self.accepted.fetch_add(1, Ordering::SeqCst);
            let shared = Arc::clone(&self);
            thread::spawn(move || {
                (shared.serve)(number, &stream);
                // Its clone would keep it open.
                stream.shutdown(Shutdown::Both).ok();
            });
        }
    }
}

/// Says OK to what a client sends while it connects, and returns after the first other command.
pub fn answer_handshake(mut stream: &TcpStream) -> io::Result<()> {
    let mut input = BufReader::new(stream);
    while is_handshake(&read_command(&mut input)?) {
        stream.write_all(b"+OK\r\n")?;
    }
    Ok(())
}

/// Sends this, and then the same letter until the connection ends.
pub fn send_endlessly(mut stream: &TcpStream, begin: &str, then: &str) {
    let piece = then.repeat(16 * 1024);
    let mut sent = stream.write_all(begin.as_bytes());
    while sent.is_ok() {
        sent = stream.write_all(piece.as_bytes());
    }
}

fn is_handshake(words: &[Vec<u8>]) -> bool {
    matches!(words[0].as_slice(), b"PING" | b"CLIENT" | b"INFO")
}

fn read_command(stream: &mut impl BufRead) -> io::Result<Vec<Vec<u8>>> {
    // fred sends its HELLO as a line of words.
    if stream.fill_buf()?.first() == Some(&b'H') {
        let mut line = String::new();
        stream.read_line(&mut line)?;
        return Ok(line.split_whitespace().map(Vec::from).collect());
    }
    let count = read_number(stream)?;
    let mut words = Vec::with_capacity(count);
    for _ in 0..count {
        let mut word = vec![0; read_number(stream)? + 2];
        stream.read_exact(&mut word)?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

/// The number of a line such as `*3` or `$5`.
fn read_number(stream: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let number = line.trim_end().get(1..).and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
