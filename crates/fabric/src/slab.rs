//! Numbered things, with numbers used again.

use std::ops::RangeFrom;

/// The name of an operation; never mistaken for that of a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

pub(crate) struct Slab<T> {
    entries: Vec<(u32, Option<T>)>,
    /// A bit for each entry: whether something is in it. A flood leaves many empty ones, which must not cost those who walk
    /// over all.
    filled: Vec<u64>,
    /// Free numbers below [`LOW`], and above.
    free: Vec<u32>,
    free_high: Vec<u32>,
}

/// Numbers below this are used again before those above: engines have shorter ways for low numbers, and a flood that
/// needed many must not push everything after it to high ones.
const LOW: u32 = 512;

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// The number after so many. The last one of all stands for none elsewhere.
///
/// # Panics
/// If there is none: nobody has memory for so many, so it is not worth an error.
fn next_number(count: usize) -> u32 {
    let number = u32::try_from(count).ok().filter(|number| *number < u32::MAX);
    number.expect("a rank has at most 2^32 - 1 operations, or messages that wait, at a time")
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), filled: Vec::new(), free: Vec::new(), free_high: Vec::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len() - self.free_high.len()
    }

    /// How much [`iter`](Self::iter) looks at.
    pub(crate) fn looks(&self) -> usize {
        self.filled.len() + self.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> Id {
        self.insert_with(|_| value)
    }

    /// Inserts a thing that is made knowing its number.
    #[inline]
    pub(crate) fn insert_with(&mut self, make: impl FnOnce(u32) -> T) -> Id {
        let index = self.free.pop().unwrap_or_else(|| self.grow());
        let (generation, entry) = &mut self.entries[index as usize];
        *entry = Some(make(index));
        let id = Id { index, generation: *generation };
        self.filled[index as usize / 64] |= 1 << (index % 64);
        id
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        self.free_high.pop().unwrap_or_else(|| {
            let number = next_number(self.entries.len());
            self.entries.push((0, None));
            self.filled.resize(self.entries.len().div_ceil(64), 0);
            number
        })
    }

    #[inline]
    pub(crate) fn get(&self, id: Id) -> Option<&T> {
        match self.entries.get(id.index as usize) {
            Some((generation, entry)) if *generation == id.generation => entry.as_ref(),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        match self.entries.get_mut(id.index as usize) {
            Some((generation, entry)) if *generation == id.generation => entry.as_mut(),
            _ => None,
        }
    }

    /// What has this number now.
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize).and_then(|(_, entry)| entry.as_ref())
    }

    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize).and_then(|(_, entry)| entry.as_mut())
    }

    pub(crate) fn id_at(&self, index: u32) -> Option<Id> {
        let (generation, entry) = self.entries.get(index as usize)?;
        entry.as_ref().map(|_| Id { index, generation: *generation })
    }

    /// Takes a thing out; its number may be used again.
    pub(crate) fn take(&mut self, id: Id) -> Option<T> {
        let value = self.entries.get_mut(id.index as usize).filter(|entry| entry.0 == id.generation)?.1.take()?;
        self.free_number(id);
        Some(value)
    }

    /// Takes something out of a thing and drops the rest where it lies, unless there is nothing to take.
    #[inline]
    pub(crate) fn take_with<R>(&mut self, id: Id, take: impl FnOnce(&mut T) -> Option<R>) -> Option<R> {
        let (generation, entry) = self.entries.get_mut(id.index as usize)?;
        if *generation != id.generation {
            return None;
        }
        let taken = take(entry.as_mut()?)?;
        *entry = None;
        self.free_number(id);
        Some(taken)
    }

    /// Drops a thing where it lies.
    #[inline]
    pub(crate) fn remove(&mut self, id: Id) {
        if let Some((generation, entry @ Some(_))) = self.entries.get_mut(id.index as usize)
            && *generation == id.generation
        {
            *entry = None;
            self.free_number(id);
        }
    }

    #[inline]
    fn free_number(&mut self, id: Id) {
        self.entries[id.index as usize].0 = id.generation.wrapping_add(1);
        self.filled[id.index as usize / 64] &= !(1 << (id.index % 64));
        if id.index < LOW { self.free.push(id.index) } else { self.free_high.push(id.index) }
    }

    /// The first thing from a number on that `which` picks, or else the first before it.
    pub(crate) fn find_from(&self, from: u32, which: impl Fn(&T) -> bool) -> Option<u32> {
        let picked = |(id, value): (Id, &T)| which(value).then_some(id.index);
        let (first, from) = (from / 64, from as usize / 64);
        let later = self.iter_words(from..).find_map(picked);
        later.or_else(|| self.iter().take_while(|(id, _)| id.index / 64 < first).find_map(picked))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id, &T)> {
        self.iter_words(0..)
    }

    /// The things whose bits are in these words.
    fn iter_words(&self, words: RangeFrom<usize>) -> impl Iterator<Item = (Id, &T)> {
        let first = words.start.min(self.filled.len());
        self.filled[first..].iter().zip(first..).flat_map(move |(&word, place)| {
            crate::effort::look();
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                crate::effort::look();
                let index = place as u32 * 64 + bit;
                let (generation, entry) = &self.entries[index as usize];
                Some((Id { index, generation: *generation }, entry.as_ref().expect("its bit is set")))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_end_before_the_last() {
        assert_eq!(next_number(u32::MAX as usize - 1), u32::MAX - 1);
        assert!(std::panic::catch_unwind(|| next_number(u32::MAX as usize)).is_err());
        assert!(std::panic::catch_unwind(|| next_number(1 << 32)).is_err());
    }

    #[test]
    fn walks_see_what_is_there_and_not_what_was() {
        let mut slab = Slab::new();
        let ids: Vec<Id> = (0..1000).map(|i| slab.insert(i)).collect();
        let stays = |i: usize| i % 97 == 5;
        ids.iter().enumerate().filter(|(i, _)| !stays(*i)).for_each(|(_, id)| slab.remove(*id));
        let left: Vec<usize> = (0..1000).filter(|i| stays(*i)).collect();
        assert_eq!(slab.iter().map(|(_, value)| *value).collect::<Vec<_>>(), left);
        assert!(slab.iter().all(|(id, value)| slab.get(id) == Some(value)));
        assert_eq!(slab.looks(), 1000usize.div_ceil(64) + left.len());
        for from in 0..1000 {
            let found = slab.find_from(from, |value| *value > 400).expect("there are some");
            assert!(found > 400 && left.contains(&(found as usize)), "from {from}: {found}");
            assert!(!(410..=900).contains(&from) || found >= from / 64 * 64, "from {from}: {found}");
        }
        assert_eq!(slab.find_from(990, |value| *value < 10), Some(5));
        assert_eq!(slab.find_from(0, |_| false), None);
    }

    #[test]
    fn an_old_id_finds_nothing() {
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
