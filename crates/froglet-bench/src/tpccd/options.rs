//! What `froglet bench tpccd` alone can be asked.

use std::path::PathBuf;

use super::flip::approach::Approach;

/// What a sweep varies.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// The size of the tables (Tesseract, figure 5)
    Rows,
    /// The threads of scan and capture (Tesseract, figure 6)
    Threads,
    /// With --approach: the customers that clients name (BullFrog, figure 4.10)
    Hot,
    /// With --approach: the rows that are migrated at once (BullFrog, figure 4.11)
    Granules,
    /// With --approach: foreign keys of the new tables (BullFrog, figure 4.12)
    Keys,
    /// With --approach: what tracking costs (BullFrog, figure 4.9)
    Tracking,
    /// With --approach: the first answer by the rows of the table
    Sizes,
}

impl Sweep {
    /// Whether it is made with `--approach` only.
    pub fn is_of_flips(self) -> bool {
        !matches!(self, Sweep::Rows | Sweep::Threads)
    }
}

/// Options of tpccd.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Options {
    /// Open loop: transactions arrive, evenly spaced, at this part of the clients' own rate (tpccd)
    #[arg(long, value_name = "F", value_parser = part)]
    pub load: Option<f64>,

    /// Instead of comparing approaches, make the changes online (or lazily) while this varies (tpccd)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    pub sweep: Vec<Sweep>,

    /// Rows of the microbenchmark's table in the sweep over rows (tpccd; 1, 10 and 50 million)
    #[arg(long, value_name = "N,N", value_delimiter = ',',
          value_parser = clap::value_parser!(u64).range(1_000..))]
    pub sizes: Vec<u64>,

    /// TPC-C's warehouses in the sweep over rows (tpccd; 1, 2, 4 and 8)
    #[arg(long, value_name = "N,N", value_delimiter = ',',
          value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub warehouses: Vec<u16>,

    /// Leave PostgreSQL out (tpccd, mainlining)
    #[arg(long)]
    pub no_postgres: bool,

    /// Big flips instead, in these ways: clients use the new schema from the commit on (tpccd)
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,NAME")]
    pub approach: Vec<Approach>,

    /// Table, JSON and SVGs go into here (mainlining, skeena, slsm); all is measured, and goes into here (tpccd)
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
}

/// The part of the clients' rate that an open loop has if nothing else is said.
const LOAD: f64 = 0.5;

impl Options {
    /// The loops to compare approaches in: closed, or open at a part of the clients' rate.
    pub fn loops(&self) -> Vec<Option<f64>> {
        match (&self.figures, self.sweep.is_empty()) {
            (Some(_), _) => vec![None, Some(self.load.unwrap_or(LOAD))],
            (None, true) => vec![self.load],
            (None, false) => vec![],
        }
    }

    /// Whether a sweep is to be made.
    pub fn sweeps(&self, sweep: Sweep) -> bool {
        self.figures.is_some() || self.sweep.contains(&sweep)
    }
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part <= 1.0 => Ok(part),
        _ => Err(format!("{text:?} is not a part of the rate, above 0 and at most 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loops_are_one_unless_all_figures_are_wanted() {
        let options = Options::default();
        assert_eq!(options.loops(), [None]);
        let options = Options { load: Some(0.7), ..options };
        assert_eq!(options.loops(), [Some(0.7)]);
        let options = Options { sweep: vec![Sweep::Rows], ..options };
        assert!(options.loops().is_empty() && !options.sweeps(Sweep::Threads));
        let options = Options { figures: Some("d".into()), ..options };
        assert_eq!(options.loops(), [None, Some(0.7)]);
        assert!(options.sweeps(Sweep::Threads));
    }

    #[test]
    fn a_part_is_one() {
        assert_eq!(part("0.5"), Ok(0.5));
        assert!(["0", "1.1", "NaN", "half"].into_iter().all(|text| part(text).is_err()));
    }
}
