//! The all-to-all exchange of blocks of any lengths by store and forward: one item for each block that is not empty.

use std::cell::RefCell;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Error, Pod, Region, Result, lending};
use treepie_collectives::registry::{self, Request as Asked};
use treepie_fabric::{Endpoint, Task};
use treepie_schedule::Operation;
use treepie_topology::Network;

use super::{Route, StoreAndForward};
use crate::checked::Announced;
use crate::collective::candidates::unequal_dimensions;
use crate::collective::{Call, Form, Lengths, wrong_length};
use crate::comm::Comm;
use crate::protocol::log_choice;
use crate::reactor::Running;
use crate::request::{Finish, Request};

/// The algorithms that are schedules for blocks of one length, and this for others.
const FAMILY: [&str; 3] = ["alltoall/grid", "alltoall/hypercube", BRUCK];
const BRUCK: &str = "alltoall/bruck";

/// An exchange of blocks that goes on.
pub(crate) struct Blocks {
    running: Running<StoreAndForward>,
    output: Region,
    /// Bytes of each rank's block.
    from: Vec<usize>,
}

impl Blocks {
    /// Checks what came, and puts it where it belongs. Nothing is put anywhere if ranks disagree.
    fn place(&mut self) -> Result<()> {
        let items = self.running.reactor_mut().take_items();
        let mut got = vec![0; self.from.len()];
        items.iter().for_each(|(origin, bytes)| got[*origin as usize] += bytes.len());
        if let Some((got, expected)) = got.iter().zip(&self.from).find(|(got, expected)| got != expected) {
            return Err(Error::Disagreement { got: *got as u64, expected: *expected as u64 });
        }
        let mut at = 0;
        for (_, bytes) in items {
            self.output.copy(at..at + bytes.len(), &bytes, 0..bytes.len());
            at += bytes.len();
        }
        Ok(())
    }

    fn take_output<T: Pod>(&mut self) -> Vec<T> {
        let output = std::mem::replace(&mut self.output, Region::from(Bytes::zeroed(0, 1)));
        match output.into_bytes().map(Bytes::into_vec) {
            Some(Ok(elements)) => elements,
            _ => unreachable!("the output of an exchange that is over is nobody else's"),
        }
    }
}

impl Task for Blocks {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let result = self.running.step(endpoint)?;
        Some(result.and_then(|()| self.place()))
    }

    fn give_up(&mut self, endpoint: &mut Endpoint) {
        self.running.give_up(endpoint);
    }

    fn leave(&mut self, endpoint: &mut Endpoint) {
        self.running.leave(endpoint);
    }
}

impl Comm {
    /// How blocks of unequal lengths are to be stored and forwarded, if that was asked for or is cheaper.
    pub(crate) fn asked_route(&self) -> Result<Option<Route>> {
        let Some(id) = self.collectives.choice.id_for(Operation::Alltoall)? else {
            return Ok(unequal_dimensions(&self.prices(), self.size() as u32).map(Route::Grid));
        };
        let name = id.split(':').next().unwrap_or_default();
        if !FAMILY.contains(&name) {
            return Ok(None);
        }
        // The schedule has as many dimensions as it was asked for only where the number of ranks can be divided so often.
        let network = Network::flat((self.size() as u32).next_power_of_two());
        let schedule = registry::build(id, &Asked::new(Operation::Alltoall, &network));
        let schedule = schedule.map_err(|refusal| Error::Algorithm(refusal.to_string()))?;
        log_choice(self, format_args!("{id} for {} ranks, unknown bytes, by messages", self.size()));
        Ok(Some(if name == BRUCK { Route::Bruck } else { Route::Grid(schedule.phases()) }))
    }

    fn announce_blocks<T: Pod>(&self, to: &[usize], from: &[usize], form: Form) -> Announced {
        self.announce(|| self.describe(&Call::of::<T>(Operation::Alltoall, Lengths::Private(to, from)), form))
    }

    /// `to` and `from` are numbers of elements.
    fn blocks<T>(&self, route: Route, data: (Region, &[usize]), into: (Region, &[usize])) -> Result<Blocks> {
        let instance = self.next_instance();
        let ((input, to), (output, from)) = (data, into);
        let size = size_of::<T>();
        let needed = (to.iter().sum::<usize>() * size, from.iter().sum::<usize>() * size);
        if (input.len(), output.len()) != needed {
            return self.unless_refused(instance, Err(wrong_length(size, needed, input.len(), output.len())));
        }
        let mut at = 0;
        let items = to.iter().enumerate().map(|(rank, count)| {
            let begin = at;
            at += count * size;
            (rank as u32, input.sub(begin..at))
        });
        let items = items.filter(|(_, bytes)| !bytes.is_empty());
        let router = StoreAndForward::new(self.rank() as u32, self.size() as u32, route, items);
        let running = self.running(router, instance);
        Ok(Blocks { running, output, from: from.iter().map(|count| count * size).collect() })
    }

    /// Exchanges blocks by store and forward.
    pub(crate) fn run_blocks<T: Pod>(
        &self,
        route: Route,
        (data, to): (&[T], &[usize]),
        (into, from): (&mut [T], &[usize]),
    ) -> Result<()> {
        lending(
            |lending, _| {
                let input = lending.region(cast_slice(data));
                let output = lending.region_mut(cast_slice_mut(into));
                let announced = self.announce_blocks::<T>(to, from, Form::Blocking);
                let mut blocks = self.blocks::<T>(route, (input, to), (output, from))?;
                announced.settle()?;
                self.endpoint().run(&mut blocks)
            },
            |panicked| self.endpoint().settle(panicked),
        )
    }

    /// Begins to exchange blocks by store and forward.
    pub(crate) fn start_blocks<T: Pod>(
        &self,
        route: Route,
        (data, to): (Vec<T>, &[usize]),
        from: &[usize],
    ) -> Result<Request<'static, Vec<T>>> {
        let input = Region::from(Bytes::from(data));
        let output = Region::from(Bytes::from(vec![T::zeroed(); from.iter().sum()]));
        let announced = self.announce_blocks::<T>(to, from, Form::Nonblocking);
        let blocks = Rc::new(RefCell::new(self.blocks::<T>(route, (input, to), (output, from))?));
        let id = self.spawn(announced, blocks.clone(), None);
        Ok(Request::new(self, id, Finish::Kept(Box::new(move || Ok(blocks.borrow_mut().take_output())))))
    }
}
