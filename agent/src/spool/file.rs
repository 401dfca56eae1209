//! The spool's file: appended to with plain `write(2)`, read back at start, written anew when most of it is forgotten.
//!
//! There is no `fsync`. What was appended survives a SIGKILL of the agent, because it is in the kernel's page cache; a
//! crash of the host loses it, and the controller then runs those attempts again, as it has to anyway: their processes
//! are gone as well.
//!
//! A task that runs for hours may have more to tell than the spool may hold. Beyond [`SHED_BYTES`] the oldest outputs of
//! rounds and reported lines are left out of their events, which say so; all figures stay.
//!
//! When the file cannot grow (disk full), an event is kept in memory instead, so that its watchers still get it and a
//! task still has exactly one end; no new task is accepted then, which bounds that memory. That an attempt is forgotten or
//! the host given back holds from then on even so, and is made up for as soon as the file can be written; an agent that is
//! killed before knows them again, which does no harm: whoever takes the host forgets them once more.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use drover_model::{AttemptId, RunId, TaskId};
use drover_proto::v1;

use super::{
    Index, Record,
    index::{Place, Slot},
    record::{HEADER, MAGIC, Note},
    replay::Replay,
    shed,
};
use crate::{clock::unix_us, lease::Grant, text::chain};

/// Largest spool; no new task is accepted beyond.
const MAX_BYTES: u64 = 256 << 20;

/// Length beyond which the oldest outputs of rounds are left out.
const SHED_BYTES: u64 = 128 << 20;

/// Most tasks known at once; no new task is accepted beyond.
const MAX_TASKS: usize = 100_000;

/// A spool with fewer forgotten bytes than this is not written anew.
const MIN_GARBAGE: u64 = 1 << 20;

/// The spool and what its records add up to.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    file: File,
    length: u64,
    /// Bytes of events that are not forgotten.
    live: u64,
    index: Index,
    /// Length beyond which something is left out.
    shed_at: u64,
    /// The file does not say that something is forgotten, or the host given back.
    behind: bool,
}

impl Spool {
    /// Opens the spool at `path`, or makes it. A tail that was cut short is dropped; records that a disk has damaged are left
    /// out.
    ///
    /// # Errors
    /// When the file cannot be read or written, or has another format.
    pub fn open(path: &Path) -> Result<Self, SpoolError> {
        let fail = |action| move |source| SpoolError::Io { action, path: path.to_owned(), source };
        let file = options().truncate(false).open(path).map_err(fail("open"))?;
        let bytes = read_all(&file).map_err(fail("read"))?;
        let mut spool = Self::empty(path.to_owned(), file);
        if bytes.len() < MAGIC.len() {
            spool.file.set_len(0).map_err(fail("empty"))?;
            spool.file.write_all_at(&MAGIC, 0).map_err(fail("write"))?;
            return Ok(spool);
        }
        if !bytes.starts_with(&MAGIC) {
            return Err(SpoolError::Format { path: path.to_owned() });
        }
        let skipped = spool.replay(bytes.get(MAGIC.len()..).unwrap_or_default());
        let cut = wide(bytes.len()).saturating_sub(spool.length);
        if cut > 0 {
            tracing::warn!(path = %path.display(), bytes = cut, "the end of the spool cannot be read and is dropped");
            spool.file.set_len(spool.length).map_err(fail("cut"))?;
        }
        spool.index.allow_for(cut.saturating_add(skipped));
        if skipped > 0 {
            tracing::error!(path = %path.display(), bytes = skipped, "the spool is damaged: what is readable is kept");
            spool.compact(0)?;
        }
        spool.tidy()?;
        Ok(spool)
    }

    fn empty(path: PathBuf, file: File) -> Self {
        let length = wide(MAGIC.len());
        Self { path, file, length, live: 0, index: Index::default(), shed_at: SHED_BYTES, behind: false }
    }

    /// Takes up the records; gives the number of bytes between them that cannot be read.
    fn replay(&mut self, bytes: &[u8]) -> u64 {
        let start = self.length;
        let mut replay = Replay::new(bytes);
        for (at, record, length) in replay.by_ref() {
            self.index.apply(&record, Place::File { at: start.saturating_add(wide(at)), length });
        }
        self.length = start.saturating_add(wide(replay.end));
        self.recount();
        wide(replay.skipped)
    }

    /// What the records add up to.
    #[must_use]
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Whether another task may be accepted.
    ///
    /// # Errors
    /// Which bound is reached.
    pub fn room(&self) -> Result<(), SpoolError> {
        let tasks = self.index.tasks;
        if self.length >= MAX_BYTES || tasks >= MAX_TASKS {
            return Err(SpoolError::Full { path: self.path.clone(), tasks, bytes: self.length });
        }
        Ok(())
    }

    /// Records that a run took the host.
    ///
    /// # Errors
    /// When it cannot be written; it did not happen then.
    pub fn lease(&mut self, grant: &Grant) -> Result<(), SpoolError> {
        self.note(Note::Lease(grant.clone()))
    }

    /// Records that the host was given back, at the latest when the file can be written again.
    pub fn free(&mut self) {
        self.settle();
        self.drop_from(&Note::Free);
    }

    /// Records that a task was accepted.
    ///
    /// # Errors
    /// When it cannot be written; it did not happen then.
    pub fn accept(&mut self, task: &TaskId, output_limit: u64) -> Result<(), SpoolError> {
        self.note(Note::Accepted { task: task.clone(), output_limit, at_unix_us: unix_us() })
    }

    /// Records that ports are kept for an attempt.
    ///
    /// # Errors
    /// When it cannot be written; it did not happen then.
    pub fn ports(&mut self, attempt: AttemptId, ports: Vec<u16>) -> Result<(), SpoolError> {
        self.note(Note::Ports { attempt, ports, at_unix_us: unix_us() })
    }

    /// Records that all of an attempt is stored elsewhere, at the latest when the file can be written again, and writes the
    /// file anew when that leaves most of it unused.
    pub fn forget(&mut self, attempt: AttemptId) {
        self.settle();
        self.drop_from(&Note::Forgotten(attempt));
        if let Err(error) = self.tidy() {
            tracing::warn!(error = %chain(&error), "the spool cannot be made shorter");
        }
    }

    /// Makes up for what could not be written, if it can be written now.
    pub fn settle(&mut self) {
        if self.behind
            && let Err(error) = self.compact(0)
        {
            tracing::debug!(error = %chain(&error), "the spool still cannot be written");
        }
    }

    /// Takes a note in that leaves something out.
    fn drop_from(&mut self, note: &Note) {
        let record = Record::Note(note.clone());
        if let Err(error) = self.append(&record) {
            tracing::warn!(error = %chain(&error), ?note, "is not written into the spool until that is possible");
            self.behind = true;
        }
        match note {
            Note::Forgotten(attempt) => self.live = self.live.saturating_sub(self.index.forget(*attempt)),
            _ => drop(self.index.apply(&record, Place::File { at: self.length, length: 0 })),
        }
    }

    /// Writes the file anew if that makes it much shorter.
    fn tidy(&mut self) -> Result<(), SpoolError> {
        let garbage = self.length.saturating_sub(self.live);
        if garbage >= MIN_GARBAGE && garbage > self.live { self.compact(0) } else { Ok(()) }
    }

    /// Leaves out the oldest outputs of rounds if the file is too long, so much that it is a quarter shorter than it may be.
    fn shed(&mut self) {
        if self.length < self.shed_at {
            return;
        }
        let target = self.shed_at - self.shed_at / 4;
        let mut left = self.live;
        let sheddable = self.index.events.iter().filter(|(_, slot)| slot.spare > 0);
        let through = sheddable.map(|(seq, slot)| (*seq, wide(slot.spare))).find_map(|(seq, spare)| {
            left = left.saturating_sub(spare);
            (left <= target).then_some(seq)
        });
        // If that is not enough, all of them go.
        let through = through.unwrap_or(u64::MAX);
        match self.compact(through) {
            Ok(()) => {
                tracing::warn!(bytes = self.length, "the oldest outputs of rounds are left out of the spool")
            }
            Err(error) => tracing::error!(error = %chain(&error), "the spool cannot be made shorter"),
        }
        // What cannot be left out, or not now, is not tried again at each event.
        self.shed_at = SHED_BYTES.max(self.length.saturating_add(self.length / 4));
    }

    /// Numbers an event and records it. It is never lost while the agent lives, even if it cannot be written.
    pub fn event(&mut self, mut event: v1::TaskEvent) {
        event.seq = self.index.next_seq;
        let mut record = Record::Event(event);
        let place = match self.append(&record) {
            Ok((at, length)) => {
                self.live = self.live.saturating_add(wide(length));
                Place::File { at, length }
            }
            Err(error) => {
                tracing::error!(error = %chain(&error), "an event is kept in memory only");
                let Record::Event(event) = &mut record else { return };
                shed::strip(event);
                Place::Memory(Box::new(event.clone()))
            }
        };
        self.index.apply(&record, place);
        self.shed();
    }

    /// The event with this number.
    ///
    /// # Errors
    /// When the file cannot be read back.
    pub fn find(&self, seq: u64) -> Result<Option<v1::TaskEvent>, SpoolError> {
        let slot = self.index.events.get(&seq);
        slot.map(|slot| self.load(slot).map(|(event, _)| event)).transpose()
    }

    /// Events of a run from `from_seq` on: as many as fit into about `max_bytes`, at least one if there is any.
    ///
    /// # Errors
    /// When the file cannot be read back.
    pub fn read(
        &self,
        run: RunId,
        from_seq: u64,
        max_bytes: usize,
    ) -> Result<Vec<v1::TaskEvent>, SpoolError> {
        let (mut events, mut total) = (Vec::new(), 0_usize);
        for (_, slot) in self.index.of_run(run, from_seq) {
            let (event, length) = self.load(slot)?;
            events.push(event);
            total = total.saturating_add(length);
            if total >= max_bytes {
                break;
            }
        }
        Ok(events)
    }

    fn load(&self, slot: &Slot) -> Result<(v1::TaskEvent, usize), SpoolError> {
        let (at, length) = match &slot.place {
            Place::Memory(event) => return Ok((v1::TaskEvent::clone(event), HEADER)),
            Place::File { at, length } => (*at, *length),
        };
        let mut frame = vec![0; length];
        self.file.read_exact_at(&mut frame, at).map_err(|source| self.io("read", source))?;
        match Record::parse(&frame) {
            Some((Record::Event(event), _)) => Ok((event, length)),
            _ => Err(SpoolError::Damaged { path: self.path.clone(), at }),
        }
    }

    fn note(&mut self, note: Note) -> Result<(), SpoolError> {
        self.settle();
        let record = Record::Note(note);
        let (at, length) = self.append(&record)?;
        self.index.apply(&record, Place::File { at, length });
        Ok(())
    }

    fn append(&mut self, record: &Record) -> Result<(u64, usize), SpoolError> {
        let frame = record.frame().map_err(|error| self.io("encode", error.into()))?;
        let at = self.length;
        if let Err(source) = self.file.write_all_at(&frame, at) {
            // A frame that was written in part is overwritten by the next one; cutting it off only saves space.
            let _ = self.file.set_len(at);
            return Err(self.io("write", source));
        }
        self.length = at.saturating_add(wide(frame.len()));
        Ok((at, frame.len()))
    }

    /// Writes a new file with what is not forgotten, and puts it in the old one's place. Events up to the number `strip` lose
    /// what can be left out.
    fn compact(&mut self, strip: u64) -> Result<(), SpoolError> {
        let path = self.path.with_extension("new");
        let fail = |action| {
            let path = path.clone();
            move |source| SpoolError::Io { action, path, source }
        };
        let file = options().truncate(true).open(&path).map_err(fail("open"))?;
        let mut fresh = Self { shed_at: self.shed_at, ..Self::empty(self.path.clone(), file) };
        fresh.file.write_all_at(&MAGIC, 0).map_err(fail("write"))?;
        for note in self.index.notes() {
            fresh.note(note)?;
        }
        for (seq, slot) in &self.index.events {
            let mut event = self.load(slot)?.0;
            if *seq <= strip {
                shed::strip(&mut event);
            }
            let record = Record::Event(event);
            let (at, length) = fresh.append(&record)?;
            fresh.index.apply(&record, Place::File { at, length });
        }
        std::fs::rename(&path, &self.path).map_err(fail("rename"))?;
        fresh.recount();
        *self = fresh;
        Ok(())
    }

    fn recount(&mut self) {
        self.live = self.index.events.values().map(|slot| slot.place.bytes()).sum();
    }

    fn io(&self, action: &'static str, source: io::Error) -> SpoolError {
        SpoolError::Io { action, path: self.path.clone(), source }
    }
}

/// What can go wrong with the spool.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file system said no.
    #[error("cannot {action} the spool `{}`", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Not a spool, or one of another version.
    #[error(
        "`{}` is not a spool that this version can read; end its runs with the version that wrote it, or remove it",
        path.display()
    )]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// What was written is not what is read.
    #[error("the spool `{}` is damaged at byte {at}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where.
        at: u64,
    },
    /// A bound is reached.
    #[error(
        "the spool `{}` holds {tasks} tasks and {bytes} bytes, which is as much as it may; resume or delete runs that were never finished",
        path.display()
    )]
    Full {
        /// The file.
        path: PathBuf,
        /// Tasks in it.
        tasks: usize,
        /// Bytes in it.
        bytes: u64,
    },
}

impl SpoolError {
    /// Whether the disk (or a quota) is full, or the file system is read-only.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if crate::text::is_disk_full(source))
    }
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600);
    options
}

fn read_all(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use drover_model::{LeaseEpoch, LeaseInfo};

    use super::*;

    fn task(cell: u32) -> TaskId {
        format!("00000000-0000-0000-0000-000000000001.c{cell}r1a1.client.0").parse().unwrap()
    }

    fn event(cell: u32, kind: v1::task_event::Kind) -> v1::TaskEvent {
        v1::TaskEvent { task: task(cell).to_string(), at_unix_us: 7, kind: Some(kind), ..Default::default() }
    }

    fn started() -> v1::task_event::Kind {
        v1::task_event::Kind::Started(v1::Started { pid: 1, cpus: "0".into() })
    }

    fn ended(bytes: usize) -> v1::task_event::Kind {
        let stdout = v1::OutputSummary { inline: Some(vec![b'x'; bytes].into()), ..Default::default() };
        v1::task_event::Kind::Ended(v1::TaskEnd { stdout: Some(stdout), ..Default::default() })
    }

    fn run_one(spool: &mut Spool, cell: u32, bytes: usize) {
        spool.accept(&task(cell), 10).unwrap();
        spool.event(event(cell, started()));
        spool.event(event(cell, ended(bytes)));
    }

    fn read(spool: &Spool, from: u64, max: usize) -> Vec<v1::TaskEvent> {
        spool.read(task(0).attempt.run, from, max).unwrap()
    }

    #[test]
    fn expect_the_same_state_when_a_spool_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        let info = LeaseInfo {
            run: task(0).attempt.run,
            epoch: LeaseEpoch(4),
            holder: "me".into(),
            since_unix_ms: 1,
        };
        let grant = Grant { info, ttl: std::time::Duration::from_secs(1), observe: None };
        spool.lease(&grant).unwrap();
        run_one(&mut spool, 0, 10);
        spool.accept(&task(1), 10).unwrap();
        spool.event(event(1, started()));
        spool.ports(task(1).attempt, vec![4000, 4001]).unwrap();

        let again = Spool::open(&path).unwrap();
        assert_eq!(again.index().grant, Some(grant));
        assert_eq!(read(&again, 1, 1 << 20), read(&spool, 1, 1 << 20));
        assert_eq!(read(&again, 2, 1).iter().map(|event| event.seq).collect::<Vec<_>>(), [2]);
        assert_eq!(again.index().open_tasks().map(|task| task.id.clone()).collect::<Vec<_>>(), [task(1)]);
        assert_eq!(again.index().attempts[&task(1).attempt].ports, [4000, 4001]);
        assert_eq!(again.index().next_seq, 4);
    }

    #[test]
    fn expect_only_the_torn_record_lost_when_the_file_ends_in_the_middle_of_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        run_one(&mut spool, 0, 10);
        let length = std::fs::metadata(&path).unwrap().len();
        File::options().write(true).open(&path).unwrap().set_len(length - 1).unwrap();

        let mut again = Spool::open(&path).unwrap();
        assert_eq!(read(&again, 1, 1 << 20).len(), 1);
        assert_eq!(again.index().open_tasks().count(), 1);
        again.event(event(0, ended(1)));
        assert_eq!(read(&Spool::open(&path).unwrap(), 1, 1 << 20).len(), 2);
    }

    #[test]
    fn expect_a_small_file_and_growing_numbers_when_everything_was_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        for cell in 0..40 {
            run_one(&mut spool, cell, 60_000);
        }
        for cell in 0..39 {
            spool.forget(task(cell).attempt);
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 2 * MIN_GARBAGE);
        assert_eq!(read(&spool, 1, 1 << 20).len(), 2);
        spool.forget(task(39).attempt);
        let again = Spool::open(&path).unwrap();
        assert_eq!(read(&again, 1, 1 << 20), []);
        assert!(again.index().attempts.is_empty());
        assert_eq!(again.index().next_seq, 81);
    }

    #[test]
    fn expect_events_kept_in_memory_when_the_file_cannot_be_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        run_one(&mut spool, 0, 1);
        spool.file = File::open(&path).unwrap();
        assert!(spool.accept(&task(1), 10).is_err());
        spool.event(event(1, ended(5)));
        assert_eq!(read(&spool, 3, 1 << 20).len(), 1);
        assert!(spool.index().task(&task(1)).unwrap().end.is_some());
    }

    #[test]
    fn expect_what_is_forgotten_on_a_full_disk_made_up_for_when_there_is_room_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        run_one(&mut spool, 0, 10);
        run_one(&mut spool, 1, 10);
        let info = LeaseInfo {
            run: task(0).attempt.run,
            epoch: LeaseEpoch(7),
            holder: "x".into(),
            since_unix_ms: 1,
        };
        spool.lease(&Grant { info, ttl: std::time::Duration::from_secs(1), observe: None }).unwrap();
        // The file cannot be appended to, and no new one made.
        spool.file = File::open(&path).unwrap();
        let obstacle = path.with_extension("new");
        std::fs::create_dir(&obstacle).unwrap();
        spool.forget(task(0).attempt);
        spool.free();
        assert!(!spool.index().knows(&task(0)) && spool.index().grant.is_none());
        assert_eq!(read(&spool, 1, 1 << 20).len(), 2);
        assert!(Spool::open(&path).unwrap().index().knows(&task(0)), "nothing could be written");

        std::fs::remove_dir(&obstacle).unwrap();
        spool.settle();
        let again = Spool::open(&path).unwrap();
        assert!(!again.index().knows(&task(0)) && again.index().grant.is_none());
        assert_eq!(again.index().epoch, LeaseEpoch(7));
        assert_eq!(read(&again, 1, 1 << 20), read(&spool, 1, 1 << 20));
    }

    #[test]
    fn expect_the_rest_kept_and_no_number_given_again_when_a_block_in_the_middle_is_damaged() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        for cell in 0..40 {
            run_one(&mut spool, cell, 100);
        }
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle..middle + 512].fill(0);
        std::fs::write(&path, bytes).unwrap();

        let before = spool.index().next_seq;
        for mut again in [Spool::open(&path).unwrap(), Spool::open(&path).unwrap()] {
            let ended = (0..40)
                .filter(|cell| again.index().task(&task(*cell)).is_some_and(|task| task.end.is_some()));
            assert!((36..40).contains(&ended.count()));
            assert!(again.index().next_seq > before && again.index().epoch > LeaseEpoch(512));
            run_one(&mut again, 99, 1);
            assert!(read(&again, before, 1 << 20).len() == 2);
            again.forget(task(99).attempt);
        }
    }

    fn round(number: u64, bytes: usize) -> v1::task_event::Kind {
        let output = v1::OutputSummary {
            written: wide(bytes),
            kept: wide(bytes),
            inline: Some(vec![b'x'; bytes].into()),
        };
        let stdout = Some(output);
        v1::task_event::Kind::Round(v1::Round { number, stdout, wall_us: number, ..Default::default() })
    }

    #[test]
    fn expect_the_oldest_outputs_left_out_and_all_figures_kept_when_rounds_fill_the_spool() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        let mut spool = Spool::open(&path).unwrap();
        spool.shed_at = 200_000;
        spool.accept(&task(0), 10).unwrap();
        for number in 1..=100 {
            spool.event(event(0, round(number, 4000)));
            if spool.shed_at == SHED_BYTES {
                spool.shed_at = 200_000;
            }
            assert!(spool.length < 205_000, "{}", spool.length);
        }
        for spool in [&spool, &Spool::open(&path).unwrap()] {
            let rounds: Vec<_> = read(spool, 1, 1 << 20)
                .into_iter()
                .map(|event| {
                    let Some(v1::task_event::Kind::Round(round)) = event.kind else { panic!() };
                    assert_eq!((event.seq, round.wall_us), (round.number, round.number));
                    assert_eq!(round.stdout.as_ref().unwrap().written, 4000);
                    assert_eq!(round.cut, round.stdout.unwrap().inline.is_none());
                    round.cut
                })
                .collect();
            assert_eq!(rounds.len(), 100);
            assert!(rounds.is_sorted_by(|a, b| a >= b) && rounds[0] && !rounds[99]);
        }
    }

    #[test]
    fn expect_a_clear_refusal_when_the_file_is_something_else() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("spool");
        std::fs::write(&path, b"drspool\x02 and more").unwrap();
        assert!(Spool::open(&path).unwrap_err().to_string().contains("not a spool"));
    }
}
