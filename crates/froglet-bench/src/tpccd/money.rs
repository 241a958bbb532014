//! Money in PostgreSQL's binary `numeric`: cents to the server and back, without a decimal library.
//!
//! ```text
//!   i16 digits │ i16 weight │ u16 sign │ u16 scale │ digits × u16, to the base of 10,000
//!   value = Σ digit[i] · 10,000^(weight − i)
//! ```

use std::error::Error;

use bytes::{BufMut, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, accepts, to_sql_checked};

const BASE: u64 = 10_000;
const NEGATIVE: u16 = 0x4000;

/// An amount of money.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cents(pub i64);

impl ToSql for Cents {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let magnitude = self.0.unsigned_abs();
        let (mut whole, cents) = (magnitude / 100, magnitude % 100);
        // The least significant digit first.
        let mut digits = vec![(cents * 100) as u16];
        while whole > 0 {
            digits.push((whole % BASE) as u16);
            whole /= BASE;
        }
        out.put_i16(digits.len() as i16);
        out.put_i16(digits.len() as i16 - 2);
        out.put_u16(if self.0 < 0 { NEGATIVE } else { 0 });
        out.put_u16(2);
        digits.iter().rev().for_each(|digit| out.put_u16(*digit));
        Ok(IsNull::No)
    }

    accepts!(NUMERIC);
    to_sql_checked!();
}

impl<'a> FromSql<'a> for Cents {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Cents, Box<dyn Error + Sync + Send>> {
        let words: Vec<u16> =
            raw.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        let [_, weight, sign, _, digits @ ..] = &words[..] else {
            return Err("a numeric has a head of eight bytes".into());
        };
        let weight = i32::from(*weight as i16);
        let mut cents = 0i64;
        for (digit, power) in digits.iter().zip((i32::MIN..=weight).rev()) {
            let digit = i64::from(*digit);
            cents += match power {
                0..=3 => digit * 100 * (BASE as i64).pow(power.unsigned_abs()),
                -1 if digit % 100 == 0 => digit / 100,
                _ if digit == 0 => 0,
                _ => return Err("this numeric is no amount of money".into()),
            };
        }
        Ok(Cents(if *sign == NEGATIVE { -cents } else { cents }))
    }

    accepts!(NUMERIC);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_come_back_as_they_went() {
        for cents in [0, 1, 99, 100, 12_345, 1_000_000, 999_999_999_999, -5, -1_234_567] {
            let mut bytes = BytesMut::new();
            Cents(cents).to_sql(&Type::NUMERIC, &mut bytes).unwrap();
            assert_eq!(Cents::from_sql(&Type::NUMERIC, &bytes).unwrap(), Cents(cents));
        }
    }

    #[test]
    fn trailing_zeros_may_be_left_out_and_what_is_no_money_is_refused() {
        let words = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
        // 20,000: one digit, weight 1.
        let raw = words(&[1, 1, 0, 2, 2]);
        assert_eq!(Cents::from_sql(&Type::NUMERIC, &raw).unwrap(), Cents(2_000_000));
        let thousandths = words(&[1, 0xFFFF, 0, 3, 10]);
        assert!(Cents::from_sql(&Type::NUMERIC, &thousandths).is_err());
        assert!(Cents::from_sql(&Type::NUMERIC, &[0, 0]).is_err());
    }
}
