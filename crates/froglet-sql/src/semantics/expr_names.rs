//! Names of expressions, as DataFusion tells columns apart by them.
//!
//! DataFusion makes an expression's name anew whenever it asks for its type, at each level of a
//! nested call. If names grew with their expressions, a chain of n operators would take n³ steps. So
//! a long name is cut, and its hash stands for the rest: names stay short and different.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::logical_expr::Expr;

/// The longest name, in bytes, that is told whole.
const WHOLE: usize = 160;
/// What is left of a longer one.
const KEPT: usize = 40;

/// The name of an operator's call.
pub(super) fn infix(operator: &str, args: &[Expr]) -> String {
    match args {
        [l, r] => bounded(format!("{} {operator} {}", l.schema_name(), r.schema_name())),
        _ => operator.to_owned(),
    }
}

/// A name that is not long: the same for the same, another for another.
pub(super) fn bounded(name: String) -> String {
    if name.len() <= WHOLE {
        return name;
    }
    let part = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        (seed, &name).hash(&mut hasher);
        hasher.finish()
    };
    let start = name.floor_char_boundary(KEPT);
    format!("{}…{:016x}{:016x}", &name[..start], part(0), part(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_short_and_different() {
        let short = "a + b".to_owned();
        assert_eq!(bounded(short.clone()), short);
        let [one, other] = ["1", "2"].map(|end| bounded("ä".repeat(200) + end));
        assert_ne!(one, other);
        assert_eq!(one, bounded("ä".repeat(200) + "1"));
        assert!(one.len() < WHOLE && one.starts_with("ää"));
    }
}
