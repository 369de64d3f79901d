//! Numbers of distinct external ids: a hash table of those that a rank has read.

use treepie_base::memory::filled;
use treepie_base::prefetch;

use crate::hash::splitmix64;
use crate::{Error, Result};

/// What the memory is for, in error messages.
const PURPOSE: &str = "the distinct vertex ids that a rank reads";

/// A slot without a number.
const EMPTY: u32 = u32::MAX;

/// Slots of a table with few ids.
const MIN_SLOTS: usize = 1 << 10;

/// Ids that are looked up at once: their slots are prefetched.
const AT_ONCE: usize = 16;

/// Distinct ids, numbered in the order in which they came. Open addressing with linear probing; at most half of the slots have
/// a number. Slots have no ids: those of 10^9 vertices would take 16 GB.
#[derive(Debug)]
pub(crate) struct IdTable {
    ids: Vec<u64>,
    slots: Vec<u32>,
    max: usize,
}

impl IdTable {
    pub(crate) fn new() -> Self {
        Self::with_max(EMPTY as usize)
    }

    fn with_max(max: usize) -> Self {
        Self { ids: Vec::new(), slots: vec![EMPTY; MIN_SLOTS], max }
    }

    /// The ids, in the order of their numbers.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The number of an id, if it has one.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        self.find(id).ok()
    }

    /// The numbers of some ids, in their order. Those without a number get one.
    pub(crate) fn number_all(&mut self, ids: &[u64], mut number: impl FnMut(u32)) -> Result<()> {
        for some in ids.chunks(AT_ONCE) {
            some.iter().for_each(|id| prefetch(&self.slots[self.slot(*id)]));
            // Mostly the first slot has the number.
            for id in some {
                if let Some(known) = self.ids.get(self.slots[self.slot(*id)] as usize) {
                    prefetch(known);
                }
            }
            for &id in some {
                number(match self.find(id) {
                    Ok(known) => known,
                    Err(slot) => self.insert(id, slot)?,
                });
            }
        }
        Ok(())
    }

    /// The slot at which the search for an id begins.
    #[inline(always)]
    fn slot(&self, id: u64) -> usize {
        (splitmix64(id) >> (self.slots.len().leading_zeros() + 1)) as usize
    }

    /// The number of an id, or the slot that is free for it.
    #[inline(always)]
    fn find(&self, id: u64) -> std::result::Result<u32, usize> {
        let mut slot = self.slot(id);
        loop {
            match self.slots[slot] {
                EMPTY => return Err(slot),
                number if self.ids[number as usize] == id => return Ok(number),
                _ => slot = (slot + 1) & (self.slots.len() - 1),
            }
        }
    }

    #[inline(never)]
    fn insert(&mut self, id: u64, mut slot: usize) -> Result<u32> {
        if self.ids.len() == self.max {
            let max = self.max;
            return Err(Error::Input(format!(
                "a rank has to look up more than {max} different vertices: use more ranks"
            )));
        }
        if 2 * self.ids.len() >= self.slots.len() {
            self.slots = filled(EMPTY, 2 * self.slots.len(), PURPOSE)?;
            for number in 0..self.ids.len() {
                let slot = self.find(self.ids[number]).expect_err("ids are distinct");
                self.slots[slot] = number as u32;
            }
            slot = self.find(id).expect_err("it has no number");
        }
        let number = self.ids.len() as u32;
        if self.ids.len() == self.ids.capacity() {
            let bytes = 16 * self.ids.len() as u64;
            let no_memory = |_| treepie_base::Error::OutOfMemory { what: PURPOSE, bytes };
            self.ids.try_reserve(self.ids.len().max(MIN_SLOTS)).map_err(no_memory)?;
        }
        self.slots[slot] = number;
        self.ids.push(id);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ids_have_equal_numbers() {
        let mut table = IdTable::new();
        // Each id twice, in two orders, with neighbors and large ones.
        let ids: Vec<u64> = (0..20_000).map(|i| if i % 3 == 0 { i } else { splitmix64(i) }).collect();
        let mut first = Vec::new();
        table.number_all(&ids, |number| first.push(number)).unwrap();
        assert!(first.iter().zip(0..).all(|(number, position)| *number == position));
        let reversed: Vec<u64> = ids.iter().rev().copied().collect();
        let mut second = Vec::new();
        table.number_all(&reversed, |number| second.push(number)).unwrap();
        second.reverse();
        assert_eq!((first, table.ids()), (second, &ids[..]));
        assert_eq!((table.get(ids[7]), table.get(u64::MAX)), (Some(7), None));
    }

    #[test]
    fn ids_are_bounded() {
        let mut table = IdTable::with_max(3);
        assert_eq!(table.number_all(&[5, 6, 5, 7], |_| {}), Ok(()));
        assert_eq!(table.number_all(&[6, 7], |_| {}), Ok(()));
        let refused = table.number_all(&[8], |_| {}).unwrap_err().to_string();
        assert!(refused.contains("more than 3 different vertices: use more ranks"), "{refused}");
    }
}
