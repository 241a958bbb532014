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
        assert_eq!(u32::from(display_scale(&bytes)), value.scale().unwrap_or_default());
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

/// A message of digits' count, weight, sign, display scale and digits.
fn received(words: &[u16]) -> Result<String, NumericError> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    Exact::from_binary(&bytes).map(|value| value.to_string())
}

#[test]
fn messages_are_read_as_numeric_recv_reads_them() {
    let text = |text: &str| Ok(text.to_owned());
    assert_eq!(received(&[2, 0, 0x4000, 3, 1, 2345]), text("-1.234"), "digits beyond the scale");
    assert_eq!(received(&[2, 0, 0, 0, 1, 2345]), text("1"));
    assert_eq!(received(&[1, 0xFFFE, 0x4000, 4, 9999]), text("0.0000"));
    assert_eq!(received(&[3, 2, 0, 0, 0, 0, 7]), text("7"), "zeros in front");
    assert_eq!(received(&[2, 1, 0, 2, 1, 0]), text("10000.00"), "zeros behind");
    assert_eq!(received(&[0, 0, 0x4000, 1]), text("0.0"));
    assert_eq!(received(&[0, 0, 0xD000, 0]), text("Infinity"));
    assert_eq!(received(&[1, 0, 0, 0]), Err(NumericError::Short));
    for words in [[1, 0, 1, 0, 1], [1, 0, 0, 0x4000, 1], [1, 0, 0, 0, 10_000], [0, 0, 0, 0, 1]] {
        assert!(matches!(received(&words), Err(NumericError::Binary(_))), "{words:?}");
    }
}

#[test]
fn decimals_of_arrow_are_rounded_and_bounded() {
    assert_eq!(exact("1.005").to_unscaled(38, 2), Ok(101));
    assert_eq!(exact("-1234.5").to_unscaled(4, -2), Ok(-12));
    assert_eq!(Exact::from_unscaled(-12, -2).to_string(), "-1200");
    assert_eq!(exact("1e37").to_unscaled(38, 0), Ok(10i128.pow(37)));
    for text in ["1e38", "99999999999999999999999999999999999999.5", "Infinity", "NaN"] {
        assert!(exact(text).to_unscaled(38, 0).is_err(), "{text}");
    }
}
