//! Alltoallv by store and forward: one item for each nonempty block.

use std::cell::RefCell;
use std::rc::Rc;

use treepie_base::{Bytes, Error, Region, Result, borrow_scope};
use treepie_collectives::registry::{self, CollectiveSpec};
use treepie_fabric::{Endpoint, OpId, Task};
use treepie_model::CostTerms;
use treepie_model::predict::MessageCosts;
use treepie_schedule::Operation;
use treepie_topology::Network;

use super::{ForwardingScheme, StoreAndForward};
use crate::collective::call::{BlockCounts, CallMode, CollectiveCall};
use crate::collective::nonblocking::OutputTask;
use crate::collective::wrong_length;
use crate::comm::Comm;
use crate::protocol::log_choice;
use crate::reactor_task::ReactorTask;

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

impl OutputTask for ForwardedAlltoallv {
    fn take_output(&mut self) -> Region {
        std::mem::replace(&mut self.output, Region::from(Bytes::zeroed(0, 1)))
    }
}

/// How an alltoallv is forwarded, and its counts.
pub(crate) struct ForwardedCall<'a> {
    scheme: ForwardingScheme,
    to: &'a [usize],
    from: &'a [usize],
}

/// Dimensions of the grid over which alltoallv forwards blocks by default, if it does. Depends on the number of ranks
/// alone, as no rank knows all counts. Assumes blocks of 512 bytes, and requires store and forward to be cheaper by
/// half, since it costs twice as much for longer blocks.
fn alltoallv_grid_dimensions(costs: &MessageCosts<'_>) -> Option<u32> {
    let p = f64::from(costs.network().ranks());
    let n = 512.0 * p;
    let direct = costs.time(&CostTerms::new(p - 1.0, n).with_steps(1.0)).total();
    let forwarded = costs.time(&CostTerms::new(2.0 * (p.sqrt() - 1.0), 2.0 * n).with_steps(2.0)).total();
    (1.5 * forwarded < direct).then_some(2)
}

impl Comm {
    /// How a call is forwarded, if it is an alltoallv by store and forward.
    #[inline]
    pub(crate) fn forwarding<'a>(&self, call: &CollectiveCall<'a>) -> Result<Option<ForwardedCall<'a>>> {
        let (Operation::Alltoall, BlockCounts::LocalOnly(to, from)) = (call.operation, call.counts) else {
            return Ok(None);
        };
        let scheme = self.accept(self.forwarding_scheme())?;
        Ok(scheme.map(|scheme| ForwardedCall { scheme, to, from }))
    }

    /// The forwarding scheme of alltoallv, if one is set or store and forward is cheaper.
    fn forwarding_scheme(&self) -> Result<Option<ForwardingScheme>> {
        let Some(id) = self.collectives.choice.id_for(Operation::Alltoall)? else {
            let flat = Network::flat(self.size() as u32);
            return Ok(alltoallv_grid_dimensions(&self.message_costs(&flat).farthest()).map(ForwardingScheme::Grid));
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

    fn forwarded_alltoallv(
        &self,
        call: &CollectiveCall<'_>,
        ForwardedCall { scheme, to, from }: ForwardedCall<'_>,
        input: &Region,
        output: Region,
    ) -> Result<ForwardedAlltoallv> {
        let instance = self.next_instance();
        let (required, given) = (self.buffer_sizes(call), (input.len(), output.len()));
        if given != required {
            return self.abort_if_refused(instance, Err(wrong_length(call.element, required, given)));
        }
        let mut at = 0;
        let items = to.iter().enumerate().map(|(rank, count)| {
            let begin = at;
            at += count * call.element;
            (rank as u32, input.subregion(begin..at))
        });
        let items = items.filter(|(_, bytes)| !bytes.is_empty());
        let exchange = StoreAndForward::new(self.rank() as u32, self.size() as u32, scheme, items);
        let running = self.reactor_task(exchange, instance);
        Ok(ForwardedAlltoallv { running, output, from: from.iter().map(|count| count * call.element).collect() })
    }

    /// Blocking alltoallv by store and forward.
    #[cold]
    pub(crate) fn run_forwarding(
        &self,
        call: &CollectiveCall<'_>,
        forwarding: ForwardedCall<'_>,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<()> {
        borrow_scope(
            |lending, _| {
                let (input, output) = (lending.region(input), lending.region_mut(output));
                let announced = self.announce(|| self.describe(call, CallMode::Blocking));
                let mut exchange = self.forwarded_alltoallv(call, forwarding, &input, output)?;
                announced.wait_for_agreement()?;
                self.endpoint().run_task(&mut exchange)
            },
            |panicked| self.endpoint().settle(panicked),
        )
    }

    /// Starts an alltoallv by store and forward.
    pub(crate) fn start_forwarding(
        &self,
        call: &CollectiveCall<'_>,
        forwarding: ForwardedCall<'_>,
        input: &Region,
        output: Region,
    ) -> Result<(OpId, Rc<RefCell<dyn OutputTask>>)> {
        let announced = self.announce(|| self.describe(call, CallMode::Nonblocking));
        let exchange = Rc::new(RefCell::new(self.forwarded_alltoallv(call, forwarding, input, output)?));
        Ok((self.spawn(announced, exchange.clone(), None), exchange))
    }
}
