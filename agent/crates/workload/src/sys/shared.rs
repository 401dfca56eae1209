//! Memory shared between a server and the workers it forks. Used by the board of counters and by the locks.

use std::io;
use std::ops::Deref;
use std::ptr::NonNull;

use crate::board::WorkerSlot;

/// Types that may live in memory shared between processes.
///
/// # Safety
///
/// All-zero bytes must be a valid value, the type must not need `Drop`, and every access through `&Self` must be
/// sound while other processes change the value at the same time (atomics, or `UnsafeCell` handed to libc).
pub(super) unsafe trait Shareable {}

// SAFETY: consists of atomic integers only, for which zero is a valid value.
unsafe impl Shareable for WorkerSlot {}

/// A zeroed array of `T` in an anonymous shared mapping, which forked children inherit. Unmapped on drop, in the
/// process that drops it.
pub(crate) struct Shared<T> {
    first: NonNull<T>,
    len: usize,
}

impl<T> Shared<T> {
    /// Maps room for `len` zeroed elements.
    #[expect(private_bounds, reason = "the set of shareable types is closed")]
    pub(crate) fn new(len: usize) -> io::Result<Self>
    where
        T: Shareable,
    {
        let bytes = Self::bytes(len).ok_or(io::ErrorKind::OutOfMemory)?;
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice touches no existing memory.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let first = NonNull::new(address.cast::<T>()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { first, len })
    }

    /// Bytes of a mapping of `len` elements; at least one, because empty mappings do not exist.
    fn bytes(len: usize) -> Option<usize> {
        size_of::<T>().max(1).checked_mul(len.max(1))
    }
}

impl<T> Deref for Shared<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `new` mapped `len` elements, page-aligned and zeroed, which `Shareable` declares valid and safe to
        // share; the mapping lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if let Some(bytes) = Self::bytes(self.len) {
            // SAFETY: exactly the mapping that `new` made; no reference into it outlives `self`.
            unsafe { libc::munmap(self.first.as_ptr().cast(), bytes) };
        }
    }
}
