//! Collective operations that are prepared once and started many times.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Pod, Rank, Reduction, Region, Result};
use treepie_fabric::Id;
use treepie_schedule::{Held, Operation, Phase, Rounds, Run, Schedule};
use treepie_topology::Tie;

use super::blocking::fold_bytes;
use super::executor::{Buffers, Execution, Fold, Job};
use super::{Call, Lengths};
use crate::comm::Comm;

/// A collective operation that was prepared: its algorithm is chosen, its operations are listed, its memory is there.
///
/// It owns its buffers: fill the input, [`start`](Self::start), do something else, [`wait`](Self::wait), read the output.
/// For a broadcast the output is the input of the root. All ranks start it equally often, in the same order among the
/// collectives of the communicator.
///
/// After an error, peers may still read or write its buffers for a while: until then they cannot be touched, nor the
/// operation be started again. [`wait`](Self::wait) once more returns when that is over, [`test`](Self::test) tells.
pub struct Persistent<T> {
    comm: Comm,
    execution: Rc<RefCell<Execution>>,
    going: Option<Id>,
    /// It has failed, and its buffers may still be in use.
    failed: bool,
    elements: PhantomData<T>,
}

impl<T: Pod> Persistent<T> {
    fn new(comm: &Comm, call: &Call<'_>, fold: Option<Fold>) -> Result<Self> {
        let (job, input, output) = comm.prepare(call, fold)?;
        let region = |elements| Region::from(Bytes::from(vec![T::zeroed(); elements]));
        let schedule = Collected::new(job.schedule.clone(), job.rank);
        let (rounds, ops) = schedule.most();
        let job = Job { schedule: Arc::new(schedule), ..job };
        let execution = Execution::new(job, Buffers::new(region(input), region(output)), Vec::new());
        let execution = Rc::new(RefCell::new(execution));
        execution.borrow_mut().reserve(rounds, ops);
        Ok(Self { comm: comm.clone(), execution, going: None, failed: false, elements: PhantomData })
    }

    /// Whether its buffers are its own; after an error, looks whether they are by now.
    fn is_free(&mut self) -> bool {
        if self.failed {
            self.failed = !self.execution.borrow().is_alone();
        }
        self.going.is_none() && !self.failed
    }

    #[track_caller]
    fn must_be_free(&mut self, what: &str) {
        if self.failed && self.going.is_none() && !self.is_free() {
            self.comm.progress();
        }
        let free = self.is_free();
        let why = if self.failed { "has failed and whose buffers are still in use" } else { "goes on" };
        assert!(free, "{what} an operation that {why}");
    }

    /// Changes the input. Panics while the operation goes on.
    pub fn with_input<R>(&mut self, change: impl FnOnce(&mut [T]) -> R) -> R {
        self.must_be_free("touches the input of");
        let execution = self.execution.borrow();
        let input = &execution.buffers().input;
        input.write(0..input.len(), |bytes| change(cast_slice_mut(bytes)))
    }

    /// Reads or changes the output. Panics while the operation goes on.
    pub fn with_output<R>(&mut self, use_it: impl FnOnce(&mut [T]) -> R) -> R {
        self.must_be_free("touches the output of");
        let execution = self.execution.borrow();
        let output = &execution.buffers().output;
        output.write(0..output.len(), |bytes| use_it(cast_slice_mut(bytes)))
    }

    /// A copy of the output. Panics while the operation goes on.
    pub fn output(&mut self) -> Vec<T> {
        self.must_be_free("touches the output of");
        let execution = self.execution.borrow();
        let output = &execution.buffers().output;
        output.read(0..output.len(), |bytes| cast_slice(bytes).to_vec())
    }

    /// Starts it. Panics if it goes on.
    pub fn start(&mut self) {
        self.must_be_free("starts");
        self.going = Some(self.comm.begin_again(&self.execution));
    }

    /// Waits until it is done; returns at once if it was not started. After an error, waits until nobody uses its buffers
    /// any more.
    pub fn wait(&mut self) -> Result<()> {
        let Some(id) = self.going.take() else {
            while !self.is_free() {
                self.comm.endpoint().settle(false);
            }
            return Ok(());
        };
        // So it stays if an operator panics.
        self.failed = true;
        let result = self.comm.endpoint().wait_envelope(id);
        self.failed = result.is_err();
        result.map(drop)
    }

    /// Whether it is done; then its result, once. True if it was not started. After an error, whether nobody uses its
    /// buffers any more.
    pub fn test(&mut self) -> Result<bool> {
        let Some(id) = self.going else {
            if !self.is_free() {
                self.comm.progress();
            }
            return Ok(self.is_free());
        };
        let result = self.comm.endpoint().test(id);
        match result {
            None => Ok(false),
            Some(result) => {
                self.going = None;
                self.failed = result.is_err();
                result.map(|_| true)
            }
        }
    }
}

impl<T> Drop for Persistent<T> {
    fn drop(&mut self) {
        if let Some(id) = self.going {
            // It goes on without being heeded, as others wait for this rank's part.
            self.comm.endpoint().abandon(id);
        }
    }
}

impl Comm {
    /// Prepares a broadcast of `count` elements.
    pub fn bcast_init<T: Pod>(&self, count: usize, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        Persistent::new(self, &Call::of::<T>(Operation::Bcast { root }, Lengths::Vector(count)), None)
    }

    /// Prepares a scatter of `count` elements to each rank.
    pub fn scatter_init<T: Pod>(&self, count: usize, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        Persistent::new(self, &Call::of::<T>(Operation::Scatter { root }, Lengths::Each(count)), None)
    }

    /// Prepares a gather of `count` elements from each rank.
    pub fn gather_init<T: Pod>(&self, count: usize, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        Persistent::new(self, &Call::of::<T>(Operation::Gather { root }, Lengths::Each(count)), None)
    }

    /// Prepares an allgather of `count` elements from each rank.
    pub fn all_gather_init<T: Pod>(&self, count: usize) -> Result<Persistent<T>> {
        Persistent::new(self, &Call::of::<T>(Operation::Allgather, Lengths::Each(count)), None)
    }

    /// Prepares an allgather of `counts[r]` elements from rank r.
    pub fn all_gatherv_init<T: Pod>(&self, counts: &[usize]) -> Result<Persistent<T>> {
        self.check_counts(counts)?;
        Persistent::new(self, &Call::of::<T>(Operation::Allgather, Lengths::Listed(counts)), None)
    }

    /// Prepares a reduction of `count` elements to the root.
    pub fn reduce_init<T: Pod>(&self, count: usize, op: impl Reduction<T>, root: Rank) -> Result<Persistent<T>> {
        let root = self.check_rank(root)?;
        let call = Call::of::<T>(Operation::Reduce { root }, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a reduction of `count` elements for everybody.
    pub fn all_reduce_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::Allreduce, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a reduction of blocks of `count` elements, one for each rank.
    pub fn reduce_scatter_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::ReduceScatter, Lengths::Each(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares an all-to-all of blocks of `count` elements.
    pub fn all_to_all_init<T: Pod>(&self, count: usize) -> Result<Persistent<T>> {
        Persistent::new(self, &Call::of::<T>(Operation::Alltoall, Lengths::Each(count)), None)
    }

    /// Prepares a scan of `count` elements.
    pub fn scan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::Scan, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }

    /// Prepares a scan of the ranks before each rank, of `count` elements.
    pub fn exscan_init<T: Pod>(&self, count: usize, op: impl Reduction<T>) -> Result<Persistent<T>> {
        let call = Call::of::<T>(Operation::Exscan, Lengths::Vector(count)).reducing(&op);
        Persistent::new(self, &call, Some(Rc::new(fold_bytes(op))))
    }
}

/// One rank's part of a schedule, written down: it is generated once, and read out each time.
struct Collected {
    schedule: Arc<dyn Schedule>,
    /// By phase and lane.
    rounds: Vec<Vec<Rounds>>,
}

impl Collected {
    fn new(schedule: Arc<dyn Schedule>, rank: u32) -> Self {
        let lane = |phase, lane| {
            let mut rounds = Rounds::new();
            schedule.emit(rank, phase, lane, 0..schedule.rounds(rank, phase, lane), &mut rounds);
            rounds
        };
        let lanes = |phase| (0..schedule.phase(phase).lanes).map(|number| lane(phase, number)).collect();
        let rounds = (0..schedule.phases()).map(lanes).collect();
        Self { schedule, rounds }
    }

    /// The most rounds that can go on at once, and the most operations of a round.
    fn most(&self) -> (usize, usize) {
        let open = (0..self.phases()).map(|phase| {
            let Phase { lanes, window, .. } = self.phase(phase);
            lanes.min(window.max(1)) as usize
        });
        let lanes = self.rounds.iter().flatten();
        (open.max().unwrap_or(0), lanes.flat_map(Rounds::iter).map(<[_]>::len).max().unwrap_or(0))
    }
}

impl Schedule for Collected {
    fn operation(&self) -> Operation {
        self.schedule.operation()
    }

    fn ranks(&self) -> u32 {
        self.schedule.ranks()
    }

    fn blocks(&self) -> u32 {
        self.schedule.blocks()
    }

    fn temporaries(&self) -> u8 {
        self.schedule.temporaries()
    }

    fn temporary(&self, tmp: u8, rank: u32) -> Held {
        self.schedule.temporary(tmp, rank)
    }

    fn phases(&self) -> u32 {
        self.rounds.len() as u32
    }

    fn phase(&self, phase: u32) -> Phase {
        self.schedule.phase(phase)
    }

    fn rounds(&self, _rank: u32, phase: u32, lane: u32) -> u32 {
        self.rounds[phase as usize][lane as usize].len() as u32
    }

    fn emit(&self, _rank: u32, phase: u32, lane: u32, rounds: Range<u32>, into: &mut Rounds) {
        into.append(&self.rounds[phase as usize][lane as usize], rounds);
    }

    fn runs(&self, view: u8, lo: u32, len: u32, run: &mut dyn FnMut(Run)) {
        self.schedule.runs(view, lo, len, run);
    }

    fn tie(&self, phase: u32, lane: u32) -> Tie {
        self.schedule.tie(phase, lane)
    }
}
