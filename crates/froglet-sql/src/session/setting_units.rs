//! Units of settings: amounts of memory and of time, written in any unit and kept in one.

/// What a setting's number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    None,
    /// Bytes in one.
    Memory(u32),
    /// Microseconds in one.
    Time(u64),
}

const MEMORY: &[(&str, f64)] = &[
    ("TB", 1_099_511_627_776.0),
    ("GB", 1_073_741_824.0),
    ("MB", 1_048_576.0),
    ("kB", 1024.0),
    ("B", 1.0),
];
const TIME: &[(&str, f64)] =
    &[("d", 86_400e6), ("h", 3_600e6), ("min", 60e6), ("s", 1e6), ("ms", 1e3), ("us", 1.0)];

impl Unit {
    /// As pg_settings.unit has it.
    pub(crate) fn named(name: &str) -> Unit {
        match name {
            "B" => Unit::Memory(1),
            "kB" => Unit::Memory(1024),
            "8kB" => Unit::Memory(8192),
            "MB" => Unit::Memory(1_048_576),
            "ms" => Unit::Time(1_000),
            "s" => Unit::Time(1_000_000),
            "min" => Unit::Time(60_000_000),
            _ => Unit::None,
        }
    }

    /// Its name.
    pub(crate) fn name(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Memory(1) => Some("B"),
            Unit::Memory(1024) => Some("kB"),
            Unit::Memory(8192) => Some("8kB"),
            Unit::Memory(_) => Some("MB"),
            Unit::Time(1_000) => Some("ms"),
            Unit::Time(1_000_000) => Some("s"),
            Unit::Time(_) => Some("min"),
        }
    }

    fn table(self) -> (&'static [(&'static str, f64)], f64) {
        match self {
            Unit::None => (&[], 1.0),
            Unit::Memory(bytes) => (MEMORY, f64::from(bytes)),
            Unit::Time(us) => (TIME, us as f64),
        }
    }

    /// What to say to whoever has used another.
    pub(crate) fn hint(self) -> Option<&'static str> {
        match self {
            Unit::None => None,
            Unit::Memory(_) => Some(
                "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".",
            ),
            Unit::Time(_) => Some(
                "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \
                 \"d\".",
            ),
        }
    }

    /// A number with or without a unit, in this one; not rounded. The error says that the unit is at fault.
    pub(crate) fn parse(self, text: &str) -> Result<f64, bool> {
        let text = text.trim();
        let (number, unit) = split(text);
        let value = match number.strip_prefix("0x").or_else(|| number.strip_prefix("0X")) {
            Some(digits) => i64::from_str_radix(digits, 16).map_err(|_| false)? as f64,
            None => number.parse::<f64>().map_err(|_| false)?,
        };
        if !value.is_finite() {
            return Err(false);
        }
        if unit.is_empty() {
            return Ok(value);
        }
        let (table, one) = self.table();
        let (_, size) = table.iter().find(|(name, _)| *name == unit).ok_or(true)?;
        Ok(value * size / one)
    }

    /// In the largest unit that is exact, as SHOW has it.
    pub(crate) fn show(self, value: f64) -> String {
        let (table, one) = self.table();
        let amount = value * one;
        let fits = |size: f64| amount >= size && (amount / size).fract() == 0.0;
        match table.iter().find(|(_, size)| value > 0.0 && fits(*size)) {
            Some((name, size)) => format!("{}{name}", amount / size),
            None => value.to_string(),
        }
    }
}

/// A number, and what follows it.
fn split(text: &str) -> (&str, &str) {
    let hex = text.starts_with("0x") || text.starts_with("0X");
    let is_digit = |at: usize, c: char| match c {
        '0'..='9' | '.' => true,
        '+' | '-' => at == 0 || text[..at].ends_with(['e', 'E']),
        'x' | 'X' => at == 1 && hex,
        'a'..='f' | 'A'..='F' if hex => true,
        'e' | 'E' => text[at + 1..].starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c)),
        _ => false,
    };
    let end =
        text.char_indices().find(|(at, c)| !is_digit(*at, *c)).map_or(text.len(), |(at, _)| at);
    (&text[..end], text[end..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_kept_in_one_unit_and_shown_in_the_largest() {
        let pages = Unit::named("8kB");
        assert_eq!(pages.parse("4GB"), Ok(524_288.0));
        assert_eq!(pages.show(524_288.0), "4GB");
        assert_eq!(pages.show(1.0), "8kB");
        assert_eq!(Unit::named("kB").parse("1.5 MB"), Ok(1536.0));
        assert_eq!(Unit::named("kB").parse("1e3"), Ok(1000.0));
        assert_eq!(Unit::named("kB").parse("4mb"), Err(true));
        assert_eq!(Unit::named("kB").parse("much"), Err(false));
        assert_eq!(Unit::None.parse("0x10"), Ok(16.0));
        assert_eq!(Unit::named("ms").show(90_000.0), "90s");
        assert_eq!(Unit::named("ms").show(0.0), "0");
        assert_eq!(Unit::named("ms").show(-1.0), "-1");
    }
}
