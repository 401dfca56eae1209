//! Blobs, and the files whose contents they are.

use drover_model::{Blob, BlobHash, StagedFile};

use crate::{ConversionError, Problem, v1};

impl From<Blob> for v1::Blob {
    fn from(blob: Blob) -> Self {
        Self { hash: blob.hash.to_string(), size: blob.size }
    }
}

impl TryFrom<v1::Blob> for Blob {
    type Error = ConversionError;

    fn try_from(blob: v1::Blob) -> Result<Self, ConversionError> {
        let hash: Result<BlobHash, _> = blob.hash.parse();
        Ok(Self {
            hash: hash.map_err(|error| ConversionError::new("hash", Problem::Hash(error)))?,
            size: blob.size,
        })
    }
}

impl From<StagedFile> for v1::StagedFile {
    fn from(file: StagedFile) -> Self {
        Self {
            path: file.path,
            contents: file.contents.into(),
            executable: file.executable,
            blob: file.blob.map(Into::into),
        }
    }
}

impl TryFrom<v1::StagedFile> for StagedFile {
    type Error = ConversionError;

    fn try_from(file: v1::StagedFile) -> Result<Self, ConversionError> {
        let blob = file.blob.map(Blob::try_from).transpose().map_err(|error| error.within("blob"))?;
        if blob.is_some() && !file.contents.is_empty() {
            return Err(ConversionError::new("contents", Problem::Both("blob")));
        }
        Ok(Self { path: file.path, contents: file.contents.into(), executable: file.executable, blob })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expect_the_field_named_when_a_staged_file_is_bad() {
        let blob = v1::Blob { hash: BlobHash::of(b"x").to_string(), size: 1 };
        let good = v1::StagedFile { blob: Some(blob), ..Default::default() };
        assert!(StagedFile::try_from(good.clone()).is_ok());
        let both = v1::StagedFile { contents: b"x".to_vec().into(), ..good.clone() };
        assert_eq!(StagedFile::try_from(both).unwrap_err().field, "contents");
        let bad = v1::StagedFile { blob: Some(v1::Blob { hash: "../../x".into(), size: 1 }), ..good };
        assert_eq!(StagedFile::try_from(bad).unwrap_err().field, "blob.hash");
    }
}
