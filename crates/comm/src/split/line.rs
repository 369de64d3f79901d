//! Ranks that follow a formula: each is so many behind the one before it.

use bytemuck::{Pod, Zeroable};

use super::entry::Entry;

/// Some ranks of the world in a row, and whether they follow a formula.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Line {
    /// From one to the next.
    step: i64,
    first: u32,
    last: u32,
    ranks: u32,
    is_straight: u32,
}

impl Line {
    /// Of these rows. Those that do not follow one are soon found out.
    pub(super) fn of(rows: &[Entry]) -> Self {
        let Some((first, last)) = rows.first().zip(rows.last()) else {
            return Self { is_straight: 1, ..Self::default() };
        };
        let step = rows.get(1).map_or(0, |second| difference(first.at(), second.at()));
        let is_straight = rows.windows(2).all(|two| difference(two[0].at(), two[1].at()) == step);
        let (first, last) = (first.at(), last.at());
        Self { step, first, last, ranks: rows.len() as u32, is_straight: is_straight.into() }
    }

    /// These, and those behind them.
    pub(super) fn then(self, next: Self) -> Self {
        if self.ranks == 0 || next.ranks == 0 {
            return if self.ranks == 0 { next } else { self };
        }
        let step = difference(self.last, next.first);
        let agrees = |line: &Self| line.is_straight == 1 && (line.ranks == 1 || line.step == step);
        let is_straight = agrees(&self) && agrees(&next);
        Self { step, last: next.last, ranks: self.ranks + next.ranks, is_straight: is_straight.into(), ..self }
    }

    /// The first and the step, if they follow a formula.
    pub fn formula(&self) -> Option<(u32, i64)> {
        (self.is_straight == 1).then_some((self.first, self.step))
    }

    /// How many.
    pub(super) fn ranks(&self) -> u32 {
        self.ranks
    }
}

fn difference(from: u32, to: u32) -> i64 {
    i64::from(to) - i64::from(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_wherever_rows_are_cut() {
        type Formula = Option<(u32, i64)>;
        let lists: [(&[u32], Formula); 7] = [
            (&[4], Some((4, 0))),
            (&[4, 9], Some((4, 5))),
            (&[9, 6, 3, 0], Some((9, -3))),
            (&[0, 1, 2, 3, 4], Some((0, 1))),
            (&[0, 1, 2, 4, 5], None),
            (&[0, 2, 1], None),
            (&[5, 6, 7, 6], None),
        ];
        for (list, formula) in lists {
            let rows: Vec<Entry> = list.iter().map(|at| Entry::new(Some(0), 0, *at, *at)).collect();
            assert_eq!(Line::of(&rows).formula(), formula);
            for one in 0..=rows.len() {
                for other in one..=rows.len() {
                    let parts = [&rows[..one], &rows[one..other], &rows[other..]].map(Line::of);
                    let line = parts[0].then(parts[1]).then(parts[2]);
                    assert_eq!(
                        (line.formula(), line.ranks() as usize),
                        (formula, list.len()),
                        "{list:?} {one} {other}"
                    );
                }
            }
        }
    }
}
