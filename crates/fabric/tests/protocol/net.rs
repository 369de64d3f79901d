//! A test engine in one thread: channels of limited capacity that delay and reorder records by a seed.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::RngCore;
use treepie_base::{Error, Span};
use treepie_fabric::{BulkDescriptor, BulkError, Fabric, FabricEvent, Liveness, RecordHeader};

pub(crate) struct Rng(pub(crate) Xoshiro256PlusPlus);

impl Rng {
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.next_u64() % n
    }

    pub(crate) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

type Record = (RecordHeader, Vec<u8>);

/// Optional capabilities of the engine, and the capacity of its channels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NetCapabilities {
    /// `ack` supports slots below this.
    pub(crate) ack_slots: u32,
    /// Bulk transfers: the receiver alone copies, and acknowledges to the sender.
    pub(crate) bulk: bool,
    /// Shared counters for barriers.
    pub(crate) arrive: bool,
    /// Channel capacity in records.
    pub(crate) capacity: usize,
    /// Whether `poll_if` may miss records.
    pub(crate) may_miss: bool,
}

thread_local! {
    /// Number of `idle` calls of this test.
    pub(crate) static WAITS: Cell<u64> = const { Cell::new(0) };
}

pub(crate) struct Net {
    pub(crate) rng: Rng,
    capabilities: NetCapabilities,
    size: u32,
    channels: HashMap<(u32, u32), VecDeque<Record>>,
    /// Number of records ever sent to each rank.
    sent_to: Vec<u64>,
    acks: HashMap<u32, VecDeque<u32>>,
    /// Registered send buffers by key.
    registered: Vec<Vec<u8>>,
    /// Arrivals at barriers of a cell, in total and by rank, and the OR of the bits of each barrier.
    arrivals: HashMap<u32, u64>,
    arrivals_of: HashMap<(u32, u32), u64>,
    bits: HashMap<(u32, u64), u64>,
    liveness: Vec<Liveness>,
    liveness_epoch: u32,
    /// The records that a rank may have in all of its channels together.
    pub(crate) port: usize,
    /// The receivers of all records so far.
    pub(crate) sent: Vec<u32>,
}

impl Net {
    pub(crate) fn new(rng: Rng, size: u32, capabilities: NetCapabilities) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self {
            rng,
            capabilities,
            size,
            channels: HashMap::new(),
            sent_to: vec![0; size as usize],
            acks: HashMap::new(),
            registered: Vec::new(),
            arrivals: HashMap::new(),
            arrivals_of: HashMap::new(),
            bits: HashMap::new(),
            liveness: vec![Liveness::Alive; size as usize],
            liveness_epoch: 0,
            port: usize::MAX,
            sent: Vec::new(),
        }))
    }

    /// Lets the next long message from one rank to another announce another length.
    pub(crate) fn announce(&mut self, from: u32, to: u32, bytes: u64) {
        let (_, body) = self.channels.get_mut(&(from, to)).and_then(VecDeque::front_mut).expect("a request to send");
        body[..8].copy_from_slice(&bytes.to_ne_bytes());
    }

    fn set_liveness(&mut self, rank: u32, liveness: Liveness) {
        self.liveness[rank as usize] = liveness;
        self.liveness_epoch += 1;
    }
}

/// The engine of one rank.
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

    fn try_send(&mut self, to: u32, head: RecordHeader, body: &[u8]) -> bool {
        assert_ne!(to, self.rank, "an endpoint never sends to itself");
        assert!(body.len() <= self.max_body());
        let mut net = self.net.borrow_mut();
        let capacity = net.capabilities.capacity;
        let of_rank = net.channels.iter().filter(|((from, _), _)| *from == self.rank);
        if of_rank.map(|(_, channel)| channel.len()).sum::<usize>() >= net.port {
            return false;
        }
        let channel = net.channels.entry((self.rank, to)).or_default();
        if channel.len() >= capacity {
            return false;
        }
        channel.push_back((head, body.to_vec()));
        net.sent.push(to);
        net.sent_to[to as usize] += 1;
        true
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        let mut net = self.net.borrow_mut();
        if net.rng.chance(30) {
            return None;
        }
        if let Some(slot) = net.acks.entry(self.rank).or_default().pop_front() {
            return Some(FabricEvent::Acked { slot });
        }
        if let Some((slot, key, mut span)) = self.pulls.pop() {
            span.as_mut_slice().copy_from_slice(&net.registered[key as usize]);
            return Some(FabricEvent::BulkReceived { slot, span, tell_sender: true });
        }
        let size = u64::from(net.size);
        let arrived = |cell: &u32| net.arrivals_of[&(self.rank, *cell)];
        if let Some(i) = self.waiting.iter().position(|cell| net.arrivals[cell] >= arrived(cell) * size) {
            let cell = self.waiting.swap_remove(i);
            let bits = net.bits.get(&(cell, arrived(&cell))).copied().unwrap_or(0);
            return Some(FabricEvent::BarrierCompleted { cell, bits });
        }
        let first = net.rng.below(size) as u32;
        for i in 0..net.size {
            let from = (first + i) % net.size;
            if let Some((head, body)) = net.channels.entry((from, self.rank)).or_default().pop_front() {
                drop(net);
                self.body = body;
                return Some(FabricEvent::Record { from, head, body: &self.body });
            }
        }
        None
    }

    fn poll_if(&mut self, take: &mut dyn FnMut(u32, RecordHeader, &[u8]) -> bool) -> bool {
        let mut net = self.net.borrow_mut();
        let size = net.size;
        let first = net.rng.below(size.into()) as u32;
        let mut order = (0..if net.capabilities.may_miss { 1 } else { size }).map(|i| (first + i) % size);
        let has_records = |from: &u32| net.channels.get(&(*from, self.rank)).is_some_and(|channel| !channel.is_empty());
        let Some(from) = order.find(has_records) else { return false };
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

    fn yield_now(&mut self) {}

    fn begin_finalize(&mut self) {
        self.net.borrow_mut().set_liveness(self.rank, Liveness::Finalizing);
    }

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, _: Option<&Error>) {
        self.net.borrow_mut().set_liveness(self.rank, Liveness::Failing);
    }

    fn ack(&mut self, to: u32, slot: u32) -> bool {
        let mut net = self.net.borrow_mut();
        let can = slot < net.capabilities.ack_slots;
        if can {
            net.acks.entry(to).or_default().push_back(slot);
        }
        can
    }

    fn register_bulk(&mut self, _to: u32, span: &mut Span) -> u64 {
        let mut net = self.net.borrow_mut();
        net.registered.push(span.as_slice().to_vec());
        net.registered.len() as u64 - 1
    }

    fn bulk_recv(&mut self, _from: u32, key: u64, slot: u32, span: Span) -> Result<Option<BulkDescriptor>, BulkError> {
        if !self.net.borrow().capabilities.bulk {
            return Err(BulkError::unsupported(span));
        }
        self.pulls.push((slot, key, span));
        Ok(None)
    }

    fn arrive(&mut self, cell: u32, bits: u64) -> bool {
        let mut net = self.net.borrow_mut();
        if !net.capabilities.arrive || net.liveness[self.rank as usize] != Liveness::Alive {
            return false;
        }
        *net.arrivals.entry(cell).or_default() += 1;
        let arrived = net.arrivals_of.entry((self.rank, cell)).or_default();
        *arrived += 1;
        let barrier = *arrived;
        *net.bits.entry((cell, barrier)).or_default() |= bits;
        self.waiting.push(cell);
        true
    }

    fn arrivals(&self, rank: u32, cell: u32) -> u64 {
        self.net.borrow().arrivals_of.get(&(rank, cell)).copied().unwrap_or(0)
    }

    fn liveness_epoch(&self) -> u32 {
        self.net.borrow().liveness_epoch
    }

    fn inbound_tail(&self) -> u64 {
        self.net.borrow().sent_to[self.rank as usize]
    }

    fn has_drained_to(&self, tail: u64) -> bool {
        let net = self.net.borrow();
        let unread = |from| net.channels.get(&(from, self.rank)).map_or(0, VecDeque::len) as u64;
        net.sent_to[self.rank as usize] - (0..net.size).map(unread).sum::<u64>() >= tail
    }

    fn liveness(&self, rank: u32) -> Liveness {
        self.net.borrow().liveness[rank as usize]
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.net.borrow_mut().set_liveness(self.rank, Liveness::Finalized);
    }
}
