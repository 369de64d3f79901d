//! The random stream of HPCC RandomAccess: a linear feedback shift register of 64 bits.   [RandomAccess paper, section 2]
//!
//! The next value is this one times x, in GF(2)\[x\] modulo a polynomial of degree 64. So one can jump ahead by squaring.

/// The polynomial without its highest term: x^2 + x + 1.
const POLYNOMIAL: u64 = 7;

/// The period of the stream.
pub const PERIOD: u64 = 1_317_624_576_693_539_401;

/// The value after `value`.
#[inline(always)]
pub(super) fn next(value: u64) -> u64 {
    // All ones if the highest bit is set.
    let overflow = (value as i64 >> 63) as u64;
    value << 1 ^ overflow & POLYNOMIAL
}

/// The value at a position; that at 0 is 1.
pub fn value_at(position: u64) -> u64 {
    let position = position % PERIOD;
    if position == 0 {
        return 1;
    }
    // x^(2 i) for all i: by them, squaring is linear.
    let mut squares = [0; u64::BITS as usize];
    let mut power = 1;
    for square in &mut squares {
        *square = power;
        power = next(next(power));
    }
    let square = |value: u64| {
        squares.iter().enumerate().fold(0, |sum, (bit, square)| if value >> bit & 1 == 1 { sum ^ square } else { sum })
    };
    let mut value = 2;
    for bit in (0..position.ilog2()).rev() {
        value = square(value);
        if position >> bit & 1 == 1 {
            value = next(value);
        }
    }
    value
}

/// Independent parts of a stream that are generated side by side. Each value depends on the one before it, so a single
/// stream takes a multiplication's worth of latency per value; eight keep the vector unit busy.
const LANES: usize = 8;

/// The stream of a rank: `count` consecutive values, in an order that interleaves eight parts of it.
pub(super) struct Stream {
    lanes: [u64; LANES],
    /// Rows of one value of each lane that are left.
    rows: u64,
    /// A row of which only a part was asked for, from `row_begin` on.
    row: [u64; LANES],
    row_begin: usize,
    /// The values after those of the lanes.
    rest: u64,
    left_over: u64,
    progress: Option<Progress>,
}

/// Reports how much has been generated.
struct Progress {
    report: fn(f64),
    count: u64,
    done: u64,
    next: u64,
}

/// Values between two reports: a fraction of a second.
const BETWEEN_REPORTS: u64 = 1 << 22;

impl Stream {
    /// The values after position `first`, as in HPCC: the first one is that at `first + 1`.
    pub(super) fn new(first: u64, count: u64) -> Self {
        let rows = count / LANES as u64;
        let lanes = std::array::from_fn(|lane| value_at(first + lane as u64 * rows));
        let in_lanes = rows * LANES as u64;
        let rest = value_at(first + in_lanes);
        Self { lanes, rows, row: [0; LANES], row_begin: LANES, rest, left_over: count - in_lanes, progress: None }
    }

    /// Has the progress reported from now on.
    pub(super) fn on_progress(&mut self, report: Option<fn(f64)>) {
        let count = self.rows * LANES as u64 + self.left_over;
        self.progress = report.map(|report| Progress { report, count, done: 0, next: BETWEEN_REPORTS });
    }

    /// Replaces the contents of `values` by the next ones: `count`, or fewer at the end.
    pub(super) fn fill(&mut self, values: &mut Vec<u64>, count: usize) {
        values.clear();
        let begun = self.row_begin..LANES.min(self.row_begin + count);
        self.row_begin = begun.end;
        values.extend_from_slice(&self.row[begun]);
        let begin = values.len();
        let rows = ((count - begin) / LANES).min(usize::try_from(self.rows).unwrap_or(usize::MAX));
        values.resize(begin + rows * LANES, 0);
        values[begin..].as_chunks_mut().0.iter_mut().for_each(|row| *row = self.next_row());
        if values.len() < count && self.rows > 0 {
            self.row = self.next_row();
            self.row_begin = count - values.len();
            values.extend_from_slice(&self.row[..self.row_begin]);
        }
        while values.len() < count && self.left_over > 0 {
            self.left_over -= 1;
            self.rest = next(self.rest);
            values.push(self.rest);
        }
        if let Some(progress) = &mut self.progress {
            progress.done += values.len() as u64;
            if progress.done >= progress.next {
                progress.next = progress.done + BETWEEN_REPORTS;
                (progress.report)(progress.done as f64 / progress.count as f64);
            }
        }
    }

    /// The values one by one, of which `at_once` are generated at a time. Calls `on_fill` with their number.
    pub(super) fn values(&mut self, at_once: usize, on_fill: impl Fn(usize)) -> impl Iterator<Item = u64> {
        let (mut values, mut at) = (Vec::with_capacity(at_once), 0);
        std::iter::from_fn(move || {
            if at == values.len() {
                self.fill(&mut values, at_once);
                on_fill(values.len());
                at = 0;
            }
            at += 1;
            values.get(at - 1).copied()
        })
    }

    #[inline(always)]
    fn next_row(&mut self) -> [u64; LANES] {
        self.lanes = self.lanes.map(next);
        self.rows -= 1;
        self.lanes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_reached_by_jumps_as_by_steps() {
        let mut value = 1;
        for position in 0..10_000 {
            assert_eq!(value_at(position), value, "position {position}");
            value = next(value);
        }
        // By the definition of the period.
        assert_eq!(value_at(PERIOD), 1);
        assert_eq!(next(value_at(PERIOD - 1)), 1);
        let far = 1 << 50;
        assert_eq!(next(value_at(far)), value_at(far + 1));
    }

    #[test]
    fn a_stream_has_all_values_of_its_part() {
        for (first, count) in [(0, 0), (0, 1), (5, 7), (3, 8), (100, 1000), (1 << 40, 1023)] {
            let mut right: Vec<u64> = (first + 1..=first + count).map(value_at).collect();
            right.sort_unstable();
            for step in [1, 3, 8, 20, 1024, 5000] {
                let (mut stream, mut all, mut values) = (Stream::new(first, count), Vec::new(), Vec::new());
                loop {
                    stream.fill(&mut values, step);
                    all.extend_from_slice(&values);
                    assert!(values.len() == step || all.len() == right.len(), "a short part before the end");
                    if values.is_empty() {
                        break;
                    }
                }
                all.sort_unstable();
                assert_eq!(all, right, "from {first}, {step} at once");
            }
        }
    }
}
