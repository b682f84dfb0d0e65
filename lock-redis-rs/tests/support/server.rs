//! Starts a real redis-server on loopback.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use lock_core::Reply;

pub struct RedisServer {
    port: u16,
    args: Vec<String>,
    dir: tempfile::TempDir,
    child: Mutex<Option<Child>>,
}

pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> io::Result<()> {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            let word = word.as_ref();
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request)
    }

    pub fn receive(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream)
    }
}

#[derive(Default)]
pub struct Builder {
    args: Vec<String>,
}

impl Builder {
    pub fn arg(mut self, name: &str, value: &str) -> Self {
        self.args.push(format!("--{name}"));
        self.args.push(value.to_owned());
        self
    }

    pub fn start(self) -> io::Result<RedisServer> {
        let server = RedisServer {
            port: TcpListener::bind("127.0.0.1:0")?.local_addr()?.port(),
            args: self.args,
            dir: tempfile::tempdir()?,
            child: Mutex::new(None),
        };
        server.launch()?;
        Ok(server)
    }
}

impl RedisServer {
    pub fn start() -> io::Result<Self> {
        Builder::default().start()
    }

    pub fn builder() -> Builder {
        Builder::default()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn pid(&self) -> Option<u32> {
        self.child.lock().unwrap().as_ref().map(Child::id)
    }

    pub fn pause(&self) -> io::Result<()> {
        self.signal("-STOP")
    }

    pub fn resume(&self) -> io::Result<()> {
        self.signal("-CONT")
    }

    pub fn kill(&self) -> io::Result<()> {
        if let Some(mut child) = self.child.lock().unwrap().take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    pub fn restart(&self) -> io::Result<()> {
        self.kill()?;
        self.launch()
    }

    pub fn connect(&self) -> io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(Connection {
            stream: BufReader::new(stream),
        })
    }

    /// Sends one command on a connection of its own, as RESP2; an error reply is an `Err`.
    pub fn command<W: AsRef<[u8]>>(&self, words: &[W]) -> io::Result<Reply> {
        let mut connection = self.connect()?;
        connection.send(words)?;
        connection.receive()
    }

    fn signal(&self, signal: &str) -> io::Result<()> {
        let pid = self.pid().ok_or_else(|| io::Error::other("not running"))?;
        let status = Command::new("kill")
            .args([signal, &pid.to_string()])
            .status()?;
        status
            .success()
            .then_some(())
            .ok_or_else(|| io::Error::other("kill failed"))
    }

    fn launch(&self) -> io::Result<()> {
        let child = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .args(["--enable-debug-command", "yes"])
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        *self.child.lock().unwrap() = Some(child);
        let start = Instant::now();
        loop {
            match self.command(&["PING"]) {
                Ok(_) => return Ok(()),
                // An error reply is a sign of life too.
                Err(error) if error.kind() == io::ErrorKind::Other => return Ok(()),
                Err(error) if start.elapsed() > Duration::from_secs(20) => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

fn read_reply(stream: &mut impl BufRead) -> io::Result<Reply> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, format!("reply {line:?}"));
    let kind = line.chars().next().ok_or(io::ErrorKind::UnexpectedEof)?;
    let rest = &line[1..];
    let number = || rest.parse::<i64>().map_err(|_| invalid());
    Ok(match kind {
        '+' => Reply::Bytes(rest.into()),
        '-' => return Err(io::Error::other(rest.to_owned())),
        ':' => Reply::Int(number()?),
        '$' | '*' if number()? < 0 => Reply::Nil,
        '$' => {
            let mut bytes = vec![0; usize::try_from(number()?).map_err(|_| invalid())? + 2];
            stream.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Reply::Bytes(bytes)
        }
        '*' => Reply::Array(
            (0..number()?)
                .map(|_| read_reply(stream))
                .collect::<io::Result<_>>()?,
        ),
        _ => return Err(invalid()),
    })
}
