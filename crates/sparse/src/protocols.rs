//! The protocols, one per file.

mod crystal;
mod nbx;
mod nbx_all_channels;
mod pcx;
mod pex;
mod rsx;
mod rsx_coordinators;

use treepie_base::Bytes;
use treepie_comm::protocol::{ReactorCapabilities, RingPosition};

use crate::protocol::{ExchangeBuffers, ExchangeProtocol, ExchangeReactor};
use crate::protocol_tagged::ProtocolTagged;
use crate::routes::ExchangeRoutes;
use crate::summary_barrier::SummaryBarrier;
use crystal::Crystal;
use nbx::Nbx;
use nbx_all_channels::NbxAllChannels;
use pcx::Pcx;
use pex::Pex;
use rsx::Rsx;
use rsx_coordinators::RsxOverCoordinators;

impl ExchangeProtocol {
    /// Starts the protocol on one rank with these messages. Routes are those of all ranks.
    pub fn begin(
        self,
        position: RingPosition,
        capabilities: ReactorCapabilities,
        routes: &ExchangeRoutes,
        messages: Vec<(u32, Bytes)>,
    ) -> Box<dyn ExchangeReactor> {
        let buffers = ExchangeBuffers::new(position, messages);
        let barrier = || match capabilities.barrier {
            true => SummaryBarrier::of_engine(),
            false => SummaryBarrier::by_messages(position, routes),
        };
        match self {
            ExchangeProtocol::Pex => self.tagged(Pex::new(position, buffers)),
            ExchangeProtocol::Pcx => self.tagged(Pcx::new(position, buffers)),
            ExchangeProtocol::Rsx => match routes.coordinators_for(capabilities) {
                Some(forest) => self.tagged(RsxOverCoordinators::new(position.rank, forest.clone(), buffers)),
                None => self.tagged(Rsx::new(barrier(), capabilities.counters, buffers)),
            },
            ExchangeProtocol::Nbx => self.tagged(Nbx::new(barrier(), buffers)),
            ExchangeProtocol::NbxOrderedBarrier => self.tagged(Nbx::with_ordered_barrier(buffers)),
            ExchangeProtocol::NbxAllChannels => self.tagged(NbxAllChannels::new(position, buffers)),
            ExchangeProtocol::Crystal => self.tagged(Crystal::new(position, buffers)),
        }
    }

    fn tagged(self, exchange: impl ExchangeReactor + 'static) -> Box<dyn ExchangeReactor> {
        Box::new(ProtocolTagged::new(self, exchange))
    }
}
