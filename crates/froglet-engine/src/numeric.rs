//! Exact numbers as bytes: PostgreSQL's numeric, the digits that it shows included.
//!
//! ```text
//!   value = order part  display scale (u16)              integers are big-endian
//!
//!   order part:  10                        -Infinity
//!                20  ~w ~w  ~d ~d …  FF FF   negative
//!                30                        zero
//!                40   w w    d d …          positive
//!                50                        +Infinity
//!                60                        NaN
//!     w  the weight plus 8000 hex: the first digit counts 10000^weight
//!     d  digits in base 10000, the most significant first, neither the first nor the last 0
//!     ~  of a negative number the weight is FFFF - w, and each digit FFFE - d
//!
//!   display scale: decimal digits shown after the point, those that the number has at least, 3FFF at
//!   most; 0 of NaN and the infinities
//! ```
//!
//! Invariants: N1, the order parts are ordered as bytes as SQL orders the numbers; one that begins
//! another is less. Positive numbers that begin alike are the less the fewer digits they have, negative
//! ones the greater: hence their end mark, which no digit is. N2, two numbers are equal exactly when their
//! order parts are: 1.0 and 1.00 are. N3, a number with a display scale has one encoding.
//!
//! Whoever compares numbers as SQL does compares order parts; equal bytes say that they are shown alike too.

/// The bytes of NaN.
pub const NAN: [u8; 3] = [IS_NAN, 0, 0];
/// The bytes of +Infinity.
pub const INFINITY: [u8; 3] = [ABOVE, 0, 0];
/// The bytes of -Infinity.
pub const NEGATIVE_INFINITY: [u8; 3] = [BELOW, 0, 0];

/// The most digits that may be shown after the point.
pub const DISPLAY_SCALE_MAX: u16 = 0x3FFF;

const BELOW: u8 = 0x10;
const NEGATIVE: u8 = 0x20;
const ZERO: u8 = 0x30;
const POSITIVE: u8 = 0x40;
const ABOVE: u8 = 0x50;
const IS_NAN: u8 = 0x60;

/// Behind the digits of a negative number.
const END: [u8; 2] = [0xFF; 2];
const WEIGHT_BIAS: i32 = 0x8000;
const DECIMALS_PER_DIGIT: u16 = 4;

/// What numbers are compared by: all but the display scale.
#[inline]
pub fn order(value: &[u8]) -> &[u8] {
    debug_assert!(is_well_formed(value), "{value:02x?} is no number");
    &value[..value.len().saturating_sub(2)]
}

/// Whether bytes are a number in the one encoding that it has (N3).
pub fn is_well_formed(value: &[u8]) -> bool {
    let Some((order, scale)) = value.split_last_chunk() else { return false };
    let scale = u16::from_be_bytes(*scale);
    let least = match order {
        [BELOW | ABOVE | IS_NAN] => return scale == 0,
        order => least_scale(order),
    };
    least.is_some_and(|least| (least..=DISPLAY_SCALE_MAX).contains(&scale))
}

/// The value of an order part that shows no more digits after the point than it has; none of what is no
/// order part.
pub fn of_order(order: &[u8]) -> Option<Box<[u8]>> {
    let scale = least_scale(order).filter(|scale| *scale <= DISPLAY_SCALE_MAX)?;
    Some([order, &scale.to_be_bytes()].concat().into())
}

/// The value of `unscaled` / 10^`scale`, of which so many digits after the point are shown.
///
/// Panics if these are more than [`DISPLAY_SCALE_MAX`].
pub fn of_unscaled(unscaled: i128, scale: u16) -> Box<[u8]> {
    assert!(scale <= DISPLAY_SCALE_MAX, "{scale} digits after the point");
    // The digits before and after the point are grouped from the point on: the last group may be cut.
    let (mut rest, mut digits) = (unscaled.unsigned_abs(), Vec::new());
    let cut = u32::from(scale % DECIMALS_PER_DIGIT);
    if cut > 0 {
        let decimals = 10_u128.pow(cut);
        digits.push((rest % decimals) as u16 * 10_u16.pow(u32::from(DECIMALS_PER_DIGIT) - cut));
        rest /= decimals;
    }
    while rest > 0 {
        digits.push((rest % 10_000) as u16);
        rest /= 10_000;
    }
    let weight = digits.len() as i32 - 1 - i32::from(scale.div_ceil(DECIMALS_PER_DIGIT));
    let zeros = digits.iter().take_while(|digit| **digit == 0).count();
    digits.drain(..zeros);
    digits.reverse();
    encode(unscaled < 0, weight, &digits, scale)
}

/// `digits`, none of which is 0 at either end; without them it is zero.
fn encode(is_negative: bool, weight: i32, digits: &[u16], scale: u16) -> Box<[u8]> {
    let biased = u16::try_from(weight + WEIGHT_BIAS).expect("a weight is of 16 bits");
    let mut out = Vec::with_capacity(7 + 2 * digits.len());
    if digits.is_empty() {
        out.push(ZERO);
    } else if is_negative {
        out.push(NEGATIVE);
        out.extend((0xFFFF - biased).to_be_bytes());
        digits.iter().for_each(|digit| out.extend((0xFFFE - digit).to_be_bytes()));
        out.extend(END);
    } else {
        out.push(POSITIVE);
        out.extend(biased.to_be_bytes());
        digits.iter().for_each(|digit| out.extend(digit.to_be_bytes()));
    }
    out.extend(scale.to_be_bytes());
    debug_assert!(is_well_formed(&out), "{out:02x?} is no number");
    out.into()
}

/// How many decimal digits an order part has after the point; none of what is no order part.
fn least_scale(order: &[u8]) -> Option<u16> {
    let (is_negative, high, low, digits) = match order {
        [BELOW | ZERO | ABOVE | IS_NAN] => return Some(0),
        [POSITIVE, high, low, digits @ ..] => (false, high, low, digits),
        [NEGATIVE, high, low, digits @ .., 0xFF, 0xFF] => (true, high, low, digits),
        _ => return None,
    };
    let biased = u16::from_be_bytes([*high, *low]);
    let biased = if is_negative { 0xFFFF - biased } else { biased };
    let digit = |pair: &[u8; 2]| {
        let word = u16::from_be_bytes(*pair);
        if is_negative { 0xFFFE_u16.wrapping_sub(word) } else { word }
    };
    let (digits, odd) = digits.as_chunks();
    let (first, last) = (digit(digits.first()?), digit(digits.last()?));
    let are_digits = odd.is_empty() && digits.iter().all(|pair| digit(pair) <= 9999);
    if !are_digits || first == 0 || last == 0 {
        return None;
    }
    // The last digit counts 10000^-places.
    let places = digits.len() as i64 - 1 - (i64::from(biased) - i64::from(WEIGHT_BIAS));
    let zeros = (1..4).take_while(|zeros| last % 10_u16.pow(*zeros) == 0).count() as i64;
    let scale = places * i64::from(DECIMALS_PER_DIGIT) - zeros;
    u16::try_from(scale.max(0)).ok()
}
