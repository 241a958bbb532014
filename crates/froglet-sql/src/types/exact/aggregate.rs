//! The states of sum, avg, variance and stddev: they can be merged, kept as bytes, and values can leave them again,
//! as a window's frame moves.

use std::collections::BTreeMap;

use num_bigint::BigInt;

use super::arith::quotient_scale;
use super::int::Int;
use super::{Decimal, Exact, NumericError, SCALE_MAX};

/// What sum and avg are computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// How many numbers there are of each display scale; the largest one is shown.
    scales: BTreeMap<u32, u64>,
    nans: u64,
    infinities: u64,
    neg_infinities: u64,
    /// Of the numbers.
    total: Decimal,
}

/// What variances and standard deviations are computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    pub(super) sum: Sum,
    /// The total of the numbers' squares.
    squares: Decimal,
}

/// Whether the values are a sample of the population or all of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Sample,
    Population,
}

impl Default for Sum {
    fn default() -> Sum {
        let total = Decimal::zero(0);
        Sum { scales: BTreeMap::new(), nans: 0, infinities: 0, neg_infinities: 0, total }
    }
}

impl Default for Moments {
    fn default() -> Moments {
        Moments { sum: Sum::default(), squares: Decimal::zero(0) }
    }
}

impl Sum {
    /// Takes a value in.
    pub fn add(&mut self, value: &Exact) {
        match value {
            Exact::Finite(number) => {
                *self.scales.entry(number.scale).or_default() += 1;
                self.total = self.total.add(number);
            }
            special => *self.special(special) += 1,
        }
    }

    /// Takes a value out that was taken in before.
    pub fn remove(&mut self, value: &Exact) {
        match value {
            Exact::Finite(number) => {
                if let Some(count) = self.scales.get_mut(&number.scale) {
                    *count -= 1;
                    if *count == 0 {
                        self.scales.remove(&number.scale);
                    }
                }
                self.total = self.total.sub(number);
            }
            special => {
                let count = self.special(special);
                *count = count.saturating_sub(1);
            }
        }
    }

    fn special(&mut self, value: &Exact) -> &mut u64 {
        match value {
            Exact::NegInfinity => &mut self.neg_infinities,
            Exact::Infinity => &mut self.infinities,
            _ => &mut self.nans,
        }
    }

    /// Takes in all values of another state.
    pub fn merge(&mut self, other: &Sum) {
        for (scale, count) in &other.scales {
            *self.scales.entry(*scale).or_default() += count;
        }
        self.nans += other.nans;
        self.infinities += other.infinities;
        self.neg_infinities += other.neg_infinities;
        self.total = self.total.add(&other.total);
    }

    /// How many values there are.
    pub fn count(&self) -> u64 {
        self.numbers() + self.nans + self.infinities + self.neg_infinities
    }

    fn numbers(&self) -> u64 {
        self.scales.values().sum()
    }

    /// The largest display scale there is now; the total may have that of a value that left.
    fn scale(&self) -> u32 {
        self.scales.last_key_value().map_or(0, |(scale, _)| *scale)
    }

    fn total(&self) -> Decimal {
        self.total.trunc(self.scale() as i32)
    }

    /// The sum; `None` without values.
    pub fn sum(&self) -> Result<Option<Exact>, NumericError> {
        if self.count() == 0 {
            return Ok(None);
        }
        let sum = match (self.nans, self.infinities, self.neg_infinities) {
            (0, 0, 0) => Exact::checked(self.total())?,
            (0, _, 0) => Exact::Infinity,
            (0, 0, _) => Exact::NegInfinity,
            _ => Exact::NaN,
        };
        Ok(Some(sum))
    }

    /// The average; `None` without values.
    pub fn average(&self) -> Result<Option<Exact>, NumericError> {
        let Some(sum) = self.sum()? else { return Ok(None) };
        match sum {
            Exact::Finite(_) => Ok(Some(sum.div(&Exact::from(i128::from(self.numbers())))?)),
            special => Ok(Some(special)),
        }
    }

    /// The state as bytes, for [`Sum::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    /// The state of these bytes.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Sum, NumericError> {
        let sum = Sum::read(&mut bytes).filter(|_| bytes.is_empty());
        sum.ok_or(NumericError::Corrupt)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let scales = self.scales.len() as u64;
        for n in [self.nans, self.infinities, self.neg_infinities, scales] {
            out.extend(n.to_le_bytes());
        }
        for (scale, count) in &self.scales {
            out.extend(scale.to_le_bytes());
            out.extend(count.to_le_bytes());
        }
        write_decimal(&self.total, out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Sum> {
        let mut next = || Some(u64::from_le_bytes(*take(bytes)?));
        let (nans, infinities, neg_infinities, count) = (next()?, next()?, next()?, next()?);
        let mut scales = BTreeMap::new();
        for _ in 0..count {
            let scale = u32::from_le_bytes(*take(bytes)?);
            scales.insert(scale, u64::from_le_bytes(*take(bytes)?));
        }
        let total = read_decimal(bytes)?;
        Some(Sum { scales, nans, infinities, neg_infinities, total })
    }
}

impl Moments {
    /// Takes a value in.
    pub fn add(&mut self, value: &Exact) {
        self.sum.add(value);
        if let Exact::Finite(number) = value {
            self.squares = self.squares.add(&number.mul(number));
        }
    }

    /// Takes a value out that was taken in before.
    pub fn remove(&mut self, value: &Exact) {
        self.sum.remove(value);
        if let Exact::Finite(number) = value {
            self.squares = self.squares.sub(&number.mul(number));
        }
    }

    /// Takes in all values of another state.
    pub fn merge(&mut self, other: &Moments) {
        self.sum.merge(&other.sum);
        self.squares = self.squares.add(&other.squares);
    }

    /// var_samp, variance; `None` for less than two values.
    pub fn var_samp(&self) -> Result<Option<Exact>, NumericError> {
        self.spread(Of::Sample, |variance| variance)
    }

    /// var_pop; `None` without values.
    pub fn var_pop(&self) -> Result<Option<Exact>, NumericError> {
        self.spread(Of::Population, |variance| variance)
    }

    /// stddev_samp, stddev; `None` for less than two values.
    pub fn stddev_samp(&self) -> Result<Option<Exact>, NumericError> {
        self.spread(Of::Sample, |variance| variance.sqrt(variance.scale))
    }

    /// stddev_pop; `None` without values.
    pub fn stddev_pop(&self) -> Result<Option<Exact>, NumericError> {
        self.spread(Of::Population, |variance| variance.sqrt(variance.scale))
    }

    /// (N Σx² - (Σx)²) / (N (N - 1)), or / N² for a population, of which `f` makes the result.
    fn spread(
        &self,
        of: Of,
        f: impl FnOnce(Decimal) -> Decimal,
    ) -> Result<Option<Exact>, NumericError> {
        let least = if of == Of::Sample { 2 } else { 1 };
        if self.sum.count() < least {
            return Ok(None);
        }
        if self.sum.count() > self.sum.numbers() {
            return Ok(Some(Exact::NaN));
        }
        let count = i128::from(self.sum.numbers());
        let total = self.sum.total();
        let squares = self.squares.trunc(2 * total.scale as i32);
        let numerator = Decimal::integer(count).mul(&squares).sub(&total.mul(&total));
        if numerator.unscaled.signum() <= 0 {
            return Ok(Some(Exact::ZERO));
        }
        let divisor = Decimal::integer(if of == Of::Sample { count - 1 } else { count });
        let divisor = divisor.mul(&Decimal::integer(count));
        let variance = numerator.div(&divisor, quotient_scale(&numerator, &divisor));
        let variance = variance.ok_or(NumericError::DivisionByZero)?;
        Exact::checked(f(variance)).map(Some)
    }

    /// The state as bytes, for [`Moments::from_bytes`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = self.sum.to_bytes();
        write_decimal(&self.squares, &mut out);
        out
    }

    /// The state of these bytes.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Moments, NumericError> {
        let read = |bytes: &mut &[u8]| {
            Some(Moments { sum: Sum::read(bytes)?, squares: read_decimal(bytes)? })
        };
        let moments = read(&mut bytes).filter(|_| bytes.is_empty());
        moments.ok_or(NumericError::Corrupt)
    }
}

/// scale (u32), length (u32), two's complement: all little endian.
fn write_decimal(number: &Decimal, out: &mut Vec<u8>) {
    let unscaled = number.unscaled.to_big().to_signed_bytes_le();
    out.extend(number.scale.to_le_bytes());
    out.extend((unscaled.len() as u32).to_le_bytes());
    out.extend(unscaled);
}

fn read_decimal(bytes: &mut &[u8]) -> Option<Decimal> {
    let scale = u32::from_le_bytes(*take(bytes)?);
    if scale > 2 * SCALE_MAX {
        return None;
    }
    let length = u32::from_le_bytes(*take(bytes)?);
    let unscaled = bytes.split_off(..length as usize)?;
    Some(Decimal::new(Int::from_big(BigInt::from_signed_bytes_le(unscaled)), scale))
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(first)
}
