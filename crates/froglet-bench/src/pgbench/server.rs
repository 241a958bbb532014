//! Whom pgbench asks.

use std::path::Path;
use std::process::Command;

use crate::postgres::{self, Postgres};
use crate::server::Froglet;

/// A server that clients can be pointed at.
pub trait Server {
    /// Where it listens.
    fn port(&self) -> u16;

    /// Its process, if its processor time is of interest.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// The command that fills it, if there is anything to fill.
    fn prepare(&self, pgbench: &Path, scale: u16) -> Option<Command> {
        let mut command = self.client(pgbench);
        command.args(["-i", "-q", "-s", &scale.to_string()]);
        Some(command)
    }

    /// A client program of PostgreSQL's, pointed at this server.
    fn client(&self, program: &Path) -> Command {
        postgres::client(program, self.port())
    }
}

impl Server for Postgres {
    fn port(&self) -> u16 {
        Postgres::port(self)
    }

    fn pid(&self) -> Option<u32> {
        Some(Postgres::pid(self))
    }
}

impl Server for Froglet {
    fn port(&self) -> u16 {
        Froglet::port(self)
    }

    fn pid(&self) -> Option<u32> {
        Some(Froglet::pid(self))
    }
}
