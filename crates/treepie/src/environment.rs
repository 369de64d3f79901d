//! What the environment says is checked before a world begins; not for programs.

use std::io::Write;
use std::sync::Once;

use treepie_base::{Result, environment};

/// Refuses variables with values that are not accepted. Whether the network has as many ranks as the world is looked at
/// where that number is given.
pub fn check(ranks: Option<u32>) -> Result<()> {
    treepie_comm::check_environment(ranks)?;
    treepie_am::check_environment()
}

/// Warns, once and on one rank, of variables that are set and not known.
pub fn warn() {
    static WARNED: Once = Once::new();
    if std::env::var_os(treepie_shm::RANK).is_some_and(|rank| rank != "0") {
        return;
    }
    WARNED.call_once(|| {
        for line in environment::unknown() {
            // If nobody reads it, there is nobody to warn.
            let _ = writeln!(std::io::stderr(), "treepie: warning: {line}");
        }
    });
}
