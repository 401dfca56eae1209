//! What `ListArtifacts` answers.

use drover_model::{Artifact, Artifacts};

use crate::v1;

impl From<Artifacts> for v1::ListArtifactsReply {
    fn from(artifacts: Artifacts) -> Self {
        let files = artifacts.files.into_iter();
        let files =
            files.map(|Artifact { path, size, skipped }| v1::Artifact { path, size, skipped }).collect();
        Self { artifacts: files, cut: artifacts.cut }
    }
}

impl From<v1::ListArtifactsReply> for Artifacts {
    fn from(reply: v1::ListArtifactsReply) -> Self {
        let files = reply.artifacts.into_iter();
        let files =
            files.map(|v1::Artifact { path, size, skipped }| Artifact { path, size, skipped }).collect();
        Self { files, cut: reply.cut }
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #[test]
        fn lists_of_artifacts_survive_the_wire(
            files in vec((".{0,12}", any::<u64>(), any::<Option<String>>()), 0..4), cut: Option<String>,
        ) {
            let files = files.into_iter().map(|(path, size, skipped)| Artifact { path, size, skipped }).collect();
            let artifacts = Artifacts { files, cut };
            prop_assert_eq!(Artifacts::from(v1::ListArtifactsReply::from(artifacts.clone())), artifacts);
        }
    }
}
