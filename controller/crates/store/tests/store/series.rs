//! Points and marks of a long attempt: on real files, torn, damaged, on a full disk, under SIGKILL.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Write},
    process::Stdio,
};

use drover_model::{AttemptId, Name};
use drover_store::{Mark, MarkKind, Point, ResultsDir, SeriesError, SeriesReader, SeriesWriter};
use proptest::prelude::*;

use crate::{
    sample::{attempt_id, name, run_id},
    scratch::{Scratch, again, again_with_mounts, expect_success, folder_for_child, mount_tmpfs, say},
};

fn id() -> AttemptId {
    attempt_id(run_id(1), 0, 1, 1)
}

fn rate() -> Name {
    name("conn_per_s")
}

fn write(dir: &ResultsDir, rounds: std::ops::RangeInclusive<u64>) {
    let mut writer = SeriesWriter::append(dir, &id()).unwrap();
    for round in rounds {
        writer.point(round * 1_000_000, round, &rate(), value(round)).unwrap();
    }
    writer.flush().unwrap();
}

fn value(round: u64) -> f64 {
    f64::from(u32::try_from(round).unwrap()) * 0.1
}

fn points(dir: &ResultsDir) -> Vec<Point> {
    let reader = SeriesReader::open(dir, &id()).unwrap().unwrap();
    reader.points().unwrap().map(Result::unwrap).collect()
}

fn rounds(dir: &ResultsDir) -> Vec<u64> {
    let points = points(dir);
    assert!(points.iter().all(|point| point.value.to_bits() == value(point.round).to_bits()));
    points.iter().map(|point| point.round).collect()
}

#[test]
fn expect_points_and_marks_back_when_written_by_one_controller_after_the_other() {
    let scratch = Scratch::new();
    assert!(SeriesReader::open(&scratch.dir, &id()).unwrap().is_none());
    write(&scratch.dir, 1..=3);
    let mut writer = SeriesWriter::append(&scratch.dir, &id()).unwrap();
    let reopened = writer.reopened();
    assert!(reopened.begun_before && reopened.points.is_none() && reopened.marks.is_none());
    assert_eq!((reopened.last_round, reopened.last_point_unix_us), (Some(3), Some(3_000_000)));
    writer.mark(5, MarkKind::ControllerBack, "adopted\nit").unwrap();
    writer.point(4_000_000, 4, &rate(), value(4)).unwrap();
    // A mark can be seen at once, and a point when it is flushed.
    let reader = SeriesReader::open(&scratch.dir, &id()).unwrap().unwrap();
    let marks: Vec<Mark> = reader.marks().unwrap().map(Result::unwrap).collect();
    assert_eq!(
        marks,
        [Mark { at_unix_us: 5, kind: MarkKind::ControllerBack, text: "adopted\nit".to_owned() }]
    );
    writer.flush().unwrap();
    assert_eq!(rounds(&scratch.dir), [1, 2, 3, 4]);
    // What was opened before sees what there was then, however often it is read.
    for _ in 0..2 {
        assert_eq!(reader.points().unwrap().count(), 3);
    }
    drop(writer);
    let text = fs::read_to_string(scratch.dir.series_path(&id())).unwrap();
    assert!(text.starts_with("at_unix_us,round,metric,value,check\n1000000,1,conn_per_s,0.1,"), "{text}");
}

#[test]
fn expect_points_without_flush_when_the_writer_ends() {
    let scratch = Scratch::new();
    let mut writer = SeriesWriter::append(&scratch.dir, &id()).unwrap();
    writer.point(1, 1, &rate(), value(1)).unwrap();
    assert_eq!(points(&scratch.dir).len(), 0);
    drop(writer);
    assert_eq!(rounds(&scratch.dir), [1]);
}

#[test]
fn expect_an_error_when_a_value_is_no_number() {
    let scratch = Scratch::new();
    let mut writer = SeriesWriter::append(&scratch.dir, &id()).unwrap();
    for value in [f64::NAN, f64::INFINITY] {
        let error = writer.point(1, 1, &rate(), value).unwrap_err();
        assert_eq!(error.to_string(), "`conn_per_s` is not a finite number, so it is no point of the series");
    }
}

#[test]
fn expect_whole_lines_only_when_the_end_was_torn_at_any_byte() {
    let scratch = Scratch::new();
    write(&scratch.dir, 1..=3);
    let path = scratch.dir.series_path(&id());
    let whole = fs::read(&path).unwrap();
    for end in 0..=whole.len() {
        fs::write(&path, &whole[..end]).unwrap();
        let lines = whole[..end].split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
        let (good, good_bytes) = lines.fold((0_u64, 0), |(n, bytes), line| (n + 1, bytes + line.len()));
        let left = good.saturating_sub(1);
        let torn = u64::try_from(end - good_bytes).unwrap();
        if end > 0 {
            let reader = SeriesReader::open(&scratch.dir, &id()).unwrap().unwrap();
            let mut points = reader.points().unwrap();
            assert_eq!(u64::try_from(points.by_ref().count()).unwrap(), left);
            assert_eq!((points.damage().lines, points.damage().torn_bytes), (0, torn));
        }
        let mut writer = SeriesWriter::append(&scratch.dir, &id()).unwrap();
        assert_eq!(writer.reopened().points.torn_bytes, torn);
        writer.point(9_000_000, 9, &rate(), value(9)).unwrap();
        drop(writer);
        let expected: Vec<u64> = (1..=left).chain([9]).collect();
        assert_eq!(rounds(&scratch.dir), expected, "{end}");
    }
}

#[test]
fn expect_the_rest_when_a_line_in_the_middle_is_damaged() {
    let scratch = Scratch::new();
    write(&scratch.dir, 1..=5);
    let path = scratch.dir.series_path(&id());
    let text = fs::read_to_string(&path).unwrap();
    // A figure that was changed, a line without its beginning, and one that does not end.
    let damaged =
        text.replace("2000000,2,conn_per_s,0.2", "2000000,2,conn_per_s,0.7").replace("4000000,4", "4");
    let long = "x".repeat(1 << 20);
    fs::write(&path, damaged.replacen("\n5000000", &format!("\n{long}\n\n5000000"), 1)).unwrap();
    let reader = SeriesReader::open(&scratch.dir, &id()).unwrap().unwrap();
    let mut points = reader.points().unwrap();
    let found: Vec<u64> = points.by_ref().map(|point| point.unwrap().round).collect();
    assert_eq!((found.as_slice(), points.damage().lines), (&[1, 3, 5][..], 4));
    assert_eq!(SeriesWriter::append(&scratch.dir, &id()).unwrap().reopened().points.lines, 4);
    assert_eq!(rounds(&scratch.dir), [1, 3, 5]);
}

#[test]
fn expect_blocks_of_zeros_to_be_cut_off_when_a_machine_lost_its_power() {
    let scratch = Scratch::new();
    write(&scratch.dir, 1..=2);
    let path = scratch.dir.series_path(&id());
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&vec![0; 100_000]).unwrap();
    file.write_all(b"\n\0\0\n3000000,3,conn").unwrap();
    write(&scratch.dir, 3..=3);
    assert_eq!(rounds(&scratch.dir), [1, 2, 3]);
    assert!(fs::metadata(&path).unwrap().len() < 1000);
}

#[test]
fn expect_a_refusal_when_the_file_is_of_another_version_or_something_else() {
    let scratch = Scratch::new();
    write(&scratch.dir, 1..=1);
    let path = scratch.dir.series_path(&id());
    for text in ["at_unix_us,round,series,value,check\n1,1,a,2,00000000\n", "shopping list\nmilk\n"] {
        fs::write(&path, text).unwrap();
        let error = SeriesWriter::append(&scratch.dir, &id()).unwrap_err();
        assert!(matches!(error, SeriesError::Format { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, "at_unix_us,round,series,value,check\n").unwrap();
    assert!(matches!(SeriesReader::open(&scratch.dir, &id()), Err(SeriesError::Format { .. })));
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(scratch.root.path().join("target"), &path).unwrap();
    assert!(SeriesWriter::append(&scratch.dir, &id()).is_err(), "a link is not written through");
    assert!(!scratch.root.path().join("target").exists());
}

#[test]
fn expect_the_beginning_when_a_mark_says_too_much() {
    let scratch = Scratch::new();
    let mut writer = SeriesWriter::append(&scratch.dir, &id()).unwrap();
    writer.mark(1, MarkKind::Kernel, &"\u{1}".repeat(1 << 20)).unwrap();
    let reader = SeriesReader::open(&scratch.dir, &id()).unwrap().unwrap();
    let mut marks = reader.marks().unwrap();
    let mark = marks.next().unwrap().unwrap();
    assert!(mark.text.len() <= drover_store::MAX_MARK_BYTES && mark.text.ends_with(" [1048576 bytes, cut]"));
    assert!(marks.next().is_none() && marks.damage().is_none());
}

#[test]
fn expect_files_in_the_folder_of_the_attempt_when_paths_are_asked_for() {
    let scratch = Scratch::new();
    let folder = scratch.dir.attempt_path(&id());
    assert_eq!(scratch.dir.sensors_path(&id(), &name("web1")), folder.join("sensors.web1.bin"));
    assert_eq!(scratch.dir.evidence_path(&id(), &name("web1")), folder.join("evidence.web1.txt"));
    assert_eq!(scratch.dir.timeline_path(&id()), folder.join("timeline.jsonl"));
}

#[test]
fn child_fills_the_disk_of_a_series() {
    let Some(folder) = folder_for_child() else { return };
    mount_tmpfs(&folder, "size=4m");
    let dir = ResultsDir::create(folder.join("results")).unwrap();
    let mut writer = SeriesWriter::append(&dir, &id()).unwrap();
    writer.point(1_000_000, 1, &rate(), value(1)).unwrap();
    writer.flush().unwrap();
    let filler = folder.join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[b'x'; 512]).is_ok() {}
    let mut kept = 1;
    let error = loop {
        let round = kept + 1;
        match writer.point(round * 1_000_000, round, &rate(), value(round)) {
            Ok(()) => kept = round,
            Err(error) => break error,
        }
        if let Err(error) = writer.flush() {
            assert!(error.is_disk_full(), "{error:?}");
        }
    };
    assert!(error.is_disk_full(), "{error:?}");
    assert!(kept > 10_000, "{kept} wait for the disk");
    writer.mark(7, MarkKind::Note, "x").unwrap_err();
    assert!(rounds(&dir).len() < 300, "nothing is in the file in halves");
    drop(file);
    fs::remove_file(&filler).unwrap();
    writer.flush().unwrap();
    drop(writer);
    assert_eq!(rounds(&dir), (1..=kept).collect::<Vec<_>>());
}

#[test]
fn expect_all_that_was_kept_when_a_full_disk_has_room_again() {
    let scratch = Scratch::new();
    let mounts = scratch.root.path().join("full");
    fs::create_dir(&mounts).unwrap();
    expect_success(again_with_mounts("series::child_fills_the_disk_of_a_series", &mounts));
}

#[test]
fn child_writes_a_series_until_it_is_killed() {
    let Some(folder) = folder_for_child() else { return };
    let dir = ResultsDir::create(&folder).unwrap();
    let mut writer = SeriesWriter::append(&dir, &id()).unwrap();
    let first = writer.reopened().last_round.unwrap_or(0) + 1;
    for round in first.. {
        writer.point(round * 1_000_000, round, &rate(), value(round)).unwrap();
        if round.is_multiple_of(16) {
            writer.flush().unwrap();
            say(&format!("flushed {round}"));
        }
    }
}

#[test]
fn expect_every_flushed_point_once_when_the_writer_is_killed_again_and_again() {
    let scratch = Scratch::new();
    let mut flushed = 0;
    for kill in 1..=8 {
        let mut command = again(&[], "series::child_writes_a_series_until_it_is_killed", scratch.dir.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let rounds_seen =
            lines.filter_map(|line| line.strip_prefix("flushed ").map(|n| n.parse::<u64>().unwrap()));
        for round in rounds_seen.take(kill * 3) {
            flushed = round;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let found = rounds(&scratch.dir);
        assert!(u64::try_from(found.len()).unwrap() >= flushed, "{} of {flushed}", found.len());
        assert_eq!(found, (1..=u64::try_from(found.len()).unwrap()).collect::<Vec<_>>());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_read_was_written_whatever_became_of_the_bytes(
        cuts in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        end in any::<prop::sample::Index>(),
    ) {
        let scratch = Scratch::new();
        write(&scratch.dir, 1..=20);
        let path = scratch.dir.series_path(&id());
        let mut bytes = fs::read(&path).unwrap();
        for (place, byte) in &cuts {
            let place = place.index(bytes.len());
            bytes[place] = *byte;
        }
        bytes.truncate(end.index(bytes.len() + 1));
        fs::write(&path, &bytes).unwrap();
        match SeriesWriter::append(&scratch.dir, &id()) {
            Ok(mut writer) => {
                writer.point(21_000_000, 21, &rate(), value(21)).unwrap();
                drop(writer);
                let found = rounds(&scratch.dir);
                prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]) && found.last() == Some(&21));
            }
            Err(error) => prop_assert!(matches!(error, SeriesError::Format { .. }), "{error}"),
        }
    }
}
