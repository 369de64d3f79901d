//! The limit after which a test takes something for a hang. It is no statement about speed: a machine may be busy, so what
//! is tested has to be counted or ordered, and this only ends what would never end.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Name of the variable that sets another limit, in seconds.
const VARIABLE: &str = "TREEPIE_TEST_LIMIT_SECS";

/// Ten minutes, or what the variable says.
///
/// # Panics
/// If that is no number of seconds.
pub fn hang_limit() -> Duration {
    let Ok(text) = std::env::var(VARIABLE) else { return Duration::from_secs(600) };
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0);
    Duration::from_secs(seconds.unwrap_or_else(|| panic!("{VARIABLE} is {text:?}, not a number of seconds above 0")))
}

/// What to say of something that was waited for until the limit.
pub fn hang_message(what: &str) -> String {
    let seconds = hang_limit().as_secs();
    format!(
        "{what}: waited in vain for {seconds} s, the limit after which tests take it for a hang (set by {VARIABLE})"
    )
}

/// Watches something that cannot be given up from outside: if this is not dropped before the limit, the process says so and
/// ends.
pub struct HangGuard(#[expect(dead_code, reason = "dropping it ends the watch")] Sender<()>);

impl HangGuard {
    /// Begins to watch.
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
