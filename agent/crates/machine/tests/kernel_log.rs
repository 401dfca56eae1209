//! The reader of the kernel's log on this machine's own.

use std::{fs, os::fd::AsFd, process};

use drover_machine::kernel_log::{KernelLog, LogStart, tail_since};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

#[test]
fn expect_a_record_when_one_is_written_to_the_log() {
    let mut log = KernelLog::open(LogStart::End).unwrap();
    assert_eq!(log.next_sequence(), None);
    let text = format!("drover test: a record of process {} with \\ and é", process::id());
    // Without the line end, the kernel would wait for more of the line before it shows the record.
    fs::write("/dev/kmsg", format!("<6>{text}\n")).unwrap();

    let mut fds = [PollFd::new(&log, PollFlags::IN)];
    let limit = Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1);
    let found = std::iter::from_fn(|| log.next_record().unwrap()).find(|record| record.text == text).unwrap();
    // A process cannot write as the kernel.
    assert_eq!((found.level, found.facility), (6, 1));
    assert!(log.next_sequence().unwrap() > found.sequence);
    assert!(log.as_fd().try_clone_to_owned().is_ok());

    let tail = tail_since(found.sequence).unwrap();
    assert_eq!(tail.lost, 0);
    assert_eq!(tail.records[0], found);
    let mut again = KernelLog::open(LogStart::Sequence(found.sequence)).unwrap();
    assert_eq!(again.next_record().unwrap(), Some(found));
    let mut oldest = KernelLog::open(LogStart::Oldest).unwrap();
    assert!(oldest.next_record().unwrap().is_some());
    assert_eq!((oldest.lost(), oldest.unreadable()), (0, 0));
}
