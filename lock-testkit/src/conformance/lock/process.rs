//! The second process of a check, seen from the first.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{self, Command, Stdio};
use std::thread;

use futures::StreamExt;
use futures::channel::mpsc;

use super::child::{Again, PART, Part, RUN, SAYS, WORLD};
use crate::conformance::{CheckResult, Failure};

/// A process that was started. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    words: mpsc::UnboundedReceiver<String>,
}

impl Child {
    pub(crate) fn start(again: Again, world: &str, part: &Part) -> CheckResult<Self> {
        let program =
            env::current_exe().map_err(|error| Failure::setup("find this program", &error))?;
        let mut command = Command::new(program);
        match again {
            Again::Test(case) => {
                let path = match case.module.split_once("::") {
                    Some((_crate, module)) => format!("{module}::{}", case.name),
                    None => case.name.to_owned(),
                };
                command.args([&path, "--exact", "--include-ignored", "--nocapture"]);
            }
            Again::Nothing => {
                let error = io::Error::other("a check that is run by itself has none");
                return Err(Failure::setup("start a second process", &error));
            }
            Again::Program(run) => {
                command.env(RUN, run.to_string());
            }
        }
        command.env(PART, part.to_text()).env(WORLD, world);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let spawned = command.spawn();
        let mut process =
            spawned.map_err(|error| Failure::setup("start this program again", &error))?;
        let (sender, words) = mpsc::unbounded();
        if let Some(out) = process.stdout.take() {
            thread::spawn(move || {
                let lines = BufReader::new(out).lines().map_while(Result::ok);
                for line in lines {
                    if let Some(words) = line.strip_prefix(SAYS)
                        && sender.unbounded_send(words.to_owned()).is_err()
                    {
                        return;
                    }
                }
            });
        }
        Ok(Self { process, words })
    }

    /// Waits until the child says something, and fails unless it is this.
    pub(crate) async fn expect(&mut self, expected: &str) -> CheckResult {
        match self.words.next().await {
            Some(words) if words == expected => Ok(()),
            Some(words) => Err(Failure::new(
                format!("the other process to say {expected:?}"),
                format!("{words:?}"),
            )),
            None => Err(Failure::new(
                format!("the other process to say {expected:?}"),
                "its end, without a word: it has to come to the same test or `run_all` again",
            )),
        }
    }

    /// Says the word for which the child waits.
    pub(crate) fn go(&mut self) -> CheckResult {
        let said = match &mut self.process.stdin {
            Some(input) => input.write_all(b"go\n").and_then(|()| input.flush()),
            None => Err(io::Error::other("its input is closed")),
        };
        said.map_err(|error| Failure::setup("speak to the other process", &error))
    }

    /// Kills the child, without a chance to clean up.
    pub(crate) fn kill(&mut self) -> CheckResult {
        let killed = self.process.kill().and_then(|()| self.process.wait());
        match killed {
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::setup("kill a process", &error)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // The child ends by itself when its input does, so nothing depends on this.
        drop(self.kill());
    }
}
