//! Small statistics.

/// The median; the mean of the middle two of an even number; 0 of nothing.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

/// The largest less the smallest; 0 of nothing.
pub fn range(values: &[f64]) -> f64 {
    let largest = values.iter().copied().max_by(f64::total_cmp);
    let smallest = values.iter().copied().min_by(f64::total_cmp);
    largest.unwrap_or_default() - smallest.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges() {
        assert_eq!(range(&[]), 0.0);
        assert_eq!(range(&[3.0, 1.0, 2.0]), 2.0);
    }

    #[test]
    fn medians() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }
}
