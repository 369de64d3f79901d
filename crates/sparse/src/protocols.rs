//! The protocols, one per file.

mod crystal;
mod nbx;
mod nbx_all_channels;
mod pcx;
mod pex;
mod rsx;

pub(crate) use crystal::Crystal;
pub(crate) use nbx::Nbx;
pub(crate) use nbx_all_channels::NbxAllChannels;
pub(crate) use pcx::Pcx;
pub(crate) use pex::Pex;
pub(crate) use rsx::Rsx;
