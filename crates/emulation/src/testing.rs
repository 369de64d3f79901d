//! An engine without peers for tests: they say what arrives, who is lost, and whether there is room.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use treepie_base::{Bytes, Error, Result, Span};
use treepie_fabric::{Fabric, FabricEvent, Liveness, RecordHeader, SharedHeap, SharedMemory};

/// Memory of 8-byte words, initially zero.
pub(crate) struct Words(RefCell<Vec<u64>>);

impl Words {
    pub(crate) fn zeroed(bytes: u64) -> Rc<dyn SharedMemory> {
        Rc::new(Self(RefCell::new(vec![0; bytes as usize / 8])))
    }
}

impl SharedMemory for Words {
    fn load(&self, at: u64, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[at as usize / 8].to_ne_bytes());
    }

    fn store(&self, _at: u64, _from: &[u8]) {
        unreachable!("links are exchanged");
    }

    fn fetch_add(&self, _at: u64, _value: u64) -> u64 {
        unreachable!("links are exchanged");
    }

    fn compare_exchange(&self, at: u64, current: u64, new: u64) -> u64 {
        let word = &mut self.0.borrow_mut()[at as usize / 8];
        let previous = *word;
        if previous == current {
            *word = new;
        }
        previous
    }
}

/// What a test does to the engine that it has given away, and sees of it.
pub(crate) struct MockState {
    pub(crate) inbox: RefCell<VecDeque<(u32, Vec<u8>)>>,
    pub(crate) sent: RefCell<Vec<(u32, Vec<u8>)>>,
    /// Whether `try_send` refuses.
    pub(crate) is_full: Cell<bool>,
    /// How often the rank was about to sleep.
    pub(crate) idles: Cell<u32>,
    epoch: Cell<u32>,
    liveness: RefCell<Vec<Liveness>>,
}

impl MockState {
    /// A rank is lost.
    pub(crate) fn lose(&self, rank: u32) {
        self.liveness.borrow_mut()[rank as usize] = Liveness::Failed;
        self.epoch.set(self.epoch.get() + 1);
    }
}

/// Rank 0 of an engine.
pub(crate) struct MockFabric {
    pub(crate) state: Rc<MockState>,
    body: Vec<u8>,
}

impl MockFabric {
    pub(crate) fn new(ranks: u32) -> Self {
        let state = MockState {
            inbox: RefCell::default(),
            sent: RefCell::default(),
            is_full: Cell::new(false),
            idles: Cell::new(0),
            epoch: Cell::new(0),
            liveness: RefCell::new(vec![Liveness::Alive; ranks as usize]),
        };
        Self { state: Rc::new(state), body: Vec::new() }
    }
}

impl Fabric for MockFabric {
    fn rank(&self) -> u32 {
        0
    }

    fn size(&self) -> u32 {
        self.state.liveness.borrow().len() as u32
    }

    fn name(&self) -> &'static str {
        "mock"
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn max_body(&self) -> usize {
        1024
    }

    fn try_send(&mut self, to: u32, _head: RecordHeader, body: &[u8]) -> bool {
        let is_full = self.state.is_full.get();
        if !is_full {
            self.state.sent.borrow_mut().push((to, body.to_vec()));
        }
        !is_full
    }

    fn poll(&mut self) -> Option<FabricEvent<'_>> {
        let (from, body) = self.state.inbox.borrow_mut().pop_front()?;
        self.body = body;
        Some(FabricEvent::Record { from, head: RecordHeader::default(), body: &self.body })
    }

    fn idle(&mut self, _round: u32) -> bool {
        self.state.idles.set(self.state.idles.get() + 1);
        true
    }

    fn begin_finalize(&mut self) {}

    fn is_finalized(&mut self) -> bool {
        true
    }

    fn announce_failure(&mut self, _error: Option<&Error>) {}

    fn shared_heap(&mut self) -> Option<&mut dyn SharedHeap> {
        Some(self)
    }

    fn liveness_epoch(&self) -> u32 {
        self.state.epoch.get()
    }

    fn liveness(&self, rank: u32) -> Liveness {
        self.state.liveness.borrow()[rank as usize]
    }
}

impl SharedHeap for MockFabric {
    fn reserve(&mut self, _bytes: u64) -> Result<u64> {
        unreachable!("the common piece is enough");
    }

    fn map_common(&mut self, bytes: u64) -> Result<Rc<dyn SharedMemory>> {
        Ok(Words::zeroed(bytes))
    }

    fn map(&mut self, _at: u64, _bytes: u64) -> Result<Rc<dyn SharedMemory>> {
        unreachable!("the common piece is enough");
    }

    fn release(&mut self, _at: u64, _bytes: u64) -> Result<()> {
        unreachable!("the common piece is enough");
    }
}

/// Memory of a transfer.
pub(crate) fn span(bytes: &[u8]) -> Span {
    Span::from(Bytes::from(bytes.to_vec()))
}
