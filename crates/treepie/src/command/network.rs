//! `--network`.

use std::path::Path;

use anyhow::Context;
use treepie_topology::Network;

/// The network that a text describes, or the file that it names.
pub(crate) fn load(text: &str) -> anyhow::Result<Network> {
    let network = Network::load(text);
    // What is wrong with a text names it; what is wrong in a file does not.
    let is_file = Path::new(text).exists();
    network.with_context(|| if is_file { format!("--network {text}") } else { "--network".to_owned() })
}
