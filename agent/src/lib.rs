//! The agent: runs tasks on a host on behalf of a controller.
