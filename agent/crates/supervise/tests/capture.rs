//! Bounded output against a model that keeps everything, and through real pipes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::AsFd,
    path::Path,
};

use drover_supervise::{Capture, INLINE_MAX, KeptOutput, Pumped, output_pipe};
use proptest::prelude::*;

/// What should be readable of a stream under a limit.
fn model(stream: &[u8], limit: usize) -> Vec<u8> {
    if stream.len() <= limit {
        return stream.to_vec();
    }
    let head = limit / 2;
    let tail = limit - head;
    let marker = format!("\n[drover: {} bytes cut here]\n", stream.len() - limit);
    [&stream[..head], marker.as_bytes(), &stream[stream.len() - tail..]].concat()
}

fn all(mut kept: KeptOutput) -> Vec<u8> {
    let mut bytes = Vec::new();
    kept.read_to_end(&mut bytes).unwrap();
    assert_eq!(u64::try_from(bytes.len()).unwrap(), kept.len());
    bytes
}

/// Bytes of which every one tells where it was.
fn numbered(length: usize) -> Vec<u8> {
    (0_u64..).flat_map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()).take(length).collect()
}

proptest! {
    #[test]
    fn kept_output_is_head_marker_and_tail(
        pieces in proptest::collection::vec(0_usize..300, 0..40),
        limit in 0_usize..400,
        spill_at in 0_usize..40,
        window in 1_usize..64,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        let stream = numbered(pieces.iter().sum());
        let mut capture = Capture::new(path.clone(), u64::try_from(limit).unwrap());
        let mut rest = &stream[..];
        for (index, piece) in pieces.iter().enumerate() {
            let (now, later) = rest.split_at(*piece);
            capture.feed(now);
            rest = later;
            if index == spill_at {
                capture.spill();
            }
            let so_far = &stream[..stream.len() - rest.len()];
            prop_assert_eq!(all(capture.reader()), model(so_far, limit));
        }
        let expected = model(&stream, limit);
        let reader = capture.reader();
        for offset in 0..=expected.len() {
            // Any window, even across the seams, is continued by the next one.
            let mut buffer = vec![0; window];
            let count = reader.read_at(u64::try_from(offset).unwrap(), &mut buffer).unwrap();
            prop_assert!(count > 0 || offset == expected.len());
            prop_assert_eq!(&buffer[..count], &expected[offset..offset + count]);
        }
        if let Some(file) = capture.file() {
            prop_assert!(fs::metadata(file).unwrap().len() <= u64::try_from(limit).unwrap());
            let written = u64::try_from(stream.len()).unwrap();
            let again = KeptOutput::open(file, u64::try_from(limit).unwrap(), written).unwrap();
            prop_assert_eq!(all(again), expected.clone());
        }
        let summary = capture.finish();
        prop_assert_eq!(summary.written, u64::try_from(stream.len()).unwrap());
        prop_assert_eq!(summary.kept, u64::try_from(stream.len().min(limit)).unwrap());
        prop_assert_eq!(summary.inline, Some(expected));
        prop_assert!(!path.exists(), "inline output needs no file");
    }
}

#[test]
fn expect_no_file_when_little_or_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such/folder/out");
    let mut capture = Capture::new(path.clone(), 1 << 20);
    assert_eq!(capture.finish().inline, Some(Vec::new()));
    capture.spill();
    capture.feed(&numbered(usize::try_from(INLINE_MAX).unwrap()));
    assert!(capture.error().is_none() && capture.file().is_none());
    assert_eq!(capture.finish().kept, INLINE_MAX);
}

#[test]
fn expect_everything_cut_when_the_limit_is_zero() {
    let mut capture = Capture::new("/nowhere/out".into(), 0);
    capture.feed(b"12345");
    assert_eq!(all(capture.reader()), b"\n[drover: 5 bytes cut here]\n");
    let summary = capture.finish();
    assert_eq!((summary.written, summary.kept), (5, 0));
    assert!(capture.error().is_none());
}

#[test]
fn expect_a_file_and_nothing_inline_when_much_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    let mut capture = Capture::new(path.clone(), 1 << 20);
    let stream = numbered(300_000);
    capture.feed(&stream);
    let summary = capture.finish();
    assert_eq!((summary.written, summary.kept, summary.inline), (300_000, 300_000, None));
    assert_eq!(fs::read(capture.file().unwrap()).unwrap(), stream);
}

#[test]
fn expect_the_rest_counted_when_the_disk_is_full() {
    // /dev/full refuses every write with "no space left on device". By a link, because what was kept inline is removed.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("out");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let mut capture = Capture::new(path.clone(), 1 << 20);
    capture.feed(&numbered(100_000));
    capture.feed(&numbered(23_456));
    let error = capture.error().unwrap();
    assert!(error.is_disk_full());
    assert_eq!(
        error.to_string(),
        format!("cannot keep output in `{}`; free some space or set a smaller `output:`", path.display())
    );
    assert_eq!(all(capture.reader()), b"\n[drover: 123456 bytes not kept: cannot write]\n");
    let summary = capture.finish();
    assert_eq!((summary.written, summary.kept), (123_456, 0));
}

#[test]
fn expect_what_was_in_memory_when_the_folder_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut capture = Capture::new(dir.path().join("gone/out"), 1 << 20);
    capture.feed(&numbered(1000));
    capture.feed(&numbered(100_000));
    assert!(!capture.error().unwrap().is_disk_full());
    let kept = all(capture.reader());
    assert!(kept.starts_with(&numbered(1000)));
    assert!(kept.ends_with(b"\n[drover: 100000 bytes not kept: cannot write]\n"));
    assert_eq!(capture.finish().kept, 1000);
}

/// Pumps a pipe to its end, waiting where it blocks.
fn pump_to_end(capture: &mut Capture, ours: &impl AsFd, seen: &mut dyn FnMut(&[u8])) {
    let mut buffer = vec![0; 128 * 1024];
    while capture.pump(ours.as_fd(), &mut buffer, seen).unwrap() != Pumped::End {
        let mut ready = [rustix::event::PollFd::new(ours, rustix::event::PollFlags::IN)];
        rustix::event::poll(&mut ready, None).unwrap();
    }
}

#[test]
fn expect_head_and_tail_when_a_gibibyte_flows_through_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let (ours, theirs) = output_pipe().unwrap();
    let block = numbered(1 << 20);
    let writer = std::thread::spawn({
        let block = block.clone();
        move || {
            let mut theirs = File::from(theirs);
            (0..1024).for_each(|_| theirs.write_all(&block).unwrap());
        }
    });
    let mut capture = Capture::new(dir.path().join("out"), 4 << 20);
    let mut seen = 0;
    pump_to_end(&mut capture, &ours, &mut |bytes| seen += bytes.len());
    writer.join().unwrap();
    let summary = capture.finish();
    assert_eq!((summary.written, summary.kept, seen), (1 << 30, 4 << 20, 1 << 30));
    let kept = all(capture.reader());
    let marker = format!("\n[drover: {} bytes cut here]\n", (1_u64 << 30) - (4 << 20));
    let expected = [block.repeat(2), marker.into_bytes(), block.repeat(2)].concat();
    assert!(kept == expected);
    assert_eq!(fs::metadata(dir.path().join("out")).unwrap().len(), 4 << 20);
}

#[test]
fn expect_blocked_and_then_the_end_when_a_writer_pauses_and_closes() {
    let (ours, theirs) = output_pipe().unwrap();
    let mut capture = Capture::new(Path::new("/nowhere/out").into(), 1 << 20);
    let mut buffer = [0; 4096];
    let mut pump = || capture.pump(ours.as_fd(), &mut buffer, &mut |_| {}).unwrap();
    assert_eq!(pump(), Pumped::Blocked);
    let mut theirs = File::from(theirs);
    theirs.write_all(b"some").unwrap();
    assert_eq!(pump(), Pumped::Blocked);
    drop(theirs);
    assert_eq!(pump(), Pumped::End);
    assert_eq!(capture.written(), 4);
}
