//! The stream of `PutBlob`.

use std::sync::Arc;

use drover_model::Blob;
use drover_proto::{LeaseRef, MAX_CHUNK_BYTES, v1};
use tonic::{Status, Streaming};

use super::store::BlobError;
use crate::{
    agent::Agent,
    refused::Refused,
    request::{at, lease_ref, missing},
};

/// Takes a blob: its header, then its bytes.
///
/// # Errors
/// When the stream breaks, the lease is not the present one, or the blob is not taken; nothing is kept then.
pub async fn receive(agent: &Arc<Agent>, mut stream: Streaming<v1::PutBlobChunk>) -> Result<(), Status> {
    let (lease, blob) = header(stream.message().await?)?;
    agent.registry().check(lease)?;
    if agent.blobs.has(&blob) {
        return Ok(());
    }
    let mut upload = agent.blobs.begin(blob).map_err(Refused::Blob)?;
    while let Some(chunk) = stream.message().await? {
        agent.registry().check(lease)?;
        let Some(v1::put_blob_chunk::Part::Data(data)) = chunk.part else {
            return Err(Refused::Argument("a blob is its header, then nothing but data").into());
        };
        if data.len() > MAX_CHUNK_BYTES {
            return Err(Refused::Argument("a piece of a blob has more than 256 KiB").into());
        }
        upload = blocking(move || upload.write(&data).map(|()| upload)).await?;
    }
    blocking(move || upload.finish()).await
}

fn header(first: Option<v1::PutBlobChunk>) -> Result<(LeaseRef, Blob), Refused> {
    let part = first.and_then(|chunk| chunk.part);
    let Some(v1::put_blob_chunk::Part::Header(header)) = part else { return Err(missing("header")) };
    let lease = lease_ref(header.lease)?;
    let blob = Blob::try_from(header.blob.ok_or_else(|| missing("header.blob"))?);
    Ok((lease, blob.map_err(|error| at("header.blob", error))?))
}

/// Writes on another thread: the disk may be slow.
async fn blocking<T: Send + 'static>(
    write: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, Status> {
    match tokio::task::spawn_blocking(write).await {
        Ok(written) => Ok(written.map_err(Refused::Blob)?),
        Err(error) => Err(Status::internal(format!("the blob was not written: {error}"))),
    }
}
