//! The ways to a new schema that are compared.

/// How the clients come to the new schema.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// Not at all: the clients stay on the old schema
    #[value(name = "noddl")]
    NoDdl,
    /// The change is made while no client has a transaction
    EagerBlocking,
    /// A client fills the new tables while the others write to both, then all read the new ones
    MultiStep,
    /// Eager and online: the clients go on until the commit
    Tesseract,
    /// The commit first, rows when they are touched, and then in the background (BullFrog)
    Lazy,
    /// Lazy, but the background begins at once and does not wait
    Hybrid,
    /// Lazy, but rows are made before it is asked whether others do (BullFrog, section 4.3.7)
    LazyOnConflict,
    /// Every one of them
    All,
}

/// In the order in which they are shown.
const EVERY: [Approach; 7] = [
    Approach::NoDdl,
    Approach::EagerBlocking,
    Approach::MultiStep,
    Approach::Tesseract,
    Approach::Lazy,
    Approach::Hybrid,
    Approach::LazyOnConflict,
];

impl Approach {
    /// Those that were asked for, each once; [`Approach::NoDdl`] always, which others are compared
    /// with.
    pub fn wanted(given: &[Approach]) -> Vec<Approach> {
        let is_wanted = |a: &Approach| {
            *a == Approach::NoDdl || given.contains(&Approach::All) || given.contains(a)
        };
        EVERY.into_iter().filter(is_wanted).collect()
    }

    /// What it is called in tables and pictures.
    pub fn name(self) -> &'static str {
        match self {
            Approach::NoDdl => "NoDDL",
            Approach::EagerBlocking => "Eager-blocking",
            Approach::MultiStep => "Multi-step",
            Approach::Tesseract => "Tesseract",
            Approach::Lazy => "Lazy",
            Approach::Hybrid => "Hybrid",
            Approach::LazyOnConflict => "Lazy, ON CONFLICT",
            Approach::All => "all",
        }
    }

    /// Of its line.
    pub fn colour(self) -> &'static str {
        match self {
            Approach::NoDdl | Approach::All => "#9a9a9a",
            Approach::EagerBlocking => "#d55e00",
            Approach::MultiStep => "#009e73",
            Approach::Tesseract => "#0072b2",
            Approach::Lazy => "#cc79a7",
            Approach::Hybrid => "#56b4e9",
            Approach::LazyOnConflict => "#e69f00",
        }
    }

    /// What a server must be told.
    pub fn settings(self) -> Vec<String> {
        let mode = |mode: &str| format!("SET froglet.migration = {mode}");
        match self {
            Approach::Lazy => vec![mode("lazy")],
            Approach::Hybrid => vec![mode("hybrid")],
            Approach::LazyOnConflict => {
                vec![mode("lazy"), "SET froglet.migration_detection = on_conflict".to_owned()]
            }
            _ => vec![mode("eager")],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_are_compared_with_is_always_there() {
        let wanted = Approach::wanted(&[Approach::Lazy, Approach::MultiStep]);
        assert_eq!(wanted, [Approach::NoDdl, Approach::MultiStep, Approach::Lazy]);
        assert_eq!(Approach::wanted(&[Approach::All]), EVERY);
    }
}
