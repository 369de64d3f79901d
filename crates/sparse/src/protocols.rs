//! The protocols, one per file.

mod crystal;
mod nbx;
mod nbx_all_channels;
mod pcx;
mod pex;
mod rsx;

use treepie_base::Bytes;
use treepie_comm::protocol::{ReactorCapabilities, RingPosition};

use crate::protocol::{ExchangeBuffers, ExchangeProtocol, ExchangeReactor};
use crate::protocol_tagged::ProtocolTagged;
use crystal::Crystal;
use nbx::Nbx;
use nbx_all_channels::NbxAllChannels;
use pcx::Pcx;
use pex::Pex;
use rsx::Rsx;

impl ExchangeProtocol {
    /// Starts the protocol on one rank with these messages.
    pub fn begin(
        self,
        position: RingPosition,
        capabilities: ReactorCapabilities,
        messages: Vec<(u32, Bytes)>,
    ) -> Box<dyn ExchangeReactor> {
        let buffers = ExchangeBuffers::new(position, messages);
        match self {
            ExchangeProtocol::Pex => Box::new(ProtocolTagged::new(self, Pex::new(position, buffers))),
            ExchangeProtocol::Pcx => Box::new(ProtocolTagged::new(self, Pcx::new(position, buffers))),
            ExchangeProtocol::Rsx => Box::new(ProtocolTagged::new(self, Rsx::new(position, capabilities, buffers))),
            ExchangeProtocol::Nbx => Box::new(ProtocolTagged::new(self, Nbx::new(position, capabilities, buffers))),
            ExchangeProtocol::NbxOrderedBarrier => {
                Box::new(ProtocolTagged::new(self, Nbx::with_ordered_barrier(position, buffers)))
            }
            ExchangeProtocol::NbxAllChannels => {
                Box::new(ProtocolTagged::new(self, NbxAllChannels::new(position, buffers)))
            }
            ExchangeProtocol::Crystal => Box::new(ProtocolTagged::new(self, Crystal::new(position, buffers))),
        }
    }
}
