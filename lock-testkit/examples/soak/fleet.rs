//! The processes that hold locks, seen by the soak.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::BoxError;
use crate::args::{Backend, ChildArgs, SoakArgs};
use crate::event::Event;
use crate::judge::Record;
use crate::usage::Usage;

/// How long a child may take to come to rest, or to end: as long as its last request may wait, and a machine
/// that is busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The children.
pub(crate) struct Fleet {
    children: Vec<Member>,
    pub(crate) record: Arc<Mutex<Record>>,
}

struct Member {
    backend: Backend,
    process: Mutex<Child>,
    pid: Pid,
    /// Its end tells the child to end.
    input: Mutex<Option<ChildStdin>>,
    at_rest: Mutex<Receiver<Usage>>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Fleet {
    pub(crate) fn start(args: &SoakArgs, nodes: &[String]) -> Result<Self, BoxError> {
        let record = Arc::default();
        let log = match &args.log {
            Some(path) => Some(Arc::new(Mutex::new(BufWriter::new(File::create(path)?)))),
            None => None,
        };
        let backends = args.backends.iter().copied().cycle().take(args.children);
        let children = (0..).zip(backends).map(|(number, backend)| {
            let child = ChildArgs {
                number,
                backend,
                seed: args.seed.wrapping_add(number),
                rules: args.rules,
                nodes: nodes.to_vec(),
            };
            Member::start(&child, Arc::clone(&record), log.clone())
        });
        Ok(Self {
            children: children.collect::<Result<_, _>>()?,
            record,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.children.len()
    }

    pub(crate) fn backend(&self, child: usize) -> Backend {
        self.children[child].backend
    }

    /// Stops a child for so long, in the middle of whatever it does.
    pub(crate) fn stop(&self, child: usize, length: Duration) -> Result<(), BoxError> {
        let pid = self.children[child].pid;
        kill_process(pid, Signal::STOP)?;
        thread::sleep(length);
        kill_process(pid, Signal::CONT)?;
        Ok(())
    }

    /// Tells all children to work.
    pub(crate) fn work(&self) -> Result<(), BoxError> {
        self.children
            .iter()
            .try_for_each(|child| child.tell("work"))
    }

    /// Tells all children to rest, and waits until they do.
    pub(crate) fn rest(&self) -> Result<Vec<Usage>, BoxError> {
        self.children
            .iter()
            .try_for_each(|child| child.tell("rest"))?;
        let rests = self.children.iter().enumerate().map(|(number, child)| {
            let at_rest = child.at_rest.lock().map_err(|error| error.to_string())?;
            at_rest.recv_timeout(PATIENCE).map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    format!("child {number} has not come to rest in {PATIENCE:?}").into()
                }
                RecvTimeoutError::Disconnected => format!("child {number} has ended").into(),
            })
        });
        rests.collect()
    }

    /// Tells all children to end, and waits until they have.
    pub(crate) fn end(&self) -> Result<(), BoxError> {
        for child in &self.children {
            child
                .input
                .lock()
                .map_err(|error| error.to_string())?
                .take();
        }
        let start = Instant::now();
        for (number, child) in self.children.iter().enumerate() {
            let mut process = child.process.lock().map_err(|error| error.to_string())?;
            let status = loop {
                if let Some(status) = process.try_wait()? {
                    break status;
                }
                if start.elapsed() > PATIENCE {
                    return Err(format!("child {number} has not ended in {PATIENCE:?}").into());
                }
                thread::sleep(Duration::from_millis(20));
            };
            if !status.success() {
                return Err(format!("child {number} ended with {status}").into());
            }
            // All that it has said is to be judged.
            let mut listener = child.listener.lock().map_err(|error| error.to_string())?;
            if let Some(Err(_)) = listener.take().map(JoinHandle::join) {
                return Err(format!("the listener to child {number} panicked").into());
            }
        }
        Ok(())
    }
}

impl Member {
    fn start(
        args: &ChildArgs,
        record: Arc<Mutex<Record>>,
        log: Option<Arc<Mutex<BufWriter<File>>>>,
    ) -> Result<Self, BoxError> {
        let mut process = Command::new(std::env::current_exe()?)
            .args(args.to_words())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take();
        let output = process.stdout.take().ok_or("a child without an output")?;
        let (sender, at_rest) = channel();
        let number = args.number;
        let listener = thread::spawn(move || listen(number, output, &record, log, &sender));
        Ok(Self {
            backend: args.backend,
            pid: Pid::from_child(&process),
            process: Mutex::new(process),
            input: Mutex::new(input),
            at_rest: Mutex::new(at_rest),
            listener: Mutex::new(Some(listener)),
        })
    }

    fn tell(&self, word: &str) -> Result<(), BoxError> {
        let mut input = self.input.lock().map_err(|error| error.to_string())?;
        let input = input.as_mut().ok_or("the child was told to end")?;
        writeln!(input, "{word}")?;
        Ok(input.flush()?)
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(|e| e.into_inner());
        // One that has ended cannot be killed, and need not be.
        process.kill().ok();
        process.wait().ok();
    }
}

/// Writes down what a child says, until it has ended.
fn listen(
    child: u64,
    output: ChildStdout,
    record: &Mutex<Record>,
    log: Option<Arc<Mutex<BufWriter<File>>>>,
    at_rest: &Sender<Usage>,
) {
    for line in BufReader::new(output).lines() {
        let event = line
            .map_err(|error| error.to_string())
            .and_then(|line| {
                if let Some(log) = &log {
                    let mut log = log.lock().map_err(|error| error.to_string())?;
                    writeln!(log, "{child} {line}").map_err(|error| error.to_string())?;
                }
                line.parse::<Event>()
            })
            .unwrap_or_else(|error| Event::Failed(format!("said what is not understood: {error}")));
        if let Event::AtRest(usage) = event {
            // Without a listener, the soak is about to end.
            at_rest.send(usage).ok();
        }
        record
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .take(child, &event);
    }
}
