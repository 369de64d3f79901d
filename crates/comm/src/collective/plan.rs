//! What was found out for a call, kept for the next one like it, and the way that it runs.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use treepie_base::Result;
use treepie_fabric::{self as fabric, Endpoint, Room, Why};
use treepie_schedule::Operation;

use super::cost::{Rooms, Way};
use super::job::{Fold, Job};
use super::straight::{AGREEMENT, Instance, LONG, Straight, about_call, await_all, meet, numbered, read, write};
use super::{Call, Folding, Form, Given, needed, wrong_length};
use crate::comm::Comm;

/// What was found out for a call.
pub(super) struct Plan {
    operation: Operation,
    lengths: (usize, Box<[usize]>, Box<[usize]>),
    element: usize,
    align: usize,
    commutes: bool,
    in_place: bool,
    /// Bytes that the caller must give.
    input: usize,
    output: usize,
    job: Job,
    straight: Option<Straight>,
    /// Whether that goes over the board.
    meets: bool,
    /// When it was used last.
    used: u64,
}

impl Plan {
    /// Whether it is for the same calls as another one.
    fn is_like(&self, other: &Self) -> bool {
        let alike = |plan: &Self| {
            (plan.operation, plan.lengths.clone(), plan.element, plan.align, plan.commutes, plan.in_place)
        };
        alike(self) == alike(other)
    }

    fn is_for(&self, call: &Call<'_>) -> bool {
        let (elements, input, output) = call.lengths.key();
        self.operation == call.operation
            && self.lengths.0 == elements
            && self.element == call.element
            && self.align == call.align
            && self.commutes == call.commutes
            && self.in_place == call.in_place
            && are_equal(&self.lengths.1, input)
            && are_equal(&self.lengths.2, output)
    }
}

/// Compares lists that are mostly empty. The C library's `memcmp` reads nothing of them, but does so by a masked load from
/// an address where nothing is, which costs 80 ns: as much as the rest of a short operation.
#[inline]
fn are_equal(one: &[usize], other: &[usize]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}

/// Plans of a communicator that were used last.
const PLANS: usize = 32;

/// The plans of a handle of a communicator. They are large, so they stay where they are.
#[derive(Default)]
pub(super) struct Plans {
    plans: Vec<Plan>,
    /// The one that was used last.
    last: usize,
    /// Calls so far.
    clock: u64,
}

impl Plans {
    /// The plan for a call, if there is one.
    #[inline]
    fn find(&mut self, call: &Call<'_>) -> Option<&mut Plan> {
        if self.plans.get(self.last).is_none_or(|plan| !plan.is_for(call)) {
            self.last = self.plans.iter().position(|plan| plan.is_for(call))?;
        }
        self.clock += 1;
        let plan = &mut self.plans[self.last];
        plan.used = self.clock;
        Some(plan)
    }

    /// Keeps a plan, instead of the one that was not used for the longest time if there are many. Those that go over the
    /// board are forgotten once none does any more.
    fn keep(&mut self, plan: Plan) {
        if !plan.meets {
            self.plans.retain(|other| !(other.meets && other.is_like(&plan)));
        }
        if self.plans.len() == PLANS
            && let Some(oldest) = (0..PLANS).min_by_key(|place| self.plans[*place].used)
        {
            self.plans.swap_remove(oldest);
        }
        self.plans.push(plan);
    }
}

/// Where less is moved it is not worth asking whether it can be shown.
const LEAST_SHOWN: usize = 8 << 10;

impl Comm {
    /// Runs a collective operation on borrowed memory.
    pub(crate) fn run_call<F>(&self, call: &Call<'_>, input: &[u8], output: &mut [u8], fold: Option<F>) -> Result<()>
    where
        F: Fn(&mut [u8], &[u8], bool) + 'static,
    {
        let announced = self.announce(|| self.describe(call, Form::Blocking));
        // Taken first: a rank that is refused the call must not stay behind those that are not.
        let mut instance = Instance { context: self.own_context(), number: self.next_instance() };
        let mut plans = self.collectives.plans.borrow_mut();
        if plans.find(call).is_none_or(|plan| plan.meets && self.board_is_closed()) {
            let planned = self.plan(call, &mut instance);
            let plan = self.unless_refused(instance.number, planned)?;
            plans.keep(plan);
        }
        let plan = plans.find(call).expect("it was there or is now");
        let given = (input.len(), output.len());
        if given != (plan.input, plan.output) {
            let refusal = wrong_length(call.element, (plan.input, plan.output), given.0, given.1);
            return self.unless_refused(instance.number, Err(refusal));
        }
        announced.settle()?;
        if let Some(straight) = &mut plan.straight {
            let fold = fold.as_ref().map(|fold| fold as &Folding);
            return straight.run(&mut self.endpoint(), instance, input, output, fold);
        }
        let job = Job { fold: fold.map(|fold| Rc::new(fold) as Fold), ..plan.job.clone() };
        drop(plans);
        self.run_job(job, instance.number, call.in_place, Given::Read(input), output)
    }

    /// How a call is made. What ranks find out together for it takes the number of `instance`, which then gets the next one.
    #[cold]
    fn plan(&self, call: &Call<'_>, instance: &mut Instance) -> Result<Plan> {
        let rooms = self.rooms(call, instance)?;
        let (schedule, way) = self.schedule_for(call, rooms.as_ref())?;
        let job = self.job_by(call, None, schedule);
        let (input, output) = needed(call, &job);
        let straight = match (way, &rooms) {
            (Way::Board(manner), Some(rooms)) => Straight::over_board(&job, call.in_place, rooms, manner),
            _ => None,
        };
        let eager_limit = self.endpoint().eager_limit();
        let straight =
            straight.or_else(|| Straight::by_messages(&job, call.in_place, eager_limit, &mut self.endpoint()));
        let meets = straight.as_ref().is_some_and(Straight::meets);
        let Call { operation, element, align, commutes, in_place, .. } = *call;
        let (elements, in_counts, out_counts) = call.lengths.key();
        let lengths = (elements, in_counts.into(), out_counts.into());
        Ok(Plan {
            operation,
            lengths,
            element,
            align,
            commutes,
            in_place,
            input,
            output,
            job,
            straight,
            meets,
            used: 0,
        })
    }

    /// Whether the engine's board is this communicator's: it is that of all ranks, and only one communicator uses it, as
    /// all must come to its meetings in the same order. Nor do those use it who compare their calls first: what refuses a call
    /// is to be known by then, and plans for the board are made together.
    pub(crate) fn has_board(&self) -> bool {
        !self.is_checked() && self.owns_board() && !self.board_is_closed()
    }

    /// Whether the engine's board is this communicator's, open or closed.
    pub(crate) fn owns_board(&self) -> bool {
        let mut endpoint = self.endpoint();
        self.context() == 0 && self.size() == endpoint.size() as usize && endpoint.board().is_some()
    }

    /// Whether somebody has closed the board.
    #[inline]
    fn board_is_closed(&self) -> bool {
        self.endpoint().board().is_some_and(|board| board.left().is_some())
    }

    /// The rooms of the board for a call, if the call can be made over it.
    fn rooms(&self, call: &Call<'_>, instance: &mut Instance) -> Result<Option<Rooms>> {
        let bytes = call.lengths.total(self.size() as u32).map(|elements| elements * call.element);
        // What only some ranks know must not decide.
        let Some(bytes) = bytes.filter(|_| self.has_board()) else {
            return Ok(None);
        };
        let shows = bytes >= LEAST_SHOWN && self.agree_whether_to_show(instance)?;
        let mut endpoint = self.endpoint();
        Ok(endpoint.board().map(|board| Rooms {
            line: board.capacity(Room::Line),
            page: board.capacity(Room::Page),
            hall: board.capacity(Room::Hall),
            shows,
        }))
    }

    /// Whether all ranks can read each other's memory. They find out together, in the first call that could use it, and the call
    /// itself gets the next number: a rank that is through may send messages of the call while others are still at the board,
    /// which would take them for those of another call. If one rank is through, all have come, so all take that number.
    fn agree_whether_to_show(&self, instance: &mut Instance) -> Result<bool> {
        if let Some(known) = self.inner.shows.get() {
            return Ok(known);
        }
        self.endpoint().meet_for(instance.context, instance.tag(), fabric::Call::named(LONG));
        let mut panicked = None;
        let agreed = self.find_out_whether_to_show(numbered(*instance, AGREEMENT), &mut panicked);
        if agreed.is_ok() {
            instance.number = self.next_instance();
        }
        if let Some(panic) = panicked {
            // Either all ranks have completed the agreement or none has, so all use the same number. This rank aborts the call.
            self.give_up_operation(instance.number, Why::Unsaid);
            resume_unwind(panic);
        }
        let agreed = agreed?;
        self.inner.shows.set(Some(agreed));
        Ok(agreed)
    }

    /// While this rank waits at the board, the operator of another operation may panic. The rank completes the agreement all the
    /// same: otherwise others would hang, or their next call would have another number. `panicked` gets the first panic.
    fn find_out_whether_to_show(&self, about: u64, panicked: &mut Option<Box<dyn Any + Send>>) -> Result<bool> {
        let mut endpoint = self.endpoint();
        let (this, ranks) = (endpoint.rank(), endpoint.size());
        let word = 0x7265_6570_6965_u64 ^ u64::from(this);
        let shown = word.to_ne_bytes();
        // Each step can be repeated: a panic unwinds from a wait, before the step has changed anything.
        let mut step = |endpoint: &mut Endpoint, step: &dyn Fn(&mut Endpoint) -> Result<()>| loop {
            match catch_unwind(AssertUnwindSafe(|| step(endpoint))) {
                Ok(result) => return result,
                Err(panic) => drop(panicked.get_or_insert(panic)),
            }
        };
        step(&mut endpoint, &|endpoint| {
            endpoint.wait_at_board(|board| board.try_show(Room::Page, 0, &shown).then_some(()))
        })?;
        step(&mut endpoint, &|endpoint| meet(endpoint, Room::Page, about))?;
        step(&mut endpoint, &|endpoint| await_all(endpoint, about))?;
        let mut all = true;
        for rank in (0..ranks).filter(|rank| *rank != this) {
            let mut got = [0; 8];
            let fetched = endpoint.board().expect("it has met there").fetch(rank, Room::Page, 0, 0, &mut got);
            all &= fetched && u64::from_ne_bytes(got) == word ^ u64::from(this) ^ u64::from(rank);
        }
        step(&mut endpoint, &|endpoint| write(endpoint, Room::Line, 0, &[u8::from(all)]))?;
        step(&mut endpoint, &|endpoint| meet(endpoint, Room::Line, about))?;
        step(&mut endpoint, &|endpoint| await_all(endpoint, about))?;
        for rank in (0..ranks).filter(|rank| *rank != this) {
            all &= read(&mut endpoint, rank, about, (Room::Line, 0, 1))? == [1];
        }
        // Others read `shown` before the second meeting.
        std::hint::black_box(&shown);
        Ok(all)
    }

    #[cold]
    fn find_out_whether_it_meets(&self) -> bool {
        let meets = self.prefers_central_barrier() && self.has_board();
        self.collectives.meets.set(Some(meets));
        meets
    }

    /// Waits until all ranks have come, over the board. None if that is not the barrier to take.
    #[inline]
    pub(crate) fn barrier_at_board(&self) -> Option<Result<()>> {
        let known = self.collectives.meets.get();
        if !known.unwrap_or_else(|| self.find_out_whether_it_meets()) {
            return None;
        }
        let instance = Instance { context: self.own_context(), number: self.next_instance() };
        if self.board_is_closed() {
            self.collectives.meets.set(Some(false));
            self.inner.instances.set(instance.number);
            return None;
        }
        let about = numbered(instance, about_call(Operation::Barrier, 0));
        let endpoint = &mut self.endpoint();
        endpoint.meet_for(instance.context, instance.tag(), fabric::Call::new("barrier", 0, Some(0)));
        let coming = Coming { endpoint };
        let met = meet(coming.endpoint, Room::Line, about);
        std::mem::forget(coming);
        let result = met.and_then(|()| await_all(endpoint, about));
        if let Err(error) = &result {
            endpoint.leave_board(Why::of(error));
        }
        Some(result)
    }
}

/// A rank that has begun a barrier and has not come to its meeting. If an operator of another operation panics meanwhile, it never
/// comes, and leaves the board: others would wait for it.
struct Coming<'a> {
    endpoint: &'a mut Endpoint,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        self.endpoint.leave_board(Why::Unsaid);
    }
}
