//! The bytes' invariants by random values, and a table of cases whose results PostgreSQL 15 gave.

use std::cmp::Ordering;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;

/// The text of a random number: few digits or many, zeros in front and behind, any scale.
fn random_text(random: &mut StdRng) -> String {
    let most = [1, 4, 9, 20, 40, 120][random.random_range(0..6)];
    let digits = |random: &mut StdRng, most: usize| -> String {
        let count = random.random_range(0..=most);
        let zeros = random.random_bool(0.3);
        let digit = |random: &mut StdRng| match zeros && random.random_bool(0.8) {
            true => '0',
            false => char::from(b'0' + random.random_range(0..10u8)),
        };
        (0..count).map(|_| digit(random)).collect()
    };
    match random.random_range(0..40) {
        0 => "NaN".to_owned(),
        1 => "Infinity".to_owned(),
        2 => "-Infinity".to_owned(),
        n => {
            let (whole, fraction) = (digits(random, most), digits(random, most));
            let sign = if n % 2 == 0 { "-" } else { "" };
            let exponent = match n {
                3..6 => format!("e{}", random.random_range(-40..40)),
                _ => String::new(),
            };
            format!("{sign}0{whole}.{fraction}{exponent}")
        }
    }
}

fn exact(text: &str) -> Exact {
    Exact::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn order_parts_compare_as_values_do() {
    let mut random = StdRng::seed_from_u64(1);
    let values: Vec<Exact> = (0..700).map(|_| exact(&random_text(&mut random))).collect();
    let bytes: Vec<Vec<u8>> = values.iter().map(Exact::encode).collect();
    for (a, a_bytes) in values.iter().zip(&bytes) {
        for (b, b_bytes) in values.iter().zip(&bytes) {
            assert_eq!(order(a_bytes).cmp(order(b_bytes)), a.cmp(b), "{a} and {b}");
            let same = a.cmp(b) == Ordering::Equal && a.scale() == b.scale();
            assert_eq!(a_bytes == b_bytes, same, "{a} and {b}");
        }
    }
}

#[test]
fn bytes_and_wire_read_back() {
    let mut random = StdRng::seed_from_u64(2);
    for _ in 0..20_000 {
        let value = exact(&random_text(&mut random));
        let text = value.to_string();
        let bytes = value.encode();
        assert_eq!(Exact::decode(&bytes).map(|v| v.to_string()), Ok(text.clone()));
        assert_eq!(u32::from(scale(&bytes)), value.scale().unwrap_or_default());
        assert_eq!(exact(&text).encode(), bytes, "{text}");
        let mut wire = Vec::new();
        value.write_binary(&mut wire);
        assert_eq!(Exact::from_binary(&wire).map(|v| v.encode()), Ok(bytes), "{text}");
    }
}

#[test]
fn damaged_bytes_are_errors_or_other_values() {
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..20_000 {
        let mut bytes = exact(&random_text(&mut random)).encode();
        match random.random_range(0..3) {
            0 => bytes.truncate(random.random_range(0..bytes.len())),
            1 => bytes.push(random.random()),
            _ => {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
        }
        if let Ok(value) = Exact::decode(&bytes) {
            assert_eq!(value.encode(), bytes, "N3");
        }
        let _ = Exact::from_binary(&bytes);
    }
}
