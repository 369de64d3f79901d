//! Checks of the environment variables before a world starts. Internal: programs do not call these.

use std::io::Write;
use std::sync::Once;

use treepie_base::{Result, environment};

/// Rejects variables with invalid values. If `ranks` is given, the network must have that number of ranks.
pub fn check(ranks: Option<u32>) -> Result<()> {
    treepie_comm::check_environment(ranks)?;
    treepie_am::check_environment()
}

/// Warns, once and on rank 0, of unknown `TREEPIE_` variables.
pub fn warn() {
    static WARNED: Once = Once::new();
    if std::env::var_os(treepie_shm::RANK_VAR).is_some_and(|rank| rank != "0") {
        return;
    }
    WARNED.call_once(|| {
        for line in environment::unknown_variables() {
            // A closed standard error is ignored.
            let _ = writeln!(std::io::stderr(), "treepie: warning: {line}");
        }
    });
}
