//! Hashed match queues: the cost of matching does not depend on queue length.
//!
//! A key is (context, source, tag). [`ANY_SOURCE`] and [`ANY_TAG`] are values like any other, so wildcard receives have
//! separate queues. A queue is a doubly linked list of small indices chosen by the caller: an item can be in queues of
//! several [`Bins`], and leaves the middle of a queue in constant time.

/// Wildcard source.
pub(crate) const ANY_SOURCE: u32 = u32::MAX;

/// Wildcard tag.
pub(crate) const ANY_TAG: u64 = u64::MAX;

const NIL: u32 = u32::MAX;

/// The match key of a message or receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatchKey {
    pub(crate) context: u32,
    pub(crate) source: u32,
    pub(crate) tag: u64,
}

/// Number of wildcard classes: bit 0 is set for any source, bit 1 for any tag.
pub(crate) const WILDCARD_CLASSES: usize = 4;

impl MatchKey {
    pub(crate) fn wildcard_class(self) -> usize {
        usize::from(self.source == ANY_SOURCE) | usize::from(self.tag == ANY_TAG) << 1
    }

    /// The key that receives of a wildcard class use for this message.
    pub(crate) fn with_wildcard_class(self, class: usize) -> Self {
        Self {
            source: if class & 1 != 0 { ANY_SOURCE } else { self.source },
            tag: if class & 2 != 0 { ANY_TAG } else { self.tag },
            ..self
        }
    }

    /// Whether a receive with this key matches a message, whose key has no wildcards.
    #[inline]
    pub(crate) fn matches(self, message: MatchKey) -> bool {
        self.context == message.context
            && (self.source == message.source || self.source == ANY_SOURCE)
            && (self.tag == message.tag || self.tag == ANY_TAG)
    }

    fn hash(self) -> usize {
        let mix = (u64::from(self.context) << 32 | u64::from(self.source)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ self.tag.wrapping_mul(0xd6e8_feb8_6659_fd93);
        (mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

#[derive(Clone, Copy)]
struct Bin {
    key: MatchKey,
    head: u32,
    tail: u32,
    used: bool,
}

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
}

/// Minimum number of bins of a table: programs that use few keys at a time never grow it.
const MIN_BINS: usize = 64;

const EMPTY: Bin = Bin { key: MatchKey { context: 0, source: 0, tag: 0 }, head: NIL, tail: NIL, used: false };

/// Queues of indices by key, in a hash table with open addressing. An empty queue stays in the table until the next
/// rebuild, since programs mostly use the same keys again.
pub(crate) struct Bins {
    table: Vec<Bin>,
    /// The previous table, whose memory the next rebuild reuses.
    previous: Vec<Bin>,
    used: usize,
    /// The bin of the last push: mostly the next one used, which saves the probe.
    last: usize,
    links: Vec<Link>,
}

impl Bins {
    pub(crate) fn new() -> Self {
        Self {
            table: vec![EMPTY; MIN_BINS],
            previous: Vec::with_capacity(MIN_BINS),
            used: 0,
            last: 0,
            links: Vec::new(),
        }
    }

    /// The index of the key's bin, or of the free bin where it belongs.
    #[inline]
    fn find(&self, key: MatchKey) -> usize {
        let last = &self.table[self.last];
        if last.used && last.key == key {
            return self.last;
        }
        self.probe(key)
    }

    fn probe(&self, key: MatchKey) -> usize {
        let mask = self.table.len() - 1;
        let mut at = key.hash() & mask;
        while self.table[at].used && self.table[at].key != key {
            crate::search_depth::count_step();
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn find_or_insert(&mut self, key: MatchKey) -> usize {
        let at = self.find(key);
        self.last = if self.table[at].used { at } else { self.insert_bin(key, at) };
        self.last
    }

    #[cold]
    fn insert_bin(&mut self, key: MatchKey, at: usize) -> usize {
        if (self.used + 1) * 2 > self.table.len() {
            self.rebuild();
            return self.find_or_insert(key);
        }
        self.used += 1;
        self.table[at] = Bin { key, used: true, ..EMPTY };
        at
    }

    /// Drops empty queues, and grows the table if few were empty.
    fn rebuild(&mut self) {
        // The next rebuild reuses the memory of the old table.
        std::mem::swap(&mut self.table, &mut self.previous);
        let live = |bin: &&Bin| bin.head != NIL;
        self.used = self.previous.iter().filter(live).count();
        self.last = 0;
        self.table.clear();
        self.table.resize((self.used * 4).next_power_of_two().max(MIN_BINS), EMPTY);
        for index in 0..self.previous.len() {
            let bin = self.previous[index];
            if live(&&bin) {
                let at = self.probe(bin.key);
                self.table[at] = bin;
            }
        }
    }

    /// The first item in the key's queue.
    #[inline]
    pub(crate) fn front(&self, key: MatchKey) -> Option<u32> {
        let bin = &self.table[self.find(key)];
        (bin.used && bin.head != NIL).then_some(bin.head)
    }

    /// Appends an item to the key's queue.
    #[inline]
    pub(crate) fn push(&mut self, key: MatchKey, item: u32) {
        let at = self.find_or_insert(key);
        if self.links.len() <= item as usize {
            self.grow_links(item);
        }
        let prev = std::mem::replace(&mut self.table[at].tail, item);
        self.links[item as usize] = Link { prev, next: NIL };
        match prev {
            NIL => self.table[at].head = item,
            prev => self.links[prev as usize].next = item,
        }
    }

    #[cold]
    fn grow_links(&mut self, item: u32) {
        self.links.resize(item as usize + 1, Link { prev: NIL, next: NIL });
    }

    /// Inserts `item` behind the last item that is not `later`. Searches from both ends: a new item goes to the end,
    /// and a requeued one was mostly the first.
    pub(crate) fn push_before(&mut self, key: MatchKey, item: u32, later: impl Fn(u32) -> bool) {
        let at = self.find_or_insert(key);
        if self.links.len() <= item as usize {
            self.grow_links(item);
        }
        let (mut prev, mut next) = (self.table[at].tail, NIL);
        let mut first = self.table[at].head;
        while prev != NIL && later(prev) {
            crate::search_depth::count_step();
            if later(first) {
                (prev, next) = (self.links[first as usize].prev, first);
                break;
            }
            (prev, next) = (self.links[prev as usize].prev, prev);
            first = self.links[first as usize].next;
        }
        self.links[item as usize] = Link { prev, next };
        match prev {
            NIL => self.table[at].head = item,
            prev => self.links[prev as usize].next = item,
        }
        match next {
            NIL => self.table[at].tail = item,
            next => self.links[next as usize].prev = item,
        }
    }

    /// Removes the first item from the key's queue.
    #[inline]
    pub(crate) fn pop(&mut self, key: MatchKey) -> Option<u32> {
        let at = self.find(key);
        let bin = &mut self.table[at];
        let first = bin.head;
        if !bin.used || first == NIL {
            return None;
        }
        bin.head = self.links[first as usize].next;
        match bin.head {
            NIL => bin.tail = NIL,
            next => self.links[next as usize].prev = NIL,
        }
        Some(first)
    }

    /// Removes `item` from the key's queue, which must contain it.
    #[inline]
    pub(crate) fn remove(&mut self, key: MatchKey, item: u32) {
        let at = self.find(key);
        let Link { prev, next } = self.links[item as usize];
        match prev {
            NIL => self.table[at].head = next,
            prev => self.links[prev as usize].next = next,
        }
        match next {
            NIL => self.table[at].tail = prev,
            next => self.links[next as usize].prev = prev,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> MatchKey {
        MatchKey { context: n % 3, source: n % 7, tag: n.into() }
    }

    #[test]
    fn queues_are_ordered_and_separate() {
        let mut bins = Bins::new();
        for item in 0..10_000 {
            bins.push(key(item % 100), item);
        }
        for k in 0..100 {
            for turn in 0..100 {
                assert_eq!(bins.front(key(k)), Some(turn * 100 + k));
                bins.remove(key(k), turn * 100 + k);
            }
            assert_eq!(bins.front(key(k)), None);
        }
    }

    #[test]
    fn empty_queues_are_dropped() {
        let mut bins = Bins::new();
        for tag in 0..100_000 {
            bins.push(key(tag), 0);
            bins.remove(key(tag), 0);
        }
        assert!(bins.table.len() <= 64, "{} bins for empty queues", bins.table.len());
    }

    #[test]
    fn items_leave_the_middle_and_are_reinserted() {
        let mut bins = Bins::new();
        (0..5).for_each(|item| bins.push(key(1), item));
        bins.remove(key(1), 2);
        bins.remove(key(1), 4);
        bins.push_before(key(1), 2, |other| other > 2);
        bins.push_before(key(1), 4, |other| other > 4);
        let mut seen = Vec::new();
        while let Some(item) = bins.front(key(1)) {
            bins.remove(key(1), item);
            seen.push(item);
        }
        assert_eq!(seen, [0, 1, 2, 3, 4]);
    }
}
