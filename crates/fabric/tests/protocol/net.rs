//! An engine in one thread: channels that fill up, delay and mix at the will of a seed.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;
use treepie_base::Span;
use treepie_fabric::{Event, Fabric, Head, Invite, Life, Refused};

pub(crate) struct Rng(pub(crate) Xoshiro256PlusPlus);

impl Rng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

type Record = (Head, Vec<u8>);

/// What the engine offers beyond channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offers {
    /// Acknowledgements without records, for slots below this.
    pub(crate) ack_slots: u32,
    /// Transfers memory to memory: the receiver alone copies; the sender is told by an acknowledgement.
    pub(crate) bulk: bool,
    /// A shared counter.
    pub(crate) arrive: bool,
    /// Records that a channel holds.
    pub(crate) capacity: usize,
    /// Whether those who look for one record may overlook it.
    pub(crate) overlooks: bool,
}

thread_local! {
    /// How often ranks of this test have waited.
    pub(crate) static WAITS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) struct Net {
    pub(crate) rng: Rng,
    offers: Offers,
    size: u32,
    channels: HashMap<(u32, u32), VecDeque<Record>>,
    /// Records ever sent to each rank.
    sent_to: Vec<u64>,
    acks: HashMap<u32, VecDeque<u32>>,
    /// Memory that senders offered, by number.
    offered: Vec<Vec<u8>>,
    /// Arrivals of all ranks at barriers of a cell, together and of each, and the bits that they brought to each barrier.
    arrivals: HashMap<u32, u64>,
    arrivals_of: HashMap<(u32, u32), u64>,
    census: HashMap<(u32, u64), u64>,
    lives: Vec<Life>,
    news: u32,
}

impl Net {
    pub(crate) fn new(rng: Rng, size: u32, offers: Offers) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            rng,
            offers,
            size,
            channels: HashMap::new(),
            sent_to: vec![0; size as usize],
            acks: HashMap::new(),
            offered: Vec::new(),
            arrivals: HashMap::new(),
            arrivals_of: HashMap::new(),
            census: HashMap::new(),
            lives: vec![Life::Here; size as usize],
            news: 0,
        }))
    }

    fn set_life(&mut self, rank: u32, life: Life) {
        self.lives[rank as usize] = life;
        self.news += 1;
    }
}

/// One rank's end.
pub(crate) struct Port {
    net: Rc<RefCell<Net>>,
    rank: u32,
    body: Vec<u8>,
    pulls: Vec<(u32, u64, Span)>,
    waiting: Vec<u32>,
}

impl Port {
    pub(crate) fn new(net: &Rc<RefCell<Net>>, rank: u32) -> Self {
        let net = net.clone();
        Self { net, rank, body: Vec::new(), pulls: Vec::new(), waiting: Vec::new() }
    }
}

impl Fabric for Port {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.net.borrow().size
    }

    fn name(&self) -> &'static str {
        "net"
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn max_body(&self) -> usize {
        1024
    }

    fn try_send(&mut self, to: u32, head: Head, body: &[u8]) -> bool {
        assert_ne!(to, self.rank, "an endpoint never sends to itself");
        assert!(body.len() <= self.max_body());
        let mut net = self.net.borrow_mut();
        let capacity = net.offers.capacity;
        let channel = net.channels.entry((self.rank, to)).or_default();
        if channel.len() >= capacity {
            return false;
        }
        channel.push_back((head, body.to_vec()));
        net.sent_to[to as usize] += 1;
        true
    }

    fn poll(&mut self) -> Option<Event<'_>> {
        let mut net = self.net.borrow_mut();
        if net.rng.chance(30) {
            return None;
        }
        if let Some(slot) = net.acks.entry(self.rank).or_default().pop_front() {
            return Some(Event::Acked { slot });
        }
        if let Some((slot, place, mut span)) = self.pulls.pop() {
            span.as_mut_slice().copy_from_slice(&net.offered[place as usize]);
            return Some(Event::BulkReceived { slot, span, tell_sender: true });
        }
        let size = u64::from(net.size);
        let arrived = |cell: &u32| net.arrivals_of[&(self.rank, *cell)];
        if let Some(i) = self.waiting.iter().position(|cell| net.arrivals[cell] >= arrived(cell) * size) {
            let cell = self.waiting.swap_remove(i);
            let census = net.census.get(&(cell, arrived(&cell))).copied().unwrap_or(0);
            return Some(Event::Gathered { cell, census });
        }
        let first = net.rng.below(size) as u32;
        for i in 0..net.size {
            let from = (first + i) % net.size;
            if let Some((head, body)) = net.channels.entry((from, self.rank)).or_default().pop_front() {
                drop(net);
                self.body = body;
                return Some(Event::Record { from, head, body: &self.body });
            }
        }
        None
    }

    fn poll_if(&mut self, take: &mut dyn FnMut(u32, Head, &[u8]) -> bool) -> bool {
        let mut net = self.net.borrow_mut();
        let size = net.size;
        let first = net.rng.below(size.into()) as u32;
        let mut order = (0..if net.offers.overlooks { 1 } else { size }).map(|i| (first + i) % size);
        let is_there = |from: &u32| net.channels.get(&(*from, self.rank)).is_some_and(|channel| !channel.is_empty());
        let Some(from) = order.find(is_there) else { return false };
        let channel = net.channels.entry((from, self.rank)).or_default();
        let taken = channel.front().is_some_and(|(head, body)| take(from, *head, body));
        if taken {
            channel.pop_front();
        }
        taken
    }

    fn idle(&mut self, _round: u32) -> bool {
        WAITS.set(WAITS.get() + 1);
        false
    }

    fn give_way(&mut self) {}

    fn depart(&mut self) {
        self.net.borrow_mut().set_life(self.rank, Life::Leaving);
    }

    fn departed(&mut self) -> bool {
        true
    }

    fn fail(&mut self) {
        self.net.borrow_mut().set_life(self.rank, Life::Failing);
    }

    fn ack(&mut self, to: u32, slot: u32) -> bool {
        let mut net = self.net.borrow_mut();
        let can = slot < net.offers.ack_slots;
        if can {
            net.acks.entry(to).or_default().push_back(slot);
        }
        can
    }

    fn offer(&mut self, _to: u32, span: &mut Span) -> u64 {
        let mut net = self.net.borrow_mut();
        net.offered.push(span.as_slice().to_vec());
        net.offered.len() as u64 - 1
    }

    fn bulk_recv(&mut self, _from: u32, key: u64, slot: u32, span: Span) -> Result<Option<Invite>, Refused> {
        if !self.net.borrow().offers.bulk {
            return Err(Refused::not_here(span));
        }
        self.pulls.push((slot, key, span));
        Ok(None)
    }

    fn arrive(&mut self, cell: u32, census: u64) -> bool {
        let mut net = self.net.borrow_mut();
        if !net.offers.arrive || net.lives[self.rank as usize] != Life::Here {
            return false;
        }
        *net.arrivals.entry(cell).or_default() += 1;
        let arrived = net.arrivals_of.entry((self.rank, cell)).or_default();
        *arrived += 1;
        let barrier = *arrived;
        *net.census.entry((cell, barrier)).or_default() |= census;
        self.waiting.push(cell);
        true
    }

    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        self.net.borrow().arrivals_of.get(&(rank, cell)).copied().unwrap_or(0)
    }

    fn news(&self) -> u32 {
        self.net.borrow().news
    }

    fn begun_for_this(&self) -> u64 {
        self.net.borrow().sent_to[self.rank as usize]
    }

    fn has_read(&self, begun: u64) -> bool {
        let net = self.net.borrow();
        let unread = |from| net.channels.get(&(from, self.rank)).map_or(0, VecDeque::len) as u64;
        net.sent_to[self.rank as usize] - (0..net.size).map(unread).sum::<u64>() >= begun
    }

    fn life(&self, rank: u32) -> Life {
        self.net.borrow().lives[rank as usize]
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.net.borrow_mut().set_life(self.rank, Life::Left);
    }
}
