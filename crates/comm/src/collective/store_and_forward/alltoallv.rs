//! Alltoallv by store and forward: one item for each nonempty block.

use std::cell::RefCell;
use std::rc::Rc;

use bytemuck::{cast_slice, cast_slice_mut};
use treepie_base::{Bytes, Error, Pod, Region, Result, borrow_scope};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_fabric::{Endpoint, Task};
use treepie_schedule::Operation;
use treepie_topology::Network;

use super::{ForwardingScheme, StoreAndForward};
use crate::checked::AnnouncedCall;
use crate::collective::candidates::alltoallv_grid_dimensions;
use crate::collective::{BlockCounts, CallMode, CollectiveCall, wrong_length};
use crate::comm::Comm;
use crate::protocol::log_choice;
use crate::reactor_task::ReactorTask;
use crate::request::{Finish, Request};

/// The algorithms that are schedules for blocks of one length, and store and forward for others.
const FORWARDING_IDS: [&str; 3] = ["alltoall/grid", "alltoall/hypercube", BRUCK];
const BRUCK: &str = "alltoall/bruck";

/// An alltoallv in progress.
pub(crate) struct ForwardedAlltoallv {
    running: ReactorTask<StoreAndForward>,
    output: Region,
    /// Bytes of the block of each rank.
    from: Vec<usize>,
}

impl ForwardedAlltoallv {
    /// Checks the lengths of the received blocks and copies them to the output. Copies nothing if ranks disagree.
    fn unpack(&mut self) -> Result<()> {
        let items = self.running.reactor_mut().take_items();
        let mut got = vec![0; self.from.len()];
        items.iter().for_each(|(origin, bytes)| got[*origin as usize] += bytes.len());
        if let Some((got, expected)) = got.iter().zip(&self.from).find(|(got, expected)| got != expected) {
            return Err(Error::LengthMismatch { got: *got as u64, expected: *expected as u64 });
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
            _ => unreachable!("the output of a completed exchange has one owner"),
        }
    }
}

impl Task for ForwardedAlltoallv {
    fn step(&mut self, endpoint: &mut Endpoint) -> Option<Result<()>> {
        let result = self.running.step(endpoint)?;
        Some(result.and_then(|()| self.unpack()))
    }

    fn abort(&mut self, endpoint: &mut Endpoint) {
        self.running.abort(endpoint);
    }

    fn on_finalize(&mut self, endpoint: &mut Endpoint) {
        self.running.on_finalize(endpoint);
    }
}

impl Comm {
    /// The forwarding scheme of alltoallv, if one is set or store and forward is cheaper.
    pub(crate) fn forwarding_scheme(&self) -> Result<Option<ForwardingScheme>> {
        let Some(id) = self.collectives.choice.id_for(Operation::Alltoall)? else {
            return Ok(
                alltoallv_grid_dimensions(&self.transport_costs(), self.size() as u32).map(ForwardingScheme::Grid)
            );
        };
        let name = id.split(':').next().unwrap_or_default();
        if !FORWARDING_IDS.contains(&name) {
            return Ok(None);
        }
        // The schedule has the requested number of dimensions only where the number of ranks has enough factors.
        let network = Network::flat((self.size() as u32).next_power_of_two());
        let schedule = registry::build(id, &CollectiveSpec::new(Operation::Alltoall, &network));
        let schedule = schedule.map_err(|refusal| Error::Algorithm(refusal.to_string()))?;
        log_choice(self, format_args!("{id} for {} ranks, unknown bytes, point-to-point", self.size()));
        Ok(Some(if name == BRUCK { ForwardingScheme::Bruck } else { ForwardingScheme::Grid(schedule.phases()) }))
    }

    fn announce_alltoallv<T: Pod>(&self, to: &[usize], from: &[usize], mode: CallMode) -> AnnouncedCall {
        self.announce(|| {
            self.describe(&CollectiveCall::of::<T>(Operation::Alltoall, BlockCounts::LocalOnly(to, from)), mode)
        })
    }

    /// The alltoallv; `to` and `from` are numbers of elements.
    fn forwarded_alltoallv<T>(
        &self,
        scheme: ForwardingScheme,
        data: (Region, &[usize]),
        into: (Region, &[usize]),
    ) -> Result<ForwardedAlltoallv> {
        let instance = self.next_instance();
        let ((input, to), (output, from)) = (data, into);
        let size = size_of::<T>();
        let required = (to.iter().sum::<usize>() * size, from.iter().sum::<usize>() * size);
        if (input.len(), output.len()) != required {
            return self.abort_if_refused(instance, Err(wrong_length(size, required, input.len(), output.len())));
        }
        let mut at = 0;
        let items = to.iter().enumerate().map(|(rank, count)| {
            let begin = at;
            at += count * size;
            (rank as u32, input.subregion(begin..at))
        });
        let items = items.filter(|(_, bytes)| !bytes.is_empty());
        let exchange = StoreAndForward::new(self.rank() as u32, self.size() as u32, scheme, items);
        let running = self.reactor_task(exchange, instance);
        Ok(ForwardedAlltoallv { running, output, from: from.iter().map(|count| count * size).collect() })
    }

    /// Blocking alltoallv by store and forward.
    pub(crate) fn alltoallv_by_forwarding<T: Pod>(
        &self,
        scheme: ForwardingScheme,
        (data, to): (&[T], &[usize]),
        (into, from): (&mut [T], &[usize]),
    ) -> Result<()> {
        borrow_scope(
            |lending, _| {
                let input = lending.region(cast_slice(data));
                let output = lending.region_mut(cast_slice_mut(into));
                let announced = self.announce_alltoallv::<T>(to, from, CallMode::Blocking);
                let mut exchange = self.forwarded_alltoallv::<T>(scheme, (input, to), (output, from))?;
                announced.wait_for_agreement()?;
                self.endpoint().run_task(&mut exchange)
            },
            |panicked| self.endpoint().settle(panicked),
        )
    }

    /// Starts an alltoallv by store and forward.
    pub(crate) fn ialltoallv_by_forwarding<T: Pod>(
        &self,
        scheme: ForwardingScheme,
        (data, to): (Vec<T>, &[usize]),
        from: &[usize],
    ) -> Result<Request<'static, Vec<T>>> {
        let input = Region::from(Bytes::from(data));
        let output = Region::from(Bytes::from(vec![T::zeroed(); from.iter().sum()]));
        let announced = self.announce_alltoallv::<T>(to, from, CallMode::Nonblocking);
        let exchange = Rc::new(RefCell::new(self.forwarded_alltoallv::<T>(scheme, (input, to), (output, from))?));
        let id = self.spawn(announced, exchange.clone(), None);
        Ok(Request::new(self, id, Finish::Deferred(Box::new(move || Ok(exchange.borrow_mut().take_output())))))
    }
}
