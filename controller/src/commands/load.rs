//! Reads matrices for the commands: the file, the files it refers to, and what the command line changes.

use std::path::Path;

use drover_matrix::{Diagnostics, Matrix, Options, Source, parse};
use drover_store::RunRecord;

use crate::{error::Failure, exit::ExitStatus, screen::Screen};

/// A checked matrix with the bytes it was made of, so that a run can be repeated from the store.
pub struct Loaded {
    pub matrix: Matrix,
    pub text: Vec<u8>,
    /// Path as written in the matrix, and contents.
    pub files: Vec<(String, Vec<u8>)>,
}

/// Largest matrix or host file, in bytes.
const FILE_LIMIT: u64 = 16 << 20;

/// Reads and checks a matrix file.
pub fn load(path: &Path, options: &Options, screen: &Screen) -> Result<Loaded, Failure> {
    let text = read(path).map_err(|why| {
        Failure::new(ExitStatus::Usage, format!("cannot read the matrix {}: {why}", path.display()))
    })?;
    let source = Source::new(path.display().to_string(), text.clone());
    let matrix = parse(&source, options).map_err(|found| refuse(found, screen))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for reference in matrix.file_references() {
        // One byte too many is enough to tell.
        let most = matrix.file_limit().saturating_add(1);
        let contents = read_first(&folder.join(&reference.path), most)
            .map_err(|why| refuse(matrix.file_problem(reference, &why).into(), screen))?;
        files.push((reference.path.clone(), contents));
    }
    let contents: Vec<_> = files.iter().map(|(_, contents)| contents.clone()).collect();
    let matrix = matrix.with_files(&contents).map_err(|found| refuse(found, screen))?;
    Ok(Loaded { matrix, text, files })
}

/// Checks a matrix that was stored with a run.
pub fn restore(record: &RunRecord, screen: &Screen) -> Result<Matrix, Failure> {
    let options = Options { set: record.set.clone(), only: record.only.clone(), ..Options::default() };
    let source = Source::new(record.matrix_path.clone(), record.matrix_text.as_bytes());
    let matrix = parse(&source, &options).map_err(|found| refuse(found, screen))?;
    let contents: Vec<_> = record.matrix_files.iter().map(|(_, contents)| contents.clone()).collect();
    let matrix = matrix.with_files(&contents).map_err(|found| refuse(found, screen))?;
    Ok(matrix.with_repeat(record.repeat))
}

/// Reads a matrix or a host file.
pub fn read(path: &Path) -> Result<Vec<u8>, String> {
    let bytes = read_first(path, FILE_LIMIT.saturating_add(1))?;
    if is_longer(&bytes, FILE_LIMIT) {
        return Err(format!("it has more than {FILE_LIMIT} bytes"));
    }
    Ok(bytes)
}

/// Reads a file, or so many bytes of its beginning.
fn read_first(path: &Path, most: u64) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().map_err(|error| error.to_string())?.is_dir() {
        return Err("it is a folder".to_owned());
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    Ok(bytes)
}

fn is_longer(bytes: &[u8], limit: u64) -> bool {
    u64::try_from(bytes.len()).is_ok_and(|length| length > limit)
}

/// Prints the mistakes of a matrix: with colours and source lines at a terminal, plain elsewhere.
pub fn refuse(found: Diagnostics, screen: &Screen) -> Failure {
    let text = if screen.interactive() {
        let theme = if screen.colours() {
            miette::GraphicalTheme::unicode()
        } else {
            miette::GraphicalTheme::unicode_nocolor()
        };
        let mut text = String::new();
        let fancy = drover_matrix::FancyDiagnostics(found.clone());
        match miette::GraphicalReportHandler::new_themed(theme).render_report(&mut text, &fancy) {
            Ok(()) => text,
            Err(_) => found.to_string(),
        }
    } else {
        found.to_string()
    };
    Failure::styled(ExitStatus::Usage, text.trim_end().to_owned())
}
