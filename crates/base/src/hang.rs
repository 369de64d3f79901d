//! The time limit after which a test counts as hung. It does not measure speed: a machine may be busy, so tests must
//! count or order events, and this only ends what would never end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The environment variable that sets another limit, in seconds.
const VARIABLE: &str = "TREEPIE_TEST_LIMIT_SECS";

/// The hang limit: ten minutes, or the variable's value.
///
/// # Panics
/// If that is not a number of seconds.
pub fn hang_limit() -> Duration {
    let Ok(text) = std::env::var(VARIABLE) else { return Duration::from_secs(600) };
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("{VARIABLE} is {text:?}, not a number of seconds above 0")))
}

/// The message for a wait that reached the limit.
pub fn hang_message(what: &str) -> String {
    let seconds = hang_limit().as_secs();
    format!("{what}: timed out after {seconds} s, the hang limit of tests (set by {VARIABLE})")
}

/// A watchdog for something that cannot be aborted from outside: unless this is dropped before the limit, the process
/// prints a message and exits.
pub struct HangGuard(#[expect(dead_code, reason = "dropping it ends the watch")] Sender<()>);

impl HangGuard {
    /// Starts the watchdog.
    pub fn new(what: &str) -> Self {
        let (guard, dropped) = channel();
        let what = what.to_owned();
        std::thread::spawn(move || {
            if dropped.recv_timeout(hang_limit()) == Err(RecvTimeoutError::Timeout) {
                eprintln!("{}", hang_message(&what));
                std::process::exit(101);
            }
        });
        Self(guard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_says_what_the_limit_is() {
        let text = hang_message("the end of all things");
        assert!(text.starts_with("the end of all things: ") && text.contains("TREEPIE_TEST_LIMIT_SECS"), "{text}");
        drop(HangGuard::new("nothing"));
    }
}
