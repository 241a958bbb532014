//! The server as its clients see it: started in this process on a free port and a data directory
//! of its own, driven by tokio-postgres and by bytes.

mod connections;
mod copy;
mod malformed;
mod pipeline;
mod queries;
mod start;
mod support;
