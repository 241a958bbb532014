//! TPC-C's random numbers, names and strings (clauses 2.1.6, 4.3.2).

use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

/// The run-time constants C of NURand for last names at load and at run: they differ by a number
/// in 65..=119 that is neither 96 nor 112 (clause 2.1.6.1).
const C_LAST_LOAD: u32 = 123;
const C_LAST_RUN: u32 = 208;
const C_CUSTOMER: u32 = 259;
const C_ITEM: u32 = 7911;

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

/// A worker's source of random things, repeatable from its seed.
pub struct Random {
    rng: SmallRng,
}

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random { rng: SmallRng::seed_from_u64(seed) }
    }

    /// Uniform in `low..=high`.
    pub fn uniform(&mut self, low: i32, high: i32) -> i32 {
        self.rng.random_range(low..=high)
    }

    /// Uniform in `low..=high`, for money in cents.
    pub fn cents(&mut self, low: i64, high: i64) -> i128 {
        i128::from(self.rng.random_range(low..=high))
    }

    /// True once in a hundred for each per cent.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    fn nurand(&mut self, a: u32, c: u32, low: i32, high: i32) -> i32 {
        let span = (high - low + 1) as u32;
        let first = self.rng.random_range(0..=a);
        let second = self.rng.random_range(low..=high) as u32;
        low + (((first | second) + c) % span) as i32
    }

    /// A customer's number in `1..=customers`, not uniform.
    pub fn customer(&mut self, customers: i32) -> i32 {
        self.nurand(1023, C_CUSTOMER, 1, customers)
    }

    /// An item's number in `1..=items`, not uniform.
    pub fn item(&mut self, items: i32) -> i32 {
        self.nurand(8191, C_ITEM, 1, items)
    }

    /// The last name of a random customer of a population, at run time.
    pub fn last_name(&mut self, customers: i32) -> String {
        last_name(self.nurand(255, C_LAST_RUN, 0, customers.min(1000) - 1))
    }

    /// The last name of customer `number` (1, 2, …) at load time: the first thousand have every
    /// name once.
    pub fn last_name_at_load(&mut self, number: i32, customers: i32) -> String {
        if number <= 1000 {
            return last_name(number - 1);
        }
        last_name(self.nurand(255, C_LAST_LOAD, 0, customers.min(1000) - 1))
    }

    fn string(&mut self, low: usize, high: usize, alphabet: &[u8; 64]) -> String {
        let length = self.rng.random_range(low..=high);
        let mut text = String::with_capacity(length);
        while text.len() < length {
            let mut bits = self.rng.next_u64();
            for _ in 0..10.min(length - text.len()) {
                text.push(char::from(alphabet[(bits & 63) as usize]));
                bits >>= 6;
            }
        }
        text
    }

    /// Random letters and digits (a-string).
    pub fn letters(&mut self, low: usize, high: usize) -> String {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-+";
        self.string(low, high, LETTERS)
    }

    /// Random digits (n-string).
    pub fn digits(&mut self, low: usize, high: usize) -> String {
        const DIGITS: &[u8; 64] =
            b"0123456789012345678901234567890123456789012345678901234567890123";
        self.string(low, high, DIGITS)
    }

    /// A ZIP code.
    pub fn zip(&mut self) -> String {
        self.digits(4, 4) + "11111"
    }

    /// I_DATA and S_DATA: a tenth of them contains ORIGINAL.
    pub fn data(&mut self) -> String {
        let mut text = self.letters(26, 50);
        if self.percent(10) {
            let at = self.rng.random_range(0..=text.len() - 8);
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    /// The numbers `1..=n` in random order.
    pub fn permutation(&mut self, n: i32) -> Vec<i32> {
        let mut all: Vec<i32> = (1..=n).collect();
        for i in (1..all.len()).rev() {
            all.swap(i, self.rng.random_range(0..=i));
        }
        all
    }
}

/// The last name of a number in `0..1000` (clause 4.3.2.3).
pub fn last_name(number: i32) -> String {
    let n = usize::try_from(number).expect("names are numbered from 0");
    [n / 100, n / 10 % 10, n % 10].map(|digit| SYLLABLES[digit]).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ranges_are_the_specifications() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(0), "BARBARBAR");
        let difference = C_LAST_RUN - C_LAST_LOAD;
        assert!((65..=119).contains(&difference) && difference != 96 && difference != 112);
        let mut random = Random::new(1);
        for _ in 0..10_000 {
            assert!((1..=3000).contains(&random.customer(3000)));
            assert!((1..=100_000).contains(&random.item(100_000)));
            assert!((26..=50).contains(&random.data().len()));
            assert_eq!(random.zip().len(), 9);
        }
        let mut all = random.permutation(100);
        all.sort_unstable();
        assert!(all.into_iter().eq(1..=100));
    }

    #[test]
    fn items_are_not_uniform() {
        let mut random = Random::new(2);
        let mut counts = vec![0; 1001];
        (0..100_000).for_each(|_| counts[random.item(1000) as usize] += 1);
        let mut sorted = counts[1..].to_vec();
        sorted.sort_unstable();
        assert!(sorted[999] > 2 * sorted[0], "from {} to {}", sorted[0], sorted[999]);
    }
}
