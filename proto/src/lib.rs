//! The `drover.v1` wire contract: generated code and conversions to and from the model.

/// Generated code.
pub mod v1 {
    #![expect(missing_docs, unused_qualifications, reason = "generated; the .proto files are the documentation")]
    tonic::include_proto!("drover.v1");
}
