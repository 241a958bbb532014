//! To and from PostgreSQL's other numbers and Arrow's decimals.

use super::int::Int;
use super::{Decimal, Exact, Modifier, NumericError};

/// Significant digits that a double precision and a real number are taken to have (DBL_DIG, FLT_DIG).
const F64_DIGITS: usize = 15;
const F32_DIGITS: usize = 6;

/// Powers of ten and integers up to these are double precision numbers: a quotient of two is rounded once.
const F64_POWER_MAX: u32 = 22;
const F64_INTEGER_MAX: u128 = 1 << 53;

impl Exact {
    /// `unscaled` divided by 10 to the power of `scale`, which is what is shown (none if less than zero).
    pub fn from_unscaled(unscaled: i128, scale: i8) -> Exact {
        let down = scale.unsigned_abs().into();
        Exact::Finite(match scale {
            0.. => Decimal::new(Int::Small(unscaled), down),
            _ => Decimal::new(Int::Small(unscaled).times_power_of_ten(down), 0),
        })
    }

    /// A double precision number's first 15 significant digits.
    pub fn from_f64(v: f64) -> Exact {
        from_float(v, format!("{v:.*e}", F64_DIGITS - 1))
    }

    /// A real number's first 6 significant digits.
    pub fn from_f32(v: f32) -> Exact {
        from_float(v.into(), format!("{v:.*e}", F32_DIGITS - 1))
    }

    /// The nearest smallint, half away from zero.
    pub fn to_i16(&self) -> Result<i16, NumericError> {
        self.to_integer("smallint")
    }

    /// The nearest integer, half away from zero.
    pub fn to_i32(&self) -> Result<i32, NumericError> {
        self.to_integer("integer")
    }

    /// The nearest bigint, half away from zero.
    pub fn to_i64(&self) -> Result<i64, NumericError> {
        self.to_integer("bigint")
    }

    fn to_integer<T: TryFrom<i128>>(&self, target: &'static str) -> Result<T, NumericError> {
        let number = match self {
            Exact::NaN => return Err(NumericError::NoInteger { value: "NaN", target }),
            Exact::Finite(number) => number,
            _ => return Err(NumericError::NoInteger { value: "infinity", target }),
        };
        let out_of_range = NumericError::IntegerOutOfRange(target);
        match number.unscaled.round_power_of_ten(number.scale) {
            Int::Small(n) => T::try_from(n).map_err(|_| out_of_range),
            Int::Big(_) => Err(out_of_range),
        }
    }

    /// The nearest double precision number. What is beyond them, or vanishes among them, is an error.
    pub fn to_f64(&self) -> Result<f64, NumericError> {
        let number = match self {
            Exact::Finite(number) => number,
            special => return Ok(special.special_f64()),
        };
        if let Int::Small(n) = number.unscaled
            && n.unsigned_abs() <= F64_INTEGER_MAX
            && number.scale <= F64_POWER_MAX
        {
            return Ok(n as f64 / 10f64.powi(number.scale as i32));
        }
        let v = number.to_f64();
        let vanished = v == 0.0 && !number.unscaled.is_zero();
        if vanished || v.is_infinite() {
            let text = self.to_string();
            return Err(NumericError::FloatOutOfRange { text, target: "double precision" });
        }
        Ok(v)
    }

    /// The nearest real number. What is beyond them, or vanishes among them, is an error.
    pub fn to_f32(&self) -> Result<f32, NumericError> {
        let Exact::Finite(number) = self else { return Ok(self.special_f64() as f32) };
        // By its text, not by way of a double precision number, which would round twice.
        let text = self.to_string();
        let v: f32 = text.parse().unwrap_or(f32::NAN);
        let vanished = v == 0.0 && !number.unscaled.is_zero();
        if vanished || v.is_infinite() {
            return Err(NumericError::FloatOutOfRange { text, target: "real" });
        }
        Ok(v)
    }

    fn special_f64(&self) -> f64 {
        match self {
            Exact::Infinity => f64::INFINITY,
            Exact::NegInfinity => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }

    /// The value times 10 to the power of `scale`, rounded, for a decimal of so many digits.
    pub fn to_unscaled(&self, precision: u8, scale: i8) -> Result<i128, NumericError> {
        let modifier = Modifier { precision: precision.into(), scale: scale.into() };
        match self.clone().fit(modifier)? {
            Exact::Finite(number) => {
                // Digits before the point that the scale leaves out are zeros.
                let down = u32::from(scale.min(0).unsigned_abs());
                match number.unscaled.trunc_power_of_ten(down).0 {
                    Int::Small(n) => Ok(n),
                    Int::Big(_) => Err(NumericError::FieldOverflow(modifier)),
                }
            }
            _ => Err(NumericError::NanField(modifier)),
        }
    }

    /// The value as a numeric(precision, scale), rounded half away from zero. NaN fits each.
    pub fn fit(self, modifier: Modifier) -> Result<Exact, NumericError> {
        match self {
            Exact::Finite(number) => Ok(Exact::Finite(number.fit(modifier)?)),
            Exact::NaN => Ok(Exact::NaN),
            _ => Err(NumericError::InfiniteField(modifier)),
        }
    }
}

impl From<i64> for Exact {
    fn from(n: i64) -> Exact {
        Exact::Finite(Decimal::integer(n.into()))
    }
}

impl From<i128> for Exact {
    fn from(n: i128) -> Exact {
        Exact::Finite(Decimal::integer(n))
    }
}

impl Decimal {
    pub(super) fn fit(&self, modifier: Modifier) -> Result<Decimal, NumericError> {
        let Modifier { precision, scale } = modifier;
        let rounded = self.round(scale);
        let fits = rounded.unscaled.is_zero()
            || rounded.whole_digits() <= i64::from(precision) - i64::from(scale);
        if fits { Ok(rounded) } else { Err(NumericError::FieldOverflow(modifier)) }
    }
}

/// `digits` is the number with one digit before the point and an exponent; zeros at its end are not shown.
fn from_float(v: f64, digits: String) -> Exact {
    if v.is_nan() {
        return Exact::NaN;
    }
    if v.is_infinite() {
        return if v > 0.0 { Exact::Infinity } else { Exact::NegInfinity };
    }
    let (mantissa, exponent) = digits.split_once('e').unwrap_or((&digits, "0"));
    let mantissa = mantissa.trim_end_matches('0').trim_end_matches('.');
    Exact::parse(&format!("{mantissa}e{exponent}")).unwrap_or(Exact::NaN)
}
