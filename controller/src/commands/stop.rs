//! `drover stop`: asks the controller of a run to end it, as Ctrl-C at its terminal does.

use drover_model::RunId;

use super::{
    controller::{Controller, choose, is_free, reach},
    open::open,
};
use crate::{
    Context,
    args::StopArgs,
    driver::chain,
    error::Failure,
    exit::ExitStatus,
    live::{Client, FollowError, Sight, stopping},
};

/// Asks, and waits for the answer; with `--wait`, for the end.
pub fn stop(args: &StopArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let (results, store) = open(context)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::infrastructure(&error))?.block_on(async {
        let Some(run) = choose(args.run.as_deref(), None, &store, &results).await? else {
            return Err(Failure::new(ExitStatus::Usage, "no run is going on; `drover list` shows all"));
        };
        match reach(run, &store, &results).await? {
            Controller::Live(client) => {
                let asked = ask(client, run, args.wait, context).await;
                let ended = asked.map_err(|error| Failure::new(ExitStatus::Infrastructure, chain(&error)))?;
                if ended {
                    is_free(&results).await?;
                    context.screen.say(&format!("run {run} has ended"));
                }
                Ok(ExitStatus::Ok)
            }
            Controller::Ended => {
                context.screen.say(&format!("run {run} has ended already"));
                Ok(ExitStatus::Ok)
            }
            Controller::Gone(text) => Err(Failure::new(ExitStatus::Infrastructure, text)),
        }
    })
}

/// Gives whether the run has ended.
async fn ask(mut client: Client, run: RunId, wait: bool, context: &Context) -> Result<bool, FollowError> {
    client.stop().await?;
    while let Some(sight) = client.next().await? {
        match sight {
            Sight::Stopping { times } => {
                context.screen.say(&format!("run {run} is {}", stopping(times)));
                if !wait {
                    context.screen.say(&format!("`drover attach {run}` shows how it ends"));
                    return Ok(false);
                }
            }
            Sight::Over { .. } => break,
            _ => {}
        }
    }
    Ok(true)
}
