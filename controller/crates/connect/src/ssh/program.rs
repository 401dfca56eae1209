//! The agent's program in memory: once, for all hosts that it is brought to at the same time.

use std::{
    io,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use super::cksum::cksum;
use crate::AgentBinary;

/// The last one that was read, by its hash.
static LAST: Mutex<(String, Weak<Program>)> = Mutex::new((String::new(), Weak::new()));

/// A program to bring to hosts.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) bytes: Vec<u8>,
    /// POSIX checksum of the bytes.
    pub(super) checksum: u32,
}

/// The program, read unless somebody has it already.
pub(super) fn load(agent: &AgentBinary) -> io::Result<Arc<Program>> {
    // Held while it is read: the others wait, and then share it.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.0 == agent.hash
        && let Some(program) = last.1.upgrade()
    {
        return Ok(program);
    }
    let bytes = std::fs::read(&agent.path)?;
    if blake3::hash(&bytes).to_hex().as_str() != agent.hash {
        return Err(io::Error::other("it was replaced meanwhile; try again"));
    }
    let program = Arc::new(Program { checksum: cksum(&bytes), bytes });
    *last = (agent.hash.clone(), Arc::downgrade(&program));
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_one_copy_while_it_is_used_and_a_refusal_when_the_file_was_replaced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"program").unwrap();
        let agent = AgentBinary::read(file.path().to_owned(), Vec::new()).unwrap();
        let first = load(&agent).unwrap();
        assert!(Arc::ptr_eq(&first, &load(&agent).unwrap()));
        assert_eq!(first.bytes, b"program");
        drop(first);
        std::fs::write(file.path(), b"another").unwrap();
        assert!(load(&agent).unwrap_err().to_string().contains("replaced"));
    }
}
