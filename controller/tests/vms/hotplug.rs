//! CPUs of a real kernel, taken offline by the agent and put back, whatever becomes of the agent.

use std::time::Duration;

use drover_model::{CpuPart, EndKind, NotStarted, Placement};
use drover_proto::Refusal;
use drover_vm::Topology;
use tonic::Status;

use crate::{
    guest::{Guest, numbers},
    harness::OLD,
};

/// Three cores with two threads each, of which the last is offline before an agent comes; cpusets of cgroup v1, one of them with
/// CPUs that will go, and a process that can be put into another one.
const BEFORE: &str = "\
echo 0 > /sys/devices/system/cpu/cpu4/online
echo 0 > /sys/devices/system/cpu/cpu5/online
mkdir /run/cs
mount -t cgroup -o cpuset none /run/cs
for set in some one; do mkdir /run/cs/$set; echo 0 > /run/cs/$set/cpuset.mems; done
echo 1-3 > /run/cs/some/cpuset.cpus
echo 3 > /run/cs/one/cpuset.cpus
sleep 1000000 &
echo $! > /run/sleeper";

/// Starts the agent, on one CPU only if a task has asked for that and the CPU is there.
const START: &str = "{ [ -e /run/pin ] && taskset -c 3 \"$@\"; } || \"$@\"";

/// What a task sees: how many CPUs it may use, those that are online, and those of a cpuset that other programs have made.
const LOOK: &str = "nproc; cat /sys/devices/system/cpu/online /run/cs/some/cpuset.cpus";

#[tokio::test]
async fn expect_whole_cores_first_and_all_cpus_back_whatever_becomes_of_the_agent() {
    let guest = Guest::boot(OLD, Topology { sockets: 1, cores: 3, threads: 2 }, BEFORE, START).await;
    let mut caller = guest.call("").await;
    assert_eq!(numbers(&caller.hello.facts.cpus), [0, 1, 2, 3]);
    let feature = caller.hello.facts.features.iter().find(|feature| feature.name == "cpu-hotplug").unwrap();
    assert_eq!(feature.missing, None);

    // One thread of each core, then a second one. Tasks see what is online, and are placed on that.
    let mut run = caller.hold(1).await;
    assert_eq!(run.set(2).await, [0, 2]);
    assert_eq!(run.shell(LOOK).await.lines().collect::<Vec<_>>(), ["2", "0,2", "2"]);
    let place = |count| Some(Placement { count, part: CpuPart::Inside });
    let end = run.run("nproc", place(2)).await;
    assert_eq!((end.kind, end.stdout.inline.unwrap()), (EndKind::Exited(0), b"2\n".to_vec()));
    let end = run.run("nproc", place(3)).await;
    let refused = "asks for 3 CPUs, host has 2 online".to_owned();
    assert_eq!(end.kind, EndKind::NotStarted(NotStarted::WrongCpus, refused));
    assert_eq!(run.set(1).await, [0]);
    assert_eq!(run.set(1).await, [0]);
    assert_eq!(run.shell("nproc").await, "1");
    assert_eq!(run.set(3).await, [0, 1, 2]);
    assert_eq!(run.shell("nproc").await, "3");
    let sleeper = run.start("sleep 1000", None).await.unwrap();
    assert_eq!(kind(run.try_set(2).await), Some(Refusal::TasksRunning));
    run.stop(&sleeper).await;
    run.end_of(&sleeper).await;
    assert_eq!(kind(run.try_set(5).await), Some(Refusal::Cpus), "those that were offline stay so");
    run.release().await.unwrap();
    assert_eq!(numbers(&caller.facts().await.cpus), [0, 1, 2, 3]);

    // A cpuset that would lose all of its CPUs, and with them its processes.
    let mut run = caller.hold(2).await;
    assert_eq!(run.shell(LOOK).await.lines().collect::<Vec<_>>(), ["4", "0-3", "1-3"]);
    assert_eq!(run.run("nproc", place(4)).await.kind, EndKind::Exited(0));
    run.shell("cat /run/sleeper > /run/cs/one/cgroup.procs").await;
    let status = run.try_set(2).await.unwrap_err();
    assert!(status.message().contains("/run/cs/one` has processes and CPUs 3 only"), "{status}");
    assert_eq!(run.shell("nproc; cat /run/sleeper > /run/cs/cgroup.procs").await, "4");

    // The agent is killed, by a task.
    assert_eq!(run.set(1).await, [0]);
    run.start("kill -9 $PPID", None).await.unwrap();
    let caller = guest.call(&caller.hello.agent_id).await;
    assert_eq!(numbers(&caller.hello.facts.cpus), [0, 1, 2, 3]);
    let mut run = caller.hold(2).await;
    assert_eq!(run.shell(LOOK).await.lines().collect::<Vec<_>>(), ["4", "0-3", "1-3"]);
    assert_eq!(guest.left_behind(&mut run).await, 1);
    run.release().await.unwrap();

    // A run that is not heard of any more: the next one gets a whole host.
    let mut silent = caller.try_hold(3, Duration::from_secs(1)).await.unwrap();
    assert_eq!(silent.set(2).await, [0, 2]);
    let mut run = loop {
        match caller.try_hold(4, Duration::from_secs(600)).await {
            Ok(run) => break run,
            Err(status) => assert_eq!(Refusal::of(&status), Some(Refusal::LeaseHeld), "{status}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!(run.shell(LOOK).await.lines().collect::<Vec<_>>(), ["4", "0-3", "1-3"]);
    assert_eq!(kind(silent.try_set(1).await), Some(Refusal::StaleLease));

    // The agent ends in order, and leaves nothing to put back. The next one may use one CPU only.
    assert_eq!(run.set(2).await, [0, 2]);
    run.shell("echo > /run/pin").await;
    run.shut_down().await;
    let caller = guest.call(&caller.hello.agent_id).await;
    let mut run = caller.hold(4).await;
    assert_eq!(guest.left_behind(&mut run).await, 1);
    assert_eq!(run.shell(ALLOWED).await, "3");
    assert_eq!(run.set(2).await, [0, 2]);
    assert_eq!(run.shell("nproc").await, "2");
    assert_eq!(run.set(0).await, [0, 1, 2, 3]);
    assert_eq!(run.shell(ALLOWED).await, "3");

    // Somebody else forbids that they come back.
    assert_eq!(run.set(1).await, [0]);
    run.shell("echo off > /sys/devices/system/cpu/smt/control").await;
    let status = run.release().await.unwrap_err();
    assert_eq!(Refusal::of(&status), Some(Refusal::Quarantined));
    let story = "CPUs 1,3 do not come back online";
    assert!(status.message().contains(story) && status.message().contains("is SMT switched off"), "{status}");
    let mut run = caller.hold(5).await;
    assert_eq!(kind(run.start("nproc", None).await), Some(Refusal::Quarantined));
    run.shut_down().await;
    let caller = guest.call(&caller.hello.agent_id).await;
    assert_eq!(numbers(&caller.hello.facts.cpus), [0, 2]);
    let mut run = caller.hold(5).await;
    let status = run.start("nproc", None).await.unwrap_err();
    assert!(status.message().contains(story), "{status}");
}

/// The CPUs that a task may use, online or not.
const ALLOWED: &str =
    "while read -r name value; do [ $name = Cpus_allowed_list: ] && echo $value; done < /proc/self/status; :";

fn kind<T>(result: Result<T, Status>) -> Option<Refusal> {
    Refusal::of(&result.err()?)
}
