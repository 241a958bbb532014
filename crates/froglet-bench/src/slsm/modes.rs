//! The ways to the new schema that are compared, all on one engine.

use crate::tpccd::flip::approach::Approach;

/// How the clients come to the new tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Nothing is migrated meanwhile.
    Upperbound,
    /// A client fills the new tables while the others write to both (F1's way, by the clients).
    Osc,
    /// Rows are moved by a transaction before that of whoever wants them; keys are by table (BullFrog's way).
    BullFrog,
    /// Rows are kept with those that they are made of.
    CoLocated,
    /// Rows are moved by the transaction that wants them.
    Fused,
    /// Both.
    Slsm,
}

impl Mode {
    /// The paper's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Upperbound => "Upperbound",
            Mode::Osc => "OSC",
            Mode::BullFrog => "BullFrog",
            Mode::CoLocated => "Basic, co-located",
            Mode::Fused => "Basic, fused",
            Mode::Slsm => "SLSM",
        }
    }

    /// What runs it while TPC-C goes on.
    pub fn approach(self) -> Approach {
        match self {
            Mode::Upperbound => Approach::NoDdl,
            Mode::Osc => Approach::MultiStep,
            Mode::BullFrog | Mode::CoLocated | Mode::Fused | Mode::Slsm => Approach::Lazy,
        }
    }

    /// Of its line.
    pub fn colour(self) -> &'static str {
        match self {
            Mode::Upperbound => "#9a9a9a",
            Mode::Osc => "#009e73",
            Mode::BullFrog => "#d55e00",
            Mode::CoLocated => "#e69f00",
            Mode::Fused => "#56b4e9",
            Mode::Slsm => "#0072b2",
        }
    }

    /// What the session that makes the change is told.
    pub fn settings(self) -> Vec<String> {
        let (fuses, colocates) = match self {
            Mode::Upperbound | Mode::Osc => return Vec::new(),
            Mode::BullFrog => (false, false),
            Mode::CoLocated => (false, true),
            Mode::Fused => (true, false),
            Mode::Slsm => (true, true),
        };
        let set = |name: &str, on: bool| format!("SET {name} = {}", if on { "on" } else { "off" });
        vec![set("froglet.slsm_fuse", fuses), set("froglet.slsm_colocate", colocates)]
    }
}
