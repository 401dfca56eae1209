//! Decompression of modules and of kernels inside of images, all in memory.

use std::io::{self, Read};

/// The most that a compressed module or kernel may become, in bytes. The largest kernels are a tenth of it.
const LIMIT: u64 = 1 << 30;

/// Why compressed bytes cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// They are damaged.
    #[error("the compressed data is damaged")]
    Damaged(#[source] io::Error),
    /// They become more than any kernel is.
    #[error("the compressed data becomes larger than {LIMIT} bytes")]
    TooLarge,
}

/// How bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Xz,
    Zstd,
    /// One that only kernels use, and that nothing here can read.
    Other,
}

impl Compression {
    /// What the first bytes say.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        const XZ: &[u8] = b"\xfd7zXZ\0";
        const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
        const GZIP: &[u8] = b"\x1f\x8b";
        const LZ4: &[u8] = b"\x02\x21\x4c\x18";
        match bytes {
            _ if bytes.starts_with(XZ) => Self::Xz,
            _ if bytes.starts_with(ZSTD) => Self::Zstd,
            _ if bytes.starts_with(GZIP) || bytes.starts_with(LZ4) => Self::Other,
            _ => Self::None,
        }
    }
}

/// The bytes as they were before compression by xz or zstd; others are returned as they are.
pub(crate) fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, UnpackError> {
    match Compression::of(&bytes) {
        Compression::Xz => read(lzma_rust2::XzReader::new(bytes.as_slice(), true)),
        Compression::Zstd => {
            let decoder = zstd::Decoder::with_buffer(bytes.as_slice()).map_err(UnpackError::Damaged)?;
            // What follows the first frame in an image is no part of the kernel.
            read(decoder.single_frame())
        }
        Compression::None | Compression::Other => Ok(bytes),
    }
}

fn read(from: impl Read) -> Result<Vec<u8>, UnpackError> {
    let mut bytes = Vec::new();
    let count = from.take(LIMIT + 1).read_to_end(&mut bytes).map_err(UnpackError::Damaged)?;
    if u64::try_from(count).is_ok_and(|count| count <= LIMIT) {
        Ok(bytes)
    } else {
        Err(UnpackError::TooLarge)
    }
}
