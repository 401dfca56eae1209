//! The built-in server and client: a pre-forked accept() server and a connection client.
