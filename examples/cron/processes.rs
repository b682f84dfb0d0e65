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
use crate::rt::{self, ChildStdout, Command, Tasks};

/// Starts a process for each instance. Dropping the set ends them.
pub(crate) fn start(args: &Args, plan: &Plan) -> (Messages, Tasks<()>) {
    let (teller, messages) = mpsc::unbounded();
    let mut running = Tasks::new();
    for number in 1..=args.instances {
        let (args, plan, teller) = (args.clone(), plan.clone(), teller.clone());
        running.spawn(async move {
            let ending = match live(number, &args, &plan, &teller).await {
                Ok(()) => Ending::AsPlanned,
                Err(error) => Ending::TooEarly(error.to_string()),
            };
            // If nobody listens any more, the program is about to end.
            teller.unbounded_send((number, Message::Ended(ending))).ok();
        });
    }
    (messages, running)
}

/// All lives of an instance, each of them in a process.
async fn live(number: usize, args: &Args, plan: &Plan, teller: &Teller) -> Result<(), BoxError> {
    for (life, span) in plan.lives().into_iter().enumerate() {
        if let Some(start) = span.from {
            rt::sleep(instance::until(start)).await;
        }
        let mut child = Command::new(std::env::current_exe()?)
            .args(args.for_instance(number, life, plan))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        // Until its end, the instance's stdin is open; the end of that tells it to end.
        let _stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or("an instance has no pipes")?;
        pass_on(number, stdout, teller).await?;
        let status = rt::end_of(&mut child).await?;
        if !status.success() {
            return Err(status.to_string().into());
        }
    }
    Ok(())
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
