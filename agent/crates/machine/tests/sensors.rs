//! Sensors on recorded trees of machines that are not this one, and on this one.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    io::{Read, Write},
    path::Path,
    process::{Command, Stdio},
};

use drover_machine::sensors::{
    Context, Sample, Schema, SensorOptions, Sensors, Series, SeriesKind, TaskProcesses, Value, ValueType,
    judge,
};
use drover_model::DoubtKind;

fn write(root: &Path, path: &str, contents: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, contents).unwrap();
}

/// Opens sensors below a root that has at least `/proc/stat`.
fn open(root: &Path) -> Sensors {
    let options = SensorOptions { root: root.to_owned(), slow_every: 1, ..SensorOptions::default() };
    Sensors::open(&options).unwrap()
}

fn read(sensors: &mut Sensors, tasks: &[TaskProcesses<'_>]) -> Sample {
    let mut sample = Sample::default();
    sensors.read(tasks, &mut sample);
    sample
}

fn value(sensors: &Sensors, sample: &Sample, name: &str) -> Option<f64> {
    sample.get(sensors.schema().find(name)?).map(Value::as_f64)
}

const STAT: &str = "\
cpu  100 2 30 4000 5 6 7 77 8 9
cpu0 50 1 15 2000 2 3 4 33 0 0
cpu3 50 1 15 2000 3 3 3 44 0 0
intr 123456 7 8 9
ctxt 987654321
btime 1700000000
processes 4242
procs_running 3
procs_blocked 1
softirq 55 1 2 3 4 5 6 7 8 9 10
";

#[test]
fn expect_every_source_by_name_when_a_whole_tree_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "proc/stat", STAT);
    write(root, "proc/loadavg", "2.11 1.75 1.02 5/124 23186\n");
    let pressure =
        "some avg10=1.00 avg60=0.00 avg300=0.00 total=12\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
    write(root, "proc/pressure/io", pressure);
    write(root, "proc/meminfo", "MemTotal:  100 kB\nMemFree:    12 kB\nHugePages_Total:  3\nDirty: 2 kB\n");
    write(root, "proc/vmstat", "nr_free_pages 9\npswpin 4\npswpout 5\noom_kill 6\n");
    write(root, "proc/sys/kernel/tainted", "512\n");
    write(root, "proc/sys/fs/file-nr", "879\t0\t2466165\n");
    write(root, "proc/sys/kernel/random/boot_id", "b-o-o-t\n");
    let netstat = "TcpExt: SyncookiesSent ListenDrops\nTcpExt: 1 333\nIpExt: InOctets\nIpExt: 9\nMPTcpExt: X\nMPTcpExt: 1\n";
    write(root, "proc/self/net/netstat", netstat);
    write(
        root,
        "proc/self/net/snmp",
        "Ip: A\nIp: 1\nTcp: MaxConn RetransSegs\nTcp: -1 8\nUdp: InErrors\nUdp: 2\n",
    );
    let sockstat = "sockets: used 19\nTCP: inuse 1 orphan 2 tw 3 alloc 4 mem 168\nFRAG: inuse 0 memory 5\n";
    write(root, "proc/self/net/sockstat", sockstat);
    write(root, "proc/self/net/softnet_stat", "0015dbac 00000001 00000002\n00000010 00000002 0000000a\n");
    write(root, "sys/devices/system/cpu/online", "0,3\n");
    write(root, "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq", "2400000\n");
    write(root, "sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_count", "17\n");

    let mut sensors = open(root);
    let sample = read(&mut sensors, &[]);

    let expected = [
        ("cpu.all.user_ticks", 100.0),
        ("cpu.0.nice_ticks", 1.0),
        ("cpu.3.steal_ticks", 44.0),
        ("cpu.3.iowait_ticks", 3.0),
        ("irq.total", 123_456.0),
        ("sched.context_switches", 987_654_321.0),
        ("sched.forks", 4242.0),
        ("sched.running", 3.0),
        ("sched.blocked", 1.0),
        ("softirq.HI", 1.0),
        ("softirq.NET_RX", 4.0),
        ("softirq.RCU", 10.0),
        ("load.1min", 2.11),
        ("load.runnable", 5.0),
        ("load.threads", 124.0),
        ("psi.io.some_us", 12.0),
        ("psi.io.full_us", 7.0),
        ("meminfo.MemFree", 12_288.0),
        ("meminfo.Dirty", 2048.0),
        ("vmstat.pswpin", 4.0),
        ("vmstat.oom_kill", 6.0),
        ("kernel.tainted", 512.0),
        ("files.open", 879.0),
        ("files.limit", 2_466_165.0),
        ("netstat.TcpExt.SyncookiesSent", 1.0),
        ("netstat.TcpExt.ListenDrops", 333.0),
        ("netstat.IpExt.InOctets", 9.0),
        ("snmp.Tcp.MaxConn", -1.0),
        ("snmp.Tcp.RetransSegs", 8.0),
        ("snmp.Udp.InErrors", 2.0),
        ("sockstat.sockets.used", 19.0),
        ("sockstat.TCP.tw", 3.0),
        ("sockstat.TCP.orphan", 2.0),
        ("sockstat.FRAG.memory", 5.0),
        ("softnet.processed", f64::from(0x15_dbac + 0x10)),
        ("softnet.dropped", 3.0),
        ("softnet.time_squeeze", 12.0),
        ("cpu.3.khz", 2_400_000.0),
        ("cpu.3.core_throttles", 17.0),
    ];
    for (name, figure) in expected {
        assert_eq!(value(&sensors, &sample, name), Some(figure), "{name}");
    }
    for absent in
        ["psi.cpu.some_us", "cpu.0.khz", "meminfo.HugePages_Total", "snmp.Ip.A", "netstat.MPTcpExt.X"]
    {
        assert_eq!(value(&sensors, &sample, absent), None, "{absent}");
    }
    let kind = |name: &str| sensors.schema().get(sensors.schema().find(name).unwrap()).unwrap().kind;
    assert_eq!(kind("snmp.Tcp.RetransSegs"), SeriesKind::Counter);
    assert_eq!(kind("snmp.Tcp.MaxConn"), SeriesKind::Gauge);
    assert_eq!(kind("meminfo.MemFree"), SeriesKind::Gauge);
    assert_eq!(sensors.boot_id(), Some("b-o-o-t"));
    let missing: Vec<_> =
        sensors.missing().iter().map(|(path, _)| path.strip_prefix(root).unwrap()).collect();
    assert_eq!(missing, [Path::new("proc/pressure/cpu"), Path::new("proc/pressure/memory")]);
}

#[test]
fn expect_a_longer_schema_and_gaps_when_cpus_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    let freq = |cpu: u32| format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    write(root, "proc/stat", STAT);
    write(root, "sys/devices/system/cpu/online", "0,3\n");
    write(root, &freq(3), "1\n");
    let mut sensors = open(root);
    read(&mut sensors, &[]);
    let before = sensors.schema().clone();
    write(root, "proc/stat", "cpu  1 1 1 1\ncpu0 1 1 1 1\ncpu4 5 5 5 5 5 5 5 5\n");
    write(root, "sys/devices/system/cpu/online", "0,4\n");
    write(root, &freq(4), "2\n");
    let sample = read(&mut sensors, &[]);
    assert_eq!(
        sensors.schema().series()[..before.len()],
        *before.series(),
        "series never change their places"
    );
    let get = |name| value(&sensors, &sample, name);
    assert_eq!((get("cpu.3.user_ticks"), get("cpu.3.khz")), (None, None));
    assert_eq!((get("cpu.4.steal_ticks"), get("cpu.4.khz")), (Some(5.0), Some(2.0)));
    assert_eq!((get("cpu.0.idle_ticks"), get("cpu.0.steal_ticks")), (Some(1.0), None));
    assert_eq!(get("sched.context_switches"), None);
}

#[test]
fn expect_the_path_when_there_is_no_proc() {
    let dir = tempfile::tempdir().unwrap();
    let options = SensorOptions { root: dir.path().to_owned(), ..SensorOptions::default() };
    let error = Sensors::open(&options).unwrap_err();
    assert!(error.to_string().contains("proc/stat"), "{error}");
}

/// A process of a recorded tree.
fn process(root: &Path, pid: u32, state: char, user: u64, start: u64, fds: usize) {
    let stat = format!("{pid} (httpd) {state} 1 1 1 0 -1 0 0 0 1 0 {user} 10 0 0 20 0 2 0 {start} 0 100 0\n");
    write(root, &format!("proc/{pid}/stat"), &stat);
    let status = format!("Name: httpd\nvoluntary_ctxt_switches:\t{user}\nnonvoluntary_ctxt_switches:\t1\n");
    write(root, &format!("proc/{pid}/status"), &status);
    let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                  Max open files            1024                 524288               files\n";
    write(root, &format!("proc/{pid}/limits"), limits);
    for fd in 0..fds {
        write(root, &format!("proc/{pid}/fd/{fd}"), "");
    }
}

#[test]
fn expect_sums_that_never_go_back_when_processes_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "proc/stat", STAT);
    process(root, 10, 'S', 100, 1, 3);
    process(root, 11, 'R', 50, 2, 4);
    let mut sensors = open(root);
    let web = |pids| [TaskProcesses { name: "web", pids }];
    let first = read(&mut sensors, &web(&[10, 11, 12]));
    let get =
        |sensors: &Sensors, sample: &Sample, name: &str| value(sensors, sample, &format!("task.web.{name}"));
    let expected = [
        ("processes", 2.0),
        ("running", 1.0),
        ("blocked", 0.0),
        ("threads", 4.0),
        ("user_ticks", 150.0),
        ("system_ticks", 20.0),
        ("major_faults", 2.0),
        ("voluntary_switches", 150.0),
        ("involuntary_switches", 2.0),
    ];
    for (name, figure) in expected {
        assert_eq!(get(&sensors, &first, name), Some(figure), "{name}");
    }
    let page = f64::from(u32::try_from(rustix::param::page_size()).unwrap());
    assert_eq!(get(&sensors, &first, "rss_bytes"), Some(200.0 * page));

    // One ends, one starts; then a pid is given to another process, which is seen as a new one a reading later.
    process(root, 12, 'D', 7, 3, 1);
    let second = read(&mut sensors, &web(&[10, 12]));
    assert_eq!(get(&sensors, &second, "processes"), Some(2.0));
    assert_eq!(get(&sensors, &second, "blocked"), Some(1.0));
    assert_eq!(get(&sensors, &second, "user_ticks"), Some(150.0));
    process(root, 12, 'D', 9, 3, 1);
    let third = read(&mut sensors, &web(&[10, 12]));
    assert_eq!(get(&sensors, &third, "user_ticks"), Some(152.0));
    process(root, 12, 'S', 1, 99, 1);
    let reused = read(&mut sensors, &web(&[10, 12]));
    assert_eq!(get(&sensors, &reused, "processes"), Some(1.0));
    let fourth = read(&mut sensors, &web(&[10, 12]));
    assert_eq!(get(&sensors, &fourth, "processes"), Some(2.0));
    assert_eq!(get(&sensors, &fourth, "blocked"), Some(0.0));
    assert!(get(&sensors, &fourth, "user_ticks") >= Some(152.0));
    let gone = read(&mut sensors, &[]);
    assert_eq!(get(&sensors, &gone, "processes"), None, "a task that is not asked for has no values");
}

#[test]
fn expect_a_part_of_the_processes_each_time_when_they_are_many() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path();
    write(root, "proc/stat", STAT);
    let pids: Vec<u32> = (100..140).collect();
    for pid in &pids {
        process(root, *pid, 'S', 1, 1, 0);
    }
    let options =
        SensorOptions { root: root.to_owned(), processes_per_sample: 10, ..SensorOptions::default() };
    let mut sensors = Sensors::open(&options).unwrap();
    let tasks = [TaskProcesses { name: "web", pids: &pids }];
    let user = |sensors: &mut Sensors| {
        let sample = read(sensors, &tasks);
        assert_eq!(value(sensors, &sample, "task.web.processes"), Some(40.0));
        value(sensors, &sample, "task.web.user_ticks").unwrap()
    };
    assert_eq!(user(&mut sensors), 40.0);
    for pid in &pids {
        process(root, *pid, 'S', 2, 1, 0);
    }
    let seen: Vec<f64> = (0..5).map(|_| user(&mut sensors)).collect();
    assert_eq!(seen, [50.0, 60.0, 70.0, 80.0, 80.0]);
}

#[test]
fn expect_a_child_and_own_process_when_this_machine_is_read() {
    // `cat` is there until its input is closed, and has written once it has started.
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    let pids = [child.id()];
    let tasks = [TaskProcesses { name: "cat", pids: &pids }];
    let mut sensors = Sensors::open(&SensorOptions::default()).unwrap();
    let first = read(&mut sensors, &tasks);
    let second = read(&mut sensors, &tasks);
    let get = |sample: &Sample, name: &str| value(&sensors, sample, name);
    assert!(second.monotonic_ns > first.monotonic_ns && second.unix_us > 1_700_000_000_000_000);
    assert!(get(&second, "sched.context_switches") >= get(&first, "sched.context_switches"));
    assert!(get(&first, "cpu.all.idle_ticks").is_some() && get(&first, "meminfo.MemFree") > Some(0.0));
    assert!(get(&first, "netstat.TcpExt.ListenOverflows").is_some());
    assert!(get(&first, "snmp.Tcp.RetransSegs").is_some());
    assert_eq!((get(&first, "task.cat.processes"), get(&first, "task.cat.threads")), (Some(1.0), Some(1.0)));
    assert!(get(&first, "task.cat.rss_bytes") > Some(100_000.0) && get(&first, "task.cat.fds") >= Some(3.0));
    assert!(get(&first, "agent.rss_bytes") > Some(100_000.0) && get(&first, "agent.threads") >= Some(2.0));
    assert_eq!(sensors.refused(), 0);
    drop(child.stdin.take());
    child.wait().unwrap();
    let last = read(&mut sensors, &tasks);
    assert_eq!(value(&sensors, &last, "task.cat.processes"), Some(0.0));
}

fn series(name: &str, kind: SeriesKind) -> Series {
    Series { name: name.to_owned(), unit: "1".to_owned(), kind, values: ValueType::Unsigned }
}

/// A schema and a window of two samples: name, first and last value.
fn window(figures: &[(&str, SeriesKind, u64, u64)]) -> (Schema, Vec<Sample>) {
    let mut schema = Schema::new();
    let (mut first, mut last) = (Sample::new(0, 0), Sample::new(60_000_000_000, 60_000_000));
    for (name, kind, before, after) in figures {
        let id = schema.add(series(name, *kind)).unwrap();
        first.set(id, Value::Unsigned(*before));
        last.set(id, Value::Unsigned(*after));
    }
    (schema, vec![first, last])
}

fn judged(figures: &[(&str, SeriesKind, u64, u64)]) -> Vec<(DoubtKind, String)> {
    let (schema, samples) = window(figures);
    let findings = judge(&schema, &samples, &Context::default());
    findings.into_iter().map(|finding| (finding.kind, finding.detail)).collect()
}

const COUNTER: SeriesKind = SeriesKind::Counter;
const GAUGE: SeriesKind = SeriesKind::Gauge;

#[test]
fn expect_the_counter_and_its_figures_when_it_should_not_have_moved() {
    let cases = [
        ("netstat.TcpExt.ListenOverflows", DoubtKind::ListenQueue),
        ("netstat.TcpExt.ListenDrops", DoubtKind::ListenQueue),
        ("netstat.TcpExt.SyncookiesSent", DoubtKind::SynCookies),
        ("netstat.TcpExt.TCPTimeWaitOverflow", DoubtKind::TimeWaitOverflow),
        ("vmstat.oom_kill", DoubtKind::OomKill),
        ("softnet.dropped", DoubtKind::SoftnetDrops),
        ("cpu.3.core_throttles", DoubtKind::Throttling),
        ("cpu.3.package_throttles", DoubtKind::Throttling),
    ];
    for (name, flag) in cases {
        assert_eq!(judged(&[(name, COUNTER, 5, 5)]), [], "{name} did not move");
        assert_eq!(judged(&[(name, COUNTER, 5, 2)]), [], "{name} went back");
        let findings = judged(&[(name, COUNTER, 5, 22)]);
        assert_eq!(findings.len(), 1, "{name}");
        assert_eq!(findings[0].0, flag);
        assert!(findings[0].1.contains("17") && findings[0].1.contains(name), "{findings:?}");
    }
}

#[test]
fn expect_steal_and_foreign_load_when_shares_are_above_their_limits() {
    let cpu = |user, idle, steal| {
        [
            ("cpu.all.user_ticks", COUNTER, 0, user),
            ("cpu.all.nice_ticks", COUNTER, 0, 0),
            ("cpu.all.system_ticks", COUNTER, 0, 0),
            ("cpu.all.idle_ticks", COUNTER, 0, idle),
            ("cpu.all.steal_ticks", COUNTER, 0, steal),
        ]
    };
    let with = |cpu: [_; 5], ours: &[_]| judged(&[&cpu[..], ours].concat());
    let ours = [("ours.user_ticks", COUNTER, 0, 200), ("ours.system_ticks", COUNTER, 100, 180)];
    assert_eq!(with(cpu(325, 675, 0), &ours), []);
    let findings = with(cpu(400, 600, 0), &ours);
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].0, DoubtKind::ForeignLoad);
    assert!(findings[0].1.contains("12.0 %") && findings[0].1.contains("280"), "{findings:?}");
    assert_eq!(with(cpu(0, 990, 10), &[]), []);
    let findings = with(cpu(0, 980, 20), &[]);
    assert_eq!((findings.len(), findings[0].0), (1, DoubtKind::Steal));
    assert!(findings[0].1.contains("2.0 %"), "{findings:?}");
}

#[test]
fn expect_frequency_only_of_busy_cpus_when_it_changes() {
    let cpu = |idle: u64, khz: &[u64]| {
        let mut schema = Schema::new();
        let mut add = |name, kind| schema.add(series(name, kind)).unwrap();
        let (user, idle_id) = (add("cpu.1.user_ticks", COUNTER), add("cpu.1.idle_ticks", COUNTER));
        let khz_id = add("cpu.1.khz", GAUGE);
        let samples: Vec<Sample> = (0..)
            .zip(khz)
            .map(|(number, khz)| {
                let mut sample = Sample::new(number * 1_000_000_000, 0);
                sample.set(user, Value::Unsigned(number * 100));
                sample.set(idle_id, Value::Unsigned(number * idle));
                sample.set(khz_id, Value::Unsigned(*khz));
                sample
            })
            .collect();
        judge(&schema, &samples, &Context::default())
    };
    let slower = [2_000_000, 2_000_000, 2_000_000, 1_800_000, 1_800_000];
    assert_eq!(cpu(50, &slower), [], "it was idle for a third of the time");
    assert_eq!(cpu(10, &[2_000_000, 2_000_000, 1_950_000]), []);
    let mut once = [2_000_000; 20];
    once[7] = 1_000_000;
    assert_eq!(cpu(10, &once), [], "one reading of many says nothing");
    let doubts = cpu(10, &slower);
    assert_eq!((doubts.len(), doubts[0].kind), (1, DoubtKind::FrequencyChange));
    assert!(doubts[0].detail.contains("1800 to 2000 MHz"), "{doubts:?}");
}

#[test]
fn expect_syns_and_pages_to_count_when_there_are_many() {
    let syns = |again: u64, opened: u64| {
        judged(&[
            ("netstat.TcpExt.TCPSynRetrans", COUNTER, 5, 5 + again),
            ("snmp.Tcp.ActiveOpens", COUNTER, 10, 10 + opened),
        ])
    };
    assert_eq!(syns(10, 10_000), []);
    let findings = syns(11, 10_000);
    assert_eq!((findings.len(), findings[0].0), (1, DoubtKind::SynRetransmits));
    assert!(findings[0].1.contains("11 SYNs") && findings[0].1.contains("10000"), "{findings:?}");
    assert_eq!(syns(1, 0), []);
    for name in ["vmstat.pswpin", "vmstat.pswpout"] {
        assert_eq!(judged(&[(name, COUNTER, 0, 256)]), []);
        let findings = judged(&[(name, COUNTER, 0, 257)]);
        assert!(findings[0].0 == DoubtKind::Swap && findings[0].1.contains("257 pages"), "{findings:?}");
    }
}

#[test]
fn expect_fds_and_taint_when_they_come_near_or_change() {
    let files =
        |fds| judged(&[("task.web.most_fds", GAUGE, 3, fds), ("task.web.most_fds_limit", GAUGE, 1024, 1024)]);
    assert_eq!(files(900), []);
    let findings = files(1000);
    assert_eq!((findings.len(), findings[0].0), (1, DoubtKind::FdLimit));
    assert!(findings[0].1.contains("1000 of 1024"), "{findings:?}");
    assert_eq!(judged(&[("kernel.tainted", GAUGE, 0, 0)]), []);
    let findings = judged(&[("kernel.tainted", GAUGE, 0, 512)]);
    assert_eq!(findings, [(DoubtKind::Tainted, "kernel.tainted changed from 0 to 512".to_owned())]);
}

/// A process that ends between two samples has used what its parent then has waited for; this process stands for the agent here.
#[test]
fn expect_the_time_of_a_task_counted_when_it_begins_and_ends_between_two_samples() {
    let mut sensors = Sensors::open(&SensorOptions::default()).unwrap();
    let mut sample = Sample::default();
    let mut ours = |sensors: &mut Sensors, tasks: &[TaskProcesses<'_>]| {
        sensors.read(tasks, &mut sample);
        value(sensors, &sample, "ours.user_ticks").unwrap()
            + value(sensors, &sample, "ours.system_ticks").unwrap()
    };
    let before = ours(&mut sensors, &[]);
    let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let mut child = Command::new("sh").args(["-c", burn]).spawn().unwrap();
    let pids = [child.id()];
    let seen = ours(&mut sensors, &[TaskProcesses { name: "a", pids: &pids }]);
    child.wait().unwrap();
    let after = ours(&mut sensors, &[]);
    assert!(before <= seen && after >= before + 5.0, "{before} {seen} {after}");
}
