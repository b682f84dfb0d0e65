//! A peer in another language: a program that reads what to do, a line each, and answers with a line:
//! `yes`, `no`, `counted N` or `error TEXT`. The lines are those of [`Ask`].

use std::process::Stdio;
use std::time::Duration;

use async_trait::async_trait;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::peer::{Ask, Peer, Told};

/// Long enough to tell a hang from a slow machine.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Program {
    // Killed when it is dropped.
    _child: Child,
    stdin: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Program {
    /// Its stderr is ours.
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let stdin = child.stdin.take().expect("it is piped");
        let stdout = child.stdout.take().expect("it is piped");
        Self {
            _child: child,
            stdin,
            answers: BufReader::new(stdout).lines(),
        }
    }
}

#[async_trait]
impl Peer for Program {
    async fn ask(&mut self, ask: Ask<'_>) -> Told {
        let line = format!("{ask}\n");
        let exchange = async {
            self.stdin.write_all(line.as_bytes()).await?;
            self.answers.next_line().await
        };
        let answer = match timeout(PATIENCE, exchange).await {
            Ok(Ok(Some(answer))) => answer,
            Ok(Ok(None)) => panic!("the peer ended at: {ask}"),
            Ok(Err(error)) => panic!("the peer is gone at: {ask}: {error}"),
            Err(_) => panic!("the peer does not answer within {PATIENCE:?}: {ask}"),
        };
        match answer.split_once(' ') {
            None if answer == "yes" => Told::Yes,
            None if answer == "no" => Told::No,
            Some(("counted", rounds)) => Told::Counted(rounds.parse().expect("a number")),
            _ => panic!("the peer answers `{answer}` to: {ask}"),
        }
    }
}
