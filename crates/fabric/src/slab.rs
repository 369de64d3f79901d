//! A slab: entries with reused indices, and generations to detect stale ids.

use std::ops::RangeFrom;

/// The id of an operation; never equal to that of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    /// A bit for each occupied entry. A flood leaves many empty entries, which must not slow down iteration.
    occupied: Vec<u64>,
    /// Free indices below [`LOW`], and above.
    free: Vec<u32>,
    free_high: Vec<u32>,
}

/// Indices below this are reused first: engines have fast paths for low indices (ack slots), and a flood must not push
/// later operations to high ones.
const LOW: u32 = 512;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The next index after `count` entries. `u32::MAX` is reserved as the null index.
///
/// # Panics
/// If indices are exhausted: memory runs out long before, so it is not worth an error.
fn next_index(count: usize) -> u32 {
    let index = u32::try_from(count).ok().filter(|index| *index < u32::MAX);
    index.expect("a rank has at most 2^32 - 1 pending operations or unexpected messages")
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), occupied: Vec::new(), free: Vec::new(), free_high: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len() - self.free_high.len()
    }

    /// The number of steps of [`iter`](Self::iter).
    pub(crate) fn scan_cost(&self) -> usize {
        self.occupied.len() + self.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> OpId {
        self.insert_with(|_| value)
    }

    /// Inserts a value that is created from its index.
    #[inline]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(u32) -> T) -> OpId {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let (generation, entry) = &mut self.entries[index as usize];
        *entry = Some(make(index));
        let id = OpId { index, generation: *generation };
        self.occupied[index as usize / 64] |= 1 << (index % 64);
        id
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.free_high.pop().unwrap_or_else(|| {
            let index = next_index(self.entries.len());
            self.entries.push((0, None));
            self.occupied.resize(self.entries.len().div_ceil(64), 0);
            index
        })
    }

    #[inline]
    pub(crate) fn get(&self, id: OpId) -> Option<&T> {
        match self.entries.get(id.index as usize) {
            Some((generation, entry)) if *generation == id.generation => entry.as_ref(),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: OpId) -> Option<&mut T> {
        match self.entries.get_mut(id.index as usize) {
            Some((generation, entry)) if *generation == id.generation => entry.as_mut(),
            _ => None,
        }
    }

    /// The value at an index, of any generation.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize).and_then(|(_, entry)| entry.as_ref())
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize).and_then(|(_, entry)| entry.as_mut())
    }

    pub(crate) fn id_at(&self, index: u32) -> Option<OpId> {
        let (generation, entry) = self.entries.get(index as usize)?;
        entry.as_ref().map(|_| OpId { index, generation: *generation })
    }

    /// Removes and returns a value; its index may be reused.
    pub(crate) fn take(&mut self, id: OpId) -> Option<T> {
        let value = self.entries.get_mut(id.index as usize).filter(|entry| entry.0 == id.generation)?.1.take()?;
        self.free_index(id);
        Some(value)
    }

    /// Takes part of a value and drops the rest in place, unless `take` returns nothing.
    #[inline]
    pub(crate) fn take_with<R>(&mut self, id: OpId, take: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let (generation, entry) = self.entries.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let taken = take(entry.as_mut()?)?;
        *entry = None;
        self.free_index(id);
        Some(taken)
    }

    /// Drops a value in place.
    #[inline]
    pub(crate) fn remove(&mut self, id: OpId) {
        if let Some((generation, entry @ Some(_))) = self.entries.get_mut(id.index as usize)
            && *generation == id.generation
        {
            *entry = None;
            self.free_index(id);
        }
    }

    #[inline]
    fn free_index(&mut self, id: OpId) {
        self.entries[id.index as usize].0 = id.generation.wrapping_add(1);
        self.occupied[id.index as usize / 64] &= !(1 << (id.index % 64));
        if id.index < LOW { self.free.push(id.index) } else { self.free_high.push(id.index) }
    }

    /// The first index from `from` on whose value satisfies `which`, or else the first before it.
    pub(crate) fn find_from(&self, from: u32, which: impl Fn(&T) -> bool) -> Option<u32> {
        let picked = |(id, value): (OpId, &T)| which(value).then_some(id.index);
        let (first, from) = (from / 64, from as usize / 64);
        let later = self.iter_words(from..).find_map(picked);
        later.or_else(|| self.iter().take_while(|(id, _)| id.index / 64 < first).find_map(picked))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (OpId, &T)> {
        self.iter_words(0..)
    }

    /// The values whose bits are in these words.
    fn iter_words(&self, words: RangeFrom<usize>) -> impl Iterator<Item = (OpId, &T)> {
        let first = words.start.min(self.occupied.len());
        self.occupied[first..].iter().zip(first..).flat_map(move |(&word, word_index)| {
            crate::search_depth::count_step();
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                crate::search_depth::count_step();
                let index = word_index as u32 * 64 + bit;
                let (generation, entry) = &self.entries[index as usize];
                Some((OpId { index, generation: *generation }, entry.as_ref().expect("its bit is set")))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_index_is_reserved() {
        assert_eq!(next_index(u32::MAX as usize - 1), u32::MAX - 1);
        assert!(std::panic::catch_unwind(|| next_index(u32::MAX as usize)).is_err());
        assert!(std::panic::catch_unwind(|| next_index(1 << 32)).is_err());
    }

    #[test]
    fn iteration_visits_occupied_entries_only() {
        let mut slab = Slab::new();
        let ids: Vec<OpId> = (0..1000).map(|i| slab.insert(i)).collect();
        let remains = |i: usize| i % 97 == 5;
        ids.iter().enumerate().filter(|(i, _)| !remains(*i)).for_each(|(_, id)| slab.remove(*id));
        let left: Vec<usize> = (0..1000).filter(|i| remains(*i)).collect();
        assert_eq!(slab.iter().map(|(_, value)| *value).collect::<Vec<_>>(), left);
        assert!(slab.iter().all(|(id, value)| slab.get(id) == Some(value)));
        assert_eq!(slab.scan_cost(), 1000usize.div_ceil(64) + left.len());
        for from in 0..1000 {
            let found = slab.find_from(from, |value| *value > 400).expect("there are some");
            assert!(found > 400 && left.contains(&(found as usize)), "from {from}: {found}");
            assert!(!(410..=900).contains(&from) || found >= from / 64 * 64, "from {from}: {found}");
        }
        assert_eq!(slab.find_from(990, |value| *value < 10), Some(5));
        assert_eq!(slab.find_from(0, |_| false), None);
    }

    #[test]
    fn a_stale_id_finds_nothing() {
        let mut slab = Slab::new();
        let a = slab.insert('a');
        assert_eq!(slab.take(a), Some('a'));
        let b = slab.insert('b');
        slab.remove(a);
        assert_eq!((a.index, slab.take(a)), (b.index, None));
        assert_eq!((slab.get(a), slab.get(b)), (None, Some(&'b')));
        assert_eq!(slab.len(), 1);
    }
}
