//! `drover attach`: the progress of a run in another terminal, and how a run ended.

use drover_model::RunId;
use drover_store::{ResultsDir, RunState, SqliteStore, Store};
use tokio::signal::ctrl_c;

use super::{
    controller::{Controller, choose, gone, reach},
    latest_points::latest_points,
    open::open,
    report::{print_table, status_of},
};
use crate::{
    Context,
    args::AttachArgs,
    driver::chain,
    error::Failure,
    exit::ExitStatus,
    live::{Client, FollowError, Hello, Sight, View, stopping},
    screen::Screen,
    time::utc,
};

/// How watching ended.
enum Watched {
    /// The user has seen enough.
    Left,
    /// The controller is not there any more; what it said of why it ends early.
    Over(Option<String>),
}

/// Shows a run until it ends or the user leaves it alone. The exit status is that of its verdicts.
pub fn attach(args: &AttachArgs, context: &Context) -> Result<ExitStatus, Failure> {
    let (results, store) = open(context)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (run, watched) = runtime
        .map_err(|error| Failure::infrastructure(&error))?
        .block_on(follow(args, &results, &store, context))?;
    match watched {
        Watched::Left => {
            context.screen.say(&format!("run {run} goes on; `drover attach {run}` shows it again"));
            Ok(ExitStatus::Interrupted)
        }
        Watched::Over(why) => {
            if !args.no_report {
                print_table(&store, run, context)?;
                context.screen.say(&format!("raw outputs and log: {}", results.run_path(run).display()));
            }
            end(run, why, &store, context)
        }
    }
}

async fn follow(
    args: &AttachArgs,
    results: &ResultsDir,
    store: &SqliteStore,
    context: &Context,
) -> Result<(RunId, Watched), Failure> {
    let chosen = choose(args.run.as_deref(), Some("last"), store, results).await?;
    let run = chosen.ok_or_else(|| Failure::new(ExitStatus::Usage, "there are no runs in this store yet"))?;
    match reach(run, store, results).await? {
        Controller::Live(client) => {
            let mut client = client;
            let latest = latest_points(run, store, results)?;
            let watched = watch(&mut client, &latest, &context.screen).await;
            let watched = watched.map_err(|error| Failure::new(ExitStatus::Infrastructure, chain(&error)))?;
            Ok((run, watched))
        }
        Controller::Ended => Ok((run, Watched::Over(None))),
        Controller::Gone(text) => Ok((run, Watched::Over(Some(text)))),
    }
}

/// Shows what a controller tells.
async fn watch(client: &mut Client, latest: &[String], screen: &Screen) -> Result<Watched, FollowError> {
    let mut view: Option<View> = None;
    let watched = loop {
        let sight = tokio::select! {
            sight = client.next() => sight?,
            _ = ctrl_c() => break Watched::Left,
        };
        match (sight, &mut view) {
            (None, _) => break Watched::Over(None),
            (Some(Sight::Over { why }), _) => break Watched::Over(why),
            (Some(Sight::Hello(hello)), none) => *none = Some(greet(&hello, latest, screen)),
            // Nothing comes before the greeting.
            (Some(_), None) => {}
            (Some(sight), Some(view)) => show(sight, view),
        }
    };
    view.iter_mut().for_each(View::finish);
    Ok(watched)
}

fn greet(hello: &Hello, latest: &[String], screen: &Screen) -> View {
    let Hello { run, name, pid, standing, .. } = hello;
    let mut text = format!("run {run}: {name}, {}/{} trials", standing.finished, standing.total);
    for more in [Some(standing.summary()).filter(|text| !text.is_empty()), standing.current.clone()]
        .into_iter()
        .flatten()
    {
        text.push_str(", ");
        text.push_str(&more);
    }
    screen.say(&text);
    screen.say(&format!("driven by process {pid}; Ctrl-C leaves it alone, `drover stop {run}` ends it"));
    latest.iter().for_each(|line| screen.say(line));
    let view = View::new(screen.clone(), standing.total, standing.finished);
    view.stands(standing);
    if hello.stopping > 0 {
        view.notice(stopping(hello.stopping));
    }
    view
}

fn show(sight: Sight, view: &mut View) {
    match sight {
        Sight::Begun { standing } => view.stands(&standing),
        Sight::Goes { standing, is_line } => view.goes(&standing, is_line),
        Sight::Ended { standing, line } => {
            view.stands(&standing);
            view.line(&line, standing.finished, standing.total);
        }
        Sight::Notice { text } => view.notice(&text),
        Sight::Stopping { times } => view.notice(stopping(times)),
        Sight::Missed { count } => view.missed(count),
        Sight::Hello(_) | Sight::Over { .. } => {}
    }
}

/// Says how the run stands now that nobody drives it.
fn end(
    run: RunId,
    why: Option<String>,
    store: &SqliteStore,
    context: &Context,
) -> Result<ExitStatus, Failure> {
    let results = store.load_table(run).map_err(|error| Failure::infrastructure(&error))?;
    let at = results.ended_unix_ms.map(utc).unwrap_or_default();
    let text = match results.state {
        RunState::Finished => format!("run {run} finished {at}"),
        RunState::Interrupted => {
            let why = why.unwrap_or_else(|| "it was ended before all trials had their verdict".to_owned());
            format!("run {run} ended early {at}: {why}; `drover resume {run}` goes on")
        }
        RunState::Open => why.unwrap_or_else(|| gone(run)),
    };
    if results.state == RunState::Finished {
        context.screen.say(&text)
    } else {
        context.screen.complain(&text)
    }
    match status_of(&results)? {
        ExitStatus::Ok if results.state != RunState::Finished => Ok(ExitStatus::Incomplete),
        status => Ok(status),
    }
}
