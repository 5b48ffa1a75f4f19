//! Distribution of durations.

/// Number of parts of each power of two. The relative error of a quantile is at most one part.
const PARTS: u32 = 16;

const PART_BITS: u32 = PARTS.trailing_zeros();

/// Counts of durations in log-linear buckets, from the smallest occurring one to the largest.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    first: u32,
    counts: Vec<u32>,
    pub count: u64,
    pub min: u64,
    pub max: u64,
}

impl Spread {
    #[inline]
    pub fn add(&mut self, value: u64) {
        let bucket = bucket(value);
        let at = bucket.wrapping_sub(self.first) as usize;
        match self.counts.get_mut(at) {
            Some(count) => *count = count.saturating_add(1),
            None => self.widen(bucket),
        }
        if self.count == 0 {
            self.min = value;
        }
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    #[cold]
    fn widen(&mut self, bucket: u32) {
        if self.counts.is_empty() {
            self.first = bucket;
        }
        if bucket < self.first {
            let more = (self.first - bucket) as usize;
            self.counts.splice(..0, std::iter::repeat_n(0, more));
            self.first = bucket;
        }
        let at = (bucket - self.first) as usize;
        if at >= self.counts.len() {
            self.counts.reserve_exact(at + 1 - self.counts.len());
            self.counts.resize(at + 1, 0);
        }
        self.counts[at] += 1;
    }

    /// Returns the value that this share of the durations does not exceed, rounded up to its
    /// bucket.
    pub fn quantile(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        let rank = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        for (first, count) in self.buckets() {
            seen += count;
            if seen >= rank {
                return last_of(first).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Returns the numbers and counts of the occurring buckets.
    fn buckets(&self) -> impl Iterator<Item = (u32, u64)> {
        let counts = (self.first..).zip(&self.counts);
        counts.map(|(bucket, count)| (bucket, u64::from(*count)))
    }

    /// Returns the lower bounds of the powers of two (0 first), with the counts up to the next one.
    pub fn octaves(&self) -> Vec<(u64, u64)> {
        let mut octaves: Vec<(u64, u64)> = Vec::new();
        for (bucket, count) in self.buckets() {
            let low = first_of(bucket);
            let low = if low == 0 { 0 } else { 1 << low.ilog2() };
            match octaves.last_mut() {
                Some((last, sum)) if *last == low => *sum += count,
                _ => octaves.push((low, count)),
            }
        }
        octaves
    }
}

#[inline]
const fn bucket(value: u64) -> u32 {
    if value < PARTS as u64 {
        return value as u32;
    }
    let octave = value.ilog2() - PART_BITS;
    octave * PARTS + (value >> octave) as u32
}

const fn first_of(bucket: u32) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    let octave = bucket / PARTS - 1;
    ((bucket % PARTS + PARTS) as u64) << octave
}

const fn last_of(bucket: u32) -> u64 {
    match bucket {
        0..PARTS => bucket as u64,
        _ => first_of(bucket) + ((1 << (bucket / PARTS - 1)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_dense_and_narrow() {
        let values = (0..64).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 2]
        });
        for value in values.chain([u64::MAX]) {
            let number = bucket(value);
            assert!(
                (first_of(number)..=last_of(number)).contains(&value),
                "{value}"
            );
            assert!(last_of(number) - first_of(number) <= value / 16, "{value}");
            assert_eq!(bucket(last_of(number)), number);
            assert!(number < 1000);
        }
    }

    #[test]
    fn quantiles_are_right_within_a_sixteenth() {
        let mut spread = Spread::default();
        for value in (1..=10_000).rev() {
            spread.add(value * 37);
        }
        for (share, exact) in [(0.0, 37), (0.5, 5_000 * 37), (0.99, 9_900 * 37)] {
            let found = spread.quantile(share);
            assert!(
                found >= exact && found <= exact + exact / 16,
                "{share}: {found}"
            );
        }
        assert_eq!(spread.quantile(1.0), 370_000);
        assert_eq!((spread.min, spread.max), (37, 370_000));
        let sum: u64 = spread.octaves().iter().map(|(_, count)| count).sum();
        assert_eq!(sum, 10_000);
    }

    #[test]
    fn the_largest_and_the_smallest_values_fit() {
        let mut spread = Spread::default();
        [u64::MAX, 0, 1]
            .into_iter()
            .for_each(|value| spread.add(value));
        assert_eq!(spread.quantile(0.99), u64::MAX);
        let octaves = spread.octaves();
        let filled: Vec<_> = octaves
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .collect();
        assert_eq!(filled, [(0, 1), (1, 1), (1 << 63, 1)]);
    }
}
