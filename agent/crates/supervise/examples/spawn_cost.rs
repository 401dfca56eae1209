//! Measures what supervision adds to starting and ending `/bin/true`: the standard library's `posix_spawn` against every containment,
//! interleaved in rounds. Prints medians and ratios. For developers; run it with `--release`, on a busy machine under `chrt -f 1`. An
//! argument sets the number of rounds.

use std::{
    error::Error,
    fs::File,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use drover_supervise::{Config, Containment, Launch, Supervisor, clean_env};
use rustix::event::{PollFd, PollFlags};

const STARTS: u32 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    // An agent has some memory of its own; a copying start pays for it.
    let ballast: Vec<u8> = (0..16_u32 << 20).map(|n| n.to_le_bytes()[0]).collect();
    let dir = tempfile::tempdir()?;
    let mut supervisors = Vec::new();
    for containment in [Containment::Cgroup2, Containment::Cgroup1, Containment::ProcessGroup] {
        let mut config = Config::new(format!("cost-{}", std::process::id()), dir.path().to_owned());
        config.containment = Some(containment);
        match Supervisor::new(config) {
            Ok(supervisor) => supervisors.push(supervisor),
            Err(error) => println!("{error}"),
        }
    }
    let mut names = vec!["posix_spawn".to_owned()];
    let mut times: Vec<Vec<Duration>> = vec![Vec::new()];
    for supervisor in &supervisors {
        for hold in ["", ", held"] {
            names.push(format!("{}{hold}", supervisor.containment().as_str()));
            times.push(Vec::new());
        }
    }
    let rounds: u32 = std::env::args().nth(1).map_or(Ok(21), |rounds| rounds.parse())?;
    for _ in 0..rounds {
        let mut measured = vec![per_start(bare)?];
        for supervisor in &supervisors {
            measured.push(per_start(|| supervised(supervisor, false))?);
            measured.push(per_start(|| supervised(supervisor, true))?);
        }
        times.iter_mut().zip(measured).for_each(|(all, one)| all.push(one));
    }
    let medians: Vec<Duration> = times.iter_mut().map(|all| median(all)).collect();
    for (name, time) in names.iter().zip(&medians) {
        let ratio = time.as_secs_f64() / medians.first().map_or(1.0, Duration::as_secs_f64);
        println!("{name:24} {:>7.1} us  {ratio:.2}", time.as_secs_f64() * 1e6);
    }
    println!("({} MiB of ballast)", ballast.len() >> 20);
    Ok(())
}

fn per_start(mut start: impl FnMut() -> Result<(), Box<dyn Error>>) -> Result<Duration, Box<dyn Error>> {
    let begin = Instant::now();
    for _ in 0..STARTS {
        start()?;
    }
    Ok(begin.elapsed() / STARTS)
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn bare() -> Result<(), Box<dyn Error>> {
    let null = || Ok::<_, std::io::Error>(Stdio::from(File::options().write(true).open("/dev/null")?));
    Command::new("/bin/true").stdin(Stdio::null()).stdout(null()?).stderr(null()?).status()?;
    Ok(())
}

fn supervised(supervisor: &Supervisor, hold: bool) -> Result<(), Box<dyn Error>> {
    let null = || Ok::<_, std::io::Error>(OwnedFd::from(File::options().write(true).open("/dev/null")?));
    let argv = ["/bin/true".to_owned()];
    let mut child = supervisor.spawn(Launch {
        task: "cost",
        argv: &argv,
        env: &clean_env(),
        cwd: Path::new("/"),
        cpus: None,
        hold,
        stdout: null()?,
        stderr: null()?,
    })?;
    child.release()?;
    child.await_exec()?;
    rustix::event::poll(&mut [PollFd::new(&child.pidfd(), PollFlags::IN)], None)?;
    child.try_wait()?;
    child.kill_tree()?;
    Ok(())
}
