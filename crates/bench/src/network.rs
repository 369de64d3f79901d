//! `--network`.

use std::path::Path;

use anyhow::Context;
use treepie_topology::Network;

/// Parses a network description, or reads the file of that name.
pub fn load(text: &str) -> anyhow::Result<Network> {
    let network = Network::load(text);
    // Errors in a description quote it; errors in a file do not name the file.
    let is_file = Path::new(text).exists();
    network.with_context(|| if is_file { format!("--network {text}") } else { "--network".to_owned() })
}
