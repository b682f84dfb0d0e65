//! Instances as processes of this program, over real servers.

use std::io::{Read, Write};
use std::process::{ExitCode, Stdio};

use futures::StreamExt;
use futures::channel::mpsc;

use crate::BoxError;
use crate::args::Args;
use crate::instance;
use crate::nodes;
use crate::plan::{Me, Plan};
use crate::report::{Ending, Message, Messages, Report, Teller};
use crate::rt::{self, Child, ChildStdin, ChildStdout, Command, Tasks};

/// Starts a process for each instance. Dropping the set ends them.
pub(crate) fn start(args: &Args, plan: &Plan) -> Result<(Messages, Tasks<()>), BoxError> {
    let (teller, messages) = mpsc::unbounded();
    let mut running = Tasks::new();
    for number in 1..=args.instances {
        let mut child = Command::new(std::env::current_exe()?)
            .args(args.for_instance(number, plan))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let pipes = pipes.ok_or("an instance has no pipes")?;
        running.spawn(listen(number, child, pipes, teller.clone()));
    }
    Ok((messages, running))
}

/// Passes on what an instance reports, and how it ended.
async fn listen(
    number: usize,
    mut child: Child,
    (stdin, stdout): (ChildStdin, ChildStdout),
    teller: Teller,
) {
    let ending = match pass_on(number, stdout, &teller).await {
        Ok(()) => match rt::end_of(&mut child).await {
            Ok(status) if status.success() => Ending::AsPlanned,
            Ok(status) => Ending::TooEarly(status.to_string()),
            Err(error) => Ending::TooEarly(error.to_string()),
        },
        Err(error) => Ending::TooEarly(error.to_string()),
    };
    // If nobody listens any more, the program is about to end.
    teller.unbounded_send((number, Message::Ended(ending))).ok();
    // Until here the instance's stdin was open; its end tells the instance to end.
    drop(stdin);
}

async fn pass_on(number: usize, stdout: ChildStdout, teller: &Teller) -> Result<(), BoxError> {
    let mut lines = rt::lines(stdout);
    while let Some(line) = lines.next().await {
        let report = line?.parse::<Report>()?;
        teller.unbounded_send((number, Message::Report(report)))?;
    }
    Ok(())
}

/// What an instance's own process does.
pub(crate) async fn be_one(urls: &[String], plan: &Plan, me: Me) -> Result<ExitCode, BoxError> {
    // An instance must not outlive the starter, whose end closes our stdin.
    std::thread::spawn(|| {
        let ended = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(if ended.is_ok() { 0 } else { 1 });
    });
    let locks = nodes::locks(nodes::connect(urls)?)?;
    let mut stdout = std::io::stdout();
    instance::run(&*locks, plan, me, |report| {
        writeln!(stdout, "{report}")?;
        Ok(stdout.flush()?)
    })
    .await?;
    Ok(ExitCode::SUCCESS)
}
