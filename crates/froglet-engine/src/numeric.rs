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
//!   1.50         40  80 00  00 01  13 88  | 00 02         weight 0; digits 1 and 5000; two are shown
//!  -1.5          20  7F FF  FF FD  EC 76  FF FF | 00 01
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

/// The first byte of -Infinity.
pub const BELOW: u8 = 0x10;
/// The first byte of a negative number.
pub const NEGATIVE: u8 = 0x20;
/// The first byte of zero.
pub const ZERO: u8 = 0x30;
/// The first byte of a positive number.
pub const POSITIVE: u8 = 0x40;
/// The first byte of +Infinity.
pub const ABOVE: u8 = 0x50;
/// The first byte of NaN, which is greater than all else.
pub const IS_NAN: u8 = 0x60;

/// Behind the digits of a negative number; greater than each of them.
pub const END: [u8; 2] = [0xFF; 2];
/// What a digit of a negative number is subtracted from.
pub const INVERTED: u16 = 0xFFFE;
/// What is added to a weight.
pub const WEIGHT_BIAS: i32 = 0x8000;
const DECIMALS_PER_DIGIT: u16 = 4;

/// What numbers are compared by: all but the display scale. Nothing of what is no number.
#[inline]
pub fn order(value: &[u8]) -> &[u8] {
    &value[..value.len().saturating_sub(2)]
}

/// Digits after the point that are shown; 0 of what is no number.
#[inline]
pub fn display_scale(value: &[u8]) -> u16 {
    value.last_chunk().map_or(0, |scale| u16::from_be_bytes(*scale))
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

/// Whether an order part is that of a finite number.
pub fn is_finite(order: &[u8]) -> bool {
    Finite::of(order).is_some()
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

/// The integer of which a number is the 10^`scale`-th part; none of NaN, of an infinity, and where there is
/// none of so many bits.
pub fn to_unscaled(value: &[u8], scale: u16) -> Option<i128> {
    let finite = Finite::of(value.split_last_chunk::<2>()?.0)?;
    let mut unscaled = 0_i128;
    // By what power of ten a digit counts: the last may count by a fraction, and go into it.
    let mut power = i64::from(scale) + i64::from(finite.weight) * i64::from(DECIMALS_PER_DIGIT);
    for digit in finite.digits().map(i128::from) {
        let digit = if finite.is_negative { -digit } else { digit };
        let ten_to = |power: i64| 10_i128.checked_pow(u32::try_from(power).ok()?);
        let counts = match power >= 0 {
            true => digit.checked_mul(ten_to(power)?)?,
            false => {
                Some(ten_to(-power)?).filter(|part| digit % part == 0).map(|part| digit / part)?
            }
        };
        unscaled = unscaled.checked_add(counts)?;
        power -= i64::from(DECIMALS_PER_DIGIT);
    }
    Some(unscaled)
}

/// A number as SQL writes it, for messages.
pub fn show(value: &[u8]) -> String {
    let Some((order, scale)) = value.split_last_chunk() else { return String::new() };
    let finite = match (order, Finite::of(order)) {
        ([BELOW], _) => return "-Infinity".to_owned(),
        ([ABOVE], _) => return "Infinity".to_owned(),
        (_, None) => return "NaN".to_owned(),
        (_, Some(finite)) => finite,
    };
    let digits: Vec<u16> = finite.digits().collect();
    let digit = |place: i32| {
        let at = usize::try_from(finite.weight - place).ok();
        at.and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let first = finite.weight.max(0);
    let mut shown = format!("{}{}", if finite.is_negative { "-" } else { "" }, digit(first));
    (0..first).rev().for_each(|place| shown += &format!("{:04}", digit(place)));
    let scale = u16::from_be_bytes(*scale);
    if scale > 0 {
        shown.push('.');
        let end = shown.len() + usize::from(scale);
        let groups = i32::from(scale.div_ceil(DECIMALS_PER_DIGIT));
        (1..=groups).for_each(|place| shown += &format!("{:04}", digit(-place)));
        shown.truncate(end);
    }
    shown
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
        digits.iter().for_each(|digit| out.extend((INVERTED - digit).to_be_bytes()));
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

/// The order part of a number that is finite, taken apart. Zero has no digits.
struct Finite<'a> {
    is_negative: bool,
    weight: i32,
    digits: &'a [[u8; 2]],
}

impl<'a> Finite<'a> {
    fn of(order: &'a [u8]) -> Option<Finite<'a>> {
        let (is_negative, high, low, digits) = match order {
            [ZERO] => return Some(Finite { is_negative: false, weight: 0, digits: &[] }),
            [POSITIVE, high, low, digits @ ..] => (false, high, low, digits),
            [NEGATIVE, high, low, digits @ .., 0xFF, 0xFF] => (true, high, low, digits),
            _ => return None,
        };
        let biased = u16::from_be_bytes([*high, *low]);
        let biased = if is_negative { 0xFFFF - biased } else { biased };
        let (digits, odd) = digits.as_chunks();
        let weight = i32::from(biased) - WEIGHT_BIAS;
        odd.is_empty().then_some(Finite { is_negative, weight, digits })
    }

    /// Of what is no order part, some are greater than 9999.
    fn digits(&self) -> impl DoubleEndedIterator<Item = u16> + ExactSizeIterator {
        self.digits.iter().map(|pair| {
            let word = u16::from_be_bytes(*pair);
            if self.is_negative { INVERTED.wrapping_sub(word) } else { word }
        })
    }
}

/// How many decimal digits an order part has after the point; none of what is no order part.
fn least_scale(order: &[u8]) -> Option<u16> {
    if let [BELOW | ZERO | ABOVE | IS_NAN] = order {
        return Some(0);
    }
    let finite = Finite::of(order)?;
    let (first, last) = (finite.digits().next()?, finite.digits().next_back()?);
    if first == 0 || last == 0 || finite.digits().any(|digit| digit > 9999) {
        return None;
    }
    let last_place = finite.weight - (finite.digits.len() as i32 - 1);
    let zeros = (1..4).take_while(|zeros| last % 10_u16.pow(*zeros) == 0).count() as i32;
    let scale = -last_place * i32::from(DECIMALS_PER_DIGIT) - zeros;
    u16::try_from(scale.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers from a few seeds, of every size and with every number of digits after the point.
    fn numbers() -> impl Iterator<Item = (i128, u16)> {
        let mut state = 7_u64;
        let mut next = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..3_000).map(move |_| {
            let size = next() % 57;
            let unscaled = (next() >> (63 - size)) as i128 * 10_i128.pow((next() % 3) as u32 * 2);
            let unscaled = if next() % 2 == 0 { unscaled } else { -unscaled };
            (unscaled % 10_i128.pow(17), (next() % 18) as u16)
        })
    }

    #[test]
    fn order_parts_are_ordered_as_numbers_are() {
        let all: Vec<_> = numbers().collect();
        for (a, b) in all.iter().zip(all.iter().rev()) {
            let [of_a, of_b] = [a, b].map(|(n, scale)| of_unscaled(*n, *scale));
            let whole = |n: &(i128, u16)| n.0 * 10_i128.pow(u32::from(18 - n.1));
            assert_eq!(order(&of_a).cmp(order(&of_b)), whole(a).cmp(&whole(b)), "{a:?}, {b:?}");
            assert_eq!(order(&of_a), order(&of_unscaled(a.0 * 10, a.1 + 1)), "{a:?}");
        }
    }

    #[test]
    fn a_number_comes_back() {
        let ends = [i128::MIN, i128::MAX, -1, 0, 1, 10_000, 12_340_000];
        let ends = ends.iter().flat_map(|n| [0, 1, 2, 3, 4, 5, 38, 40, 3000].map(|s| (*n, s)));
        for (unscaled, scale) in numbers().chain(ends) {
            let value = of_unscaled(unscaled, scale);
            assert!(is_well_formed(&value));
            assert_eq!(to_unscaled(&value, scale), Some(unscaled));
            let least = of_order(order(&value)).expect("an order part");
            assert!(is_well_formed(&least) && order(&least) == order(&value));
            assert!(least.last_chunk::<2>() <= value.last_chunk::<2>(), "{least:?}, {value:?}");
            let least = u16::from_be_bytes(*least.last_chunk().expect("a scale"));
            let shown = to_unscaled(&value, least).expect("an integer");
            assert!(least == 0 || shown % 10 != 0, "{shown} has one digit too many");
            assert!(least == 0 || to_unscaled(&value, least - 1).is_none());
        }
    }

    #[test]
    fn numbers_are_shown_as_they_were_written() {
        let cases = [
            (0, 0, "0"),
            (0, 3, "0.000"),
            (5, 0, "5"),
            (-150, 2, "-1.50"),
            (1_000_000, 0, "1000000"),
            (1_000_000, 2, "10000.00"),
            (1, 9, "0.000000001"),
            (-123_456_789, 4, "-12345.6789"),
            (120_000_345, 5, "1200.00345"),
        ];
        for (unscaled, scale, text) in cases {
            assert_eq!(show(&of_unscaled(unscaled, scale)), text);
        }
        assert_eq!(show(&NAN), "NaN");
        assert_eq!(show(&NEGATIVE_INFINITY), "-Infinity");
        assert_eq!(show(&INFINITY), "Infinity");
    }

    #[test]
    fn special_values_are_at_the_ends() {
        let all = [
            &NEGATIVE_INFINITY[..],
            &of_unscaled(i128::MIN, 0),
            &of_unscaled(0, 9),
            &of_unscaled(i128::MAX, 0),
            &INFINITY,
            &NAN,
        ];
        assert!(all.iter().all(|value| is_well_formed(value)));
        assert!(all.iter().map(|value| order(value)).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn what_is_no_number_is_told() {
        let malformed: [&[u8]; 16] = [
            &[],
            &[0x30],
            &[0x30, 0],
            &[0x30, 0x40, 0],
            &[0x31, 0, 0],
            &[0x30, 0, 0, 0],
            &[0x60, 0, 1],
            &[0x50, 0x40, 0],
            &[0x40, 0x80, 0, 0, 0],
            &[0x40, 0x80, 0, 0, 0, 0, 0],
            &[0x40, 0x80, 0, 0, 1, 2, 0, 0],
            &[0x40, 0x80, 0, 0x27, 0x10, 0, 0],
            &[0x40, 0x80, 0, 0, 1, 0, 0, 0, 0],
            &[0x20, 0x7F, 0xFF, 0xFF, 0xFD, 0, 0],
            &[0x20, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0],
            // 0.5 that shows no digit.
            &[0x40, 0x7F, 0xFF, 0x13, 0x88, 0, 0],
        ];
        for bytes in malformed {
            assert!(!is_well_formed(bytes), "{bytes:02x?}");
        }
        assert!(is_well_formed(&[0x40, 0x7F, 0xFF, 0x13, 0x88, 0, 1]));
        assert_eq!(of_order(&[0x40, 0x00, 0x00, 0, 1]), None, "too many digits after the point");
        // One changed byte is another number or none: nothing panics.
        for value in [of_unscaled(-123_456_789, 7), of_unscaled(10_203, 2)] {
            for (at, byte) in (0..value.len()).flat_map(|at| (0..=255).map(move |b| (at, b))) {
                let mut changed = value.to_vec();
                changed[at] = byte;
                let _ = (is_well_formed(&changed), to_unscaled(&changed, 3), show(&changed));
            }
        }
    }
}
