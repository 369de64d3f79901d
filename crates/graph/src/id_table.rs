//! Numbers of distinct external ids that a rank has read: an array for ids that are small, and a hash table for others.

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

/// An id is small if it is less than this times the number of ids: the array is in proportion to these, whatever ids there are.
const SMALL_ID_FACTOR: u64 = 4;

/// Distinct ids, numbered in the order in which they came.
///
/// Most files have ids without large gaps, and finding the number of a small one takes one access to memory. Other ids are in a
/// hash table, with open addressing and linear probing; at most half of the slots have a number. Slots have no ids: those of 10^9
/// vertices would take 16 GB.
#[derive(Debug)]
pub(crate) struct IdTable {
    ids: Vec<u64>,
    /// The numbers of the ids below its length.
    small: Vec<u32>,
    /// The numbers of others, and perhaps of some that have become small since, which are not looked up here any more.
    slots: Vec<u32>,
    /// The numbers in slots.
    num_slots_used: usize,
    max: usize,
}

impl IdTable {
    pub(crate) fn new() -> Self {
        Self::with_max(EMPTY as usize)
    }

    fn with_max(max: usize) -> Self {
        Self { ids: Vec::new(), small: Vec::new(), slots: vec![EMPTY; MIN_SLOTS], num_slots_used: 0, max }
    }

    /// The ids, in the order of their numbers.
    pub(crate) fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The number of an id, if it has one.
    #[inline]
    pub(crate) fn get(&self, id: u64) -> Option<u32> {
        match self.small.get(id as usize) {
            Some(number) => (*number != EMPTY).then_some(*number),
            None => self.find(id).ok(),
        }
    }

    /// The numbers of some ids, in their order. Those without a number get one.
    pub(crate) fn number_all(&mut self, ids: &[u64], mut number: impl FnMut(u32)) -> Result<()> {
        for some in ids.chunks(AT_ONCE) {
            let mut are_small = true;
            for id in some {
                match self.small.get(*id as usize) {
                    Some(small) => prefetch(small),
                    None => {
                        are_small = false;
                        prefetch(&self.slots[self.slot(*id)]);
                    }
                }
            }
            if !are_small {
                // Mostly the first slot has the number.
                for id in some {
                    if let Some(known) = self.ids.get(self.slots[self.slot(*id)] as usize) {
                        prefetch(known);
                    }
                }
            }
            for &id in some {
                number(match self.small.get(id as usize) {
                    Some(&known) if known != EMPTY => known,
                    Some(_) => self.insert_small(id)?,
                    None => match self.find(id) {
                        Ok(known) => known,
                        Err(_) => self.insert(id)?,
                    },
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

    /// Numbers an id that the array has room for.
    #[inline(never)]
    fn insert_small(&mut self, id: u64) -> Result<u32> {
        let number = self.push(id)?;
        self.small[id as usize] = number;
        Ok(number)
    }

    /// Numbers an id that the array has no room for.
    #[inline(never)]
    fn insert(&mut self, id: u64) -> Result<u32> {
        if id < SMALL_ID_FACTOR * (self.ids.len() + MIN_SLOTS) as u64 {
            self.grow_small(id)?;
            return self.insert_small(id);
        }
        if 2 * self.num_slots_used >= self.slots.len() {
            // Those that have become small leave.
            let first = self.small.len() as u64;
            self.slots = filled(EMPTY, 2 * self.slots.len(), PURPOSE)?;
            self.num_slots_used = 0;
            for number in 0..self.ids.len() {
                if self.ids[number] < first {
                    continue;
                }
                let slot = self.find(self.ids[number]).expect_err("ids are distinct");
                self.slots[slot] = number as u32;
                self.num_slots_used += 1;
            }
        }
        let number = self.push(id)?;
        let slot = self.find(id).expect_err("it has no number");
        self.slots[slot] = number;
        self.num_slots_used += 1;
        Ok(number)
    }

    /// Makes room in the array for an id.
    fn grow_small(&mut self, id: u64) -> Result<()> {
        let before = self.small.len() as u64;
        let mut small = filled(EMPTY, (id as usize + 1).next_power_of_two(), PURPOSE)?;
        small[..self.small.len()].copy_from_slice(&self.small);
        let added = before..small.len() as u64;
        for (number, id) in self.ids.iter().enumerate().filter(|(_, id)| added.contains(*id)) {
            small[*id as usize] = number as u32;
        }
        self.small = small;
        Ok(())
    }

    /// Appends an id. Returns its number.
    fn push(&mut self, id: u64) -> Result<u32> {
        if self.ids.len() == self.max {
            let max = self.max;
            return Err(Error::Input(format!(
                "a rank has to look up more than {max} different vertices: use more ranks"
            )));
        }
        if self.ids.len() == self.ids.capacity() {
            let bytes = 16 * self.ids.len() as u64;
            let no_memory = |_| treepie_base::Error::OutOfMemory { what: PURPOSE, bytes };
            self.ids.try_reserve(self.ids.len().max(MIN_SLOTS)).map_err(no_memory)?;
        }
        self.ids.push(id);
        Ok(self.ids.len() as u32 - 1)
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

    /// Ids that grow with their number, so that some are hashed before the array has room for them.
    #[test]
    fn small_ids_are_found_in_the_array() {
        for factor in [1, 3, 5, 1 << 33] {
            let mut table = IdTable::new();
            let ids: Vec<u64> = (0..30_000).map(|i| factor * (splitmix64(i / 2) % 20_000)).collect();
            let mut expected = std::collections::HashMap::new();
            for some in ids.chunks(100) {
                let numbers: Vec<u32> = some
                    .iter()
                    .map(|id| {
                        let next = expected.len() as u32;
                        *expected.entry(*id).or_insert(next)
                    })
                    .collect();
                let mut found = Vec::new();
                table.number_all(some, |number| found.push(number)).unwrap();
                assert_eq!(found, numbers, "factor {factor}");
            }
            assert!(expected.iter().all(|(id, number)| table.get(*id) == Some(*number)));
            assert_eq!((table.get(factor * 20_001), table.get(u64::MAX)), (None, None));
            assert_eq!(table.small.is_empty(), factor == 1 << 33 && !ids.contains(&0));
        }
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
