//! Files of a task that are too large for its start: staged on the host by their hash, once for all tasks that need them.

use drover_model::{Blob, BlobHash, TaskSpec};
use drover_proto::v1;
use tonic::Status;

use super::Client;

/// Files of a task that travel with its start, in bytes together; what is beyond is staged.
const INLINE_LIMIT: usize = 256 << 10;
/// Bytes in one piece of a blob.
const CHUNK: usize = 256 << 10;

/// Sends the files that the host does not have yet, largest first, until the rest can travel with the task; names them in it.
pub async fn stage(client: &mut Client, lease: &v1::LeaseRef, task: &mut TaskSpec) -> Result<(), Status> {
    let mut inline: usize = task.files.iter().map(|file| file.contents.len()).sum();
    let mut staged = Vec::new();
    while inline > INLINE_LIMIT {
        let Some(file) = task.files.iter_mut().max_by_key(|file| file.contents.len()) else { break };
        let contents = std::mem::take(&mut file.contents);
        inline -= contents.len();
        let size = u64::try_from(contents.len()).unwrap_or(u64::MAX);
        let blob = Blob { hash: BlobHash::of(&contents), size };
        file.blob = Some(blob.clone());
        staged.push((blob, contents));
    }
    if staged.is_empty() {
        return Ok(());
    }
    let hashes = staged.iter().map(|(blob, _)| blob.hash.to_string()).collect();
    let request = v1::MissingBlobsRequest { lease: Some(lease.clone()), hashes };
    let missing = client.missing_blobs(request).await?.into_inner().hashes;
    for (blob, contents) in staged {
        if missing.contains(&blob.hash.to_string()) {
            put(client, lease, blob, contents.to_vec()).await?;
        }
    }
    Ok(())
}

async fn put(client: &mut Client, lease: &v1::LeaseRef, blob: Blob, contents: Vec<u8>) -> Result<(), Status> {
    use v1::put_blob_chunk::Part;
    let header = v1::BlobHeader { lease: Some(lease.clone()), blob: Some(blob.into()) };
    let starts = (0..contents.len()).step_by(CHUNK);
    let pieces: Vec<_> = starts
        .filter_map(|start| contents.get(start..contents.len().min(start + CHUNK)))
        .map(|piece| Part::Data(piece.to_vec().into()))
        .collect();
    let parts = std::iter::once(Part::Header(header)).chain(pieces);
    let chunks = parts.map(|part| v1::PutBlobChunk { part: Some(part) });
    client.put_blob(tokio_stream::iter(chunks.collect::<Vec<_>>())).await.map(drop)
}
