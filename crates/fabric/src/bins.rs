//! Queues by key: what makes matching independent of how much is queued.
//!
//! A key is (context, source, tag); source and tag may be [`ANY`], which is then just another value: a receive from
//! anybody has a queue of its own. A queue is a doubly linked list of small numbers that the owner gives out, so that
//! one queued thing can be in the queues of several [`Bins`], and be taken out of their middle.

/// Stands for any source.
pub(crate) const ANY: u32 = u32::MAX;

/// Stands for any tag.
pub(crate) const ANY_TAG: u64 = u64::MAX;

const NIL: u32 = u32::MAX;

/// What a message is matched by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) context: u32,
    pub(crate) source: u32,
    pub(crate) tag: u64,
}

/// The four ways to be specific: bit 0 set for any source, bit 1 for any tag.
pub(crate) const CLASSES: usize = 4;

impl Key {
    pub(crate) fn class(self) -> usize {
        usize::from(self.source == ANY) | usize::from(self.tag == ANY_TAG) << 1
    }

    /// The key of the same message as receives of that class would ask for it.
    pub(crate) fn as_class(self, class: usize) -> Self {
        Self {
            source: if class & 1 != 0 { ANY } else { self.source },
            tag: if class & 2 != 0 { ANY_TAG } else { self.tag },
            ..self
        }
    }

    /// Whether a message with the (specific) key `message` is asked for by this one.
    #[inline]
    pub(crate) fn takes(self, message: Key) -> bool {
        self.context == message.context
            && (self.source == message.source || self.source == ANY)
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
    key: Key,
    head: u32,
    tail: u32,
    used: bool,
}

#[derive(Clone, Copy)]
struct Link {
    prev: u32,
    next: u32,
}

/// Bins of a table, at least: so many that tables of programs with few keys at a time never grow.
const LEAST: usize = 64;

const EMPTY: Bin = Bin { key: Key { context: 0, source: 0, tag: 0 }, head: NIL, tail: NIL, used: false };

/// Queues of numbers by key, in a hash table with open addressing. A queue that has become empty keeps its place until
/// the table is rebuilt, since the same key mostly comes again.
pub(crate) struct Bins {
    table: Vec<Bin>,
    /// The table before the last rebuilding, for its memory.
    other: Vec<Bin>,
    used: usize,
    /// The bin that was pushed to last: mostly it is the next one to be used, too, and need not be looked for.
    last: usize,
    links: Vec<Link>,
}

impl Bins {
    pub(crate) fn new() -> Self {
        Self { table: vec![EMPTY; LEAST], other: Vec::with_capacity(LEAST), used: 0, last: 0, links: Vec::new() }
    }

    /// Where the key's bin is, or would be.
    #[inline]
    fn find(&self, key: Key) -> usize {
        let last = &self.table[self.last];
        if last.used && last.key == key {
            return self.last;
        }
        self.probe(key)
    }

    fn probe(&self, key: Key) -> usize {
        let mask = self.table.len() - 1;
        let mut at = key.hash() & mask;
        while self.table[at].used && self.table[at].key != key {
            crate::effort::look();
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn find_or_make(&mut self, key: Key) -> usize {
        let at = self.find(key);
        self.last = if self.table[at].used { at } else { self.make(key, at) };
        self.last
    }

    #[cold]
    fn make(&mut self, key: Key, at: usize) -> usize {
        if (self.used + 1) * 2 > self.table.len() {
            self.rebuild();
            return self.find_or_make(key);
        }
        self.used += 1;
        self.table[at] = Bin { key, used: true, ..EMPTY };
        at
    }

    /// Forgets empty queues, and makes room if few were.
    fn rebuild(&mut self) {
        // The old table's memory becomes that of the next one.
        std::mem::swap(&mut self.table, &mut self.other);
        let live = |bin: &&Bin| bin.head != NIL;
        self.used = self.other.iter().filter(live).count();
        self.last = 0;
        self.table.clear();
        self.table.resize((self.used * 4).next_power_of_two().max(LEAST), EMPTY);
        for place in 0..self.other.len() {
            let bin = self.other[place];
            if live(&&bin) {
                let at = self.probe(bin.key);
                self.table[at] = bin;
            }
        }
    }

    /// The first in the key's queue.
    #[inline]
    pub(crate) fn front(&self, key: Key) -> Option<u32> {
        let bin = &self.table[self.find(key)];
        (bin.used && bin.head != NIL).then_some(bin.head)
    }

    /// Appends to the key's queue.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, item: u32) {
        let at = self.find_or_make(key);
        if self.links.len() <= item as usize {
            self.make_links(item);
        }
        let prev = std::mem::replace(&mut self.table[at].tail, item);
        self.links[item as usize] = Link { prev, next: NIL };
        match prev {
            NIL => self.table[at].head = item,
            prev => self.links[prev as usize].next = item,
        }
    }

    #[cold]
    fn make_links(&mut self, item: u32) {
        self.links.resize(item as usize + 1, Link { prev: NIL, next: NIL });
    }

    /// Puts `item` in its place: behind the last one that is not `later`. Looks from both ends: something new is the last one, and
    /// what is put back was mostly the first.
    pub(crate) fn push_before(&mut self, key: Key, item: u32, later: impl Fn(u32) -> bool) {
        let at = self.find_or_make(key);
        if self.links.len() <= item as usize {
            self.make_links(item);
        }
        let (mut prev, mut next) = (self.table[at].tail, NIL);
        let mut first = self.table[at].head;
        while prev != NIL && later(prev) {
            crate::effort::look();
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

    /// Takes the first out of the key's queue.
    #[inline]
    pub(crate) fn pop(&mut self, key: Key) -> Option<u32> {
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

    /// Takes `item` out of the key's queue, in which it must be.
    #[inline]
    pub(crate) fn remove(&mut self, key: Key, item: u32) {
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

    fn key(n: u32) -> Key {
        Key { context: n % 3, source: n % 7, tag: n.into() }
    }

    #[test]
    fn queues_keep_their_order_and_do_not_mix() {
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
    fn empty_queues_are_forgotten() {
        let mut bins = Bins::new();
        for tag in 0..100_000 {
            bins.push(key(tag), 0);
            bins.remove(key(tag), 0);
        }
        assert!(bins.table.len() <= 64, "{} bins for nothing", bins.table.len());
    }

    #[test]
    fn items_come_out_of_the_middle_and_go_back() {
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
