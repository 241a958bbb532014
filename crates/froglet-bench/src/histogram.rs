//! Latencies in constant space: buckets whose width is at most 1/32 of their value.
//!
//! ```text
//!   bucket of v   v < 64: v itself
//!                 else:   64 + 32·(e − 6) + the 5 bits below v's highest, e = ⌊log2 v⌋
//! ```

/// Bits kept below the highest.
const FINE_BITS: u32 = 5;
const LINEAR: u64 = 2 << FINE_BITS;
const BUCKETS: usize = LINEAR as usize + ((63 - FINE_BITS as usize) << FINE_BITS);

/// A histogram of nanoseconds.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    sum_ns: u128,
    max_ns: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: Box::new([0; BUCKETS]), total: 0, sum_ns: 0, max_ns: 0 }
    }
}

fn bucket(ns: u64) -> usize {
    if ns < LINEAR {
        return ns as usize;
    }
    let exponent = ns.ilog2();
    let fine = (ns >> (exponent - FINE_BITS)) & ((1 << FINE_BITS) - 1);
    LINEAR as usize + (((exponent - FINE_BITS - 1) as usize) << FINE_BITS) + fine as usize
}

/// The middle of a bucket.
fn middle_ns(bucket: usize) -> u64 {
    if bucket < LINEAR as usize {
        return bucket as u64;
    }
    let at = bucket - LINEAR as usize;
    let exponent = (at >> FINE_BITS) as u32 + FINE_BITS + 1;
    let fine = (at & ((1 << FINE_BITS) - 1)) as u64;
    let step = 1u64 << (exponent - FINE_BITS);
    (1u64 << exponent) + fine * step + step / 2
}

impl Histogram {
    /// Counts one latency.
    pub fn record(&mut self, ns: u64) {
        self.counts[bucket(ns)] += 1;
        self.total += 1;
        self.sum_ns += u128::from(ns);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Counts everything that another has counted.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(a, b)| *a += b);
        self.total += other.total;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The mean in microseconds; 0 of nothing.
    pub fn mean_us(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.sum_ns as f64 / self.total as f64 / 1000.0 }
    }

    /// The largest in microseconds.
    pub fn max_us(&self) -> f64 {
        self.max_ns as f64 / 1000.0
    }

    /// The latency in microseconds that this share (0..=1) of all does not exceed; 0 of nothing.
    pub fn quantile_us(&self, share: f64) -> f64 {
        let rank = ((self.total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return middle_ns(at).min(self.max_ns) as f64 / 1000.0;
            }
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_near_its_values_and_buckets_ascend() {
        let mut last = 0;
        for shift in 0..63 {
            for v in [1u64 << shift, (1 << shift) + (1 << shift) / 3] {
                let at = bucket(v);
                assert!(at >= last && at < BUCKETS, "{v} in bucket {at} after {last}");
                last = at;
                let off = middle_ns(at).abs_diff(v) as f64 / v as f64;
                assert!(off <= 1.0 / 32.0, "{v} is shown as {}", middle_ns(at));
            }
        }
        assert!(bucket(u64::MAX) < BUCKETS);
    }

    #[test]
    fn quantiles_come_from_the_counts() {
        let mut all = Histogram::default();
        assert_eq!(all.quantile_us(0.99), 0.0);
        let mut half = Histogram::default();
        (1..=500).for_each(|us| half.record(us * 1000));
        (501..=1000).for_each(|us| all.record(us * 1000));
        all.merge(&half);
        assert_eq!(all.count(), 1000);
        assert!((all.quantile_us(0.5) - 500.0).abs() < 20.0, "{}", all.quantile_us(0.5));
        assert!((all.quantile_us(0.99) - 990.0).abs() < 40.0, "{}", all.quantile_us(0.99));
        assert_eq!(all.quantile_us(1.0), 1000.0);
        assert!((all.mean_us() - 500.5).abs() < 0.01);
    }
}
