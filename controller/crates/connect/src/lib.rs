//! Ways to reach an agent; each ends in a tonic channel. The driver calls it and knows nothing of what carries the bytes.

mod local;

pub use local::{ConnectError, LocalOptions, connect_local};

/// A client of an agent's service.
pub type Client = drover_proto::v1::agent_client::AgentClient<tonic::transport::Channel>;

/// A connection that stands, after both sides said hello.
#[derive(Debug)]
pub struct Connection {
    /// For requests.
    pub client: Client,
    /// What the agent said of itself and its host.
    pub hello: drover_proto::Hello,
    /// No agent answered, so this call started one.
    pub started: bool,
}
