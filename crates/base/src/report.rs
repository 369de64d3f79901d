//! How errors are printed: one line of their Display text, with the rank whose error it is.
//!
//! `fn main() -> treepie::Result<()>` prints its error by `Debug`, so `Debug` of the library's errors is that line.
//! Rust writes "Error: ", the text and the newline one after the other; the launcher joins them. Under `mpirun` that
//! depends on its own forwarding.

use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, Rank, Result};

/// The rank of this process, plus 1; 0 if it has none.
static PROCESS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The rank of this thread, where ranks are threads.
    static THREAD: Cell<Option<Rank>> = const { Cell::new(None) };
}

/// Sets the rank that errors of this process report.
pub fn set_process_rank(rank: Rank) {
    PROCESS.store(rank as u64 + 1, Ordering::Relaxed);
}

/// Runs `body` with this rank in the errors that this thread prints.
pub fn with_thread_rank<R>(rank: Rank, body: impl FnOnce() -> R) -> R {
    struct Before(Option<Rank>);
    impl Drop for Before {
        fn drop(&mut self) {
            THREAD.set(self.0);
        }
    }
    let _before = Before(THREAD.replace(Some(rank)));
    body()
}

fn current_rank() -> Option<Rank> {
    let process = || PROCESS.load(Ordering::Relaxed).checked_sub(1).map(|rank| rank as Rank);
    THREAD.get().or_else(process)
}

/// Writes an error's text in one line and one write, with the rank if there is one.
pub fn fmt_error(error: &dyn fmt::Display, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let rank = current_rank().map_or_else(String::new, |rank| format!("rank {rank}: "));
    let text = format!("{rank}{error}");
    f.write_str(&if text.contains('\n') { text.replace('\n', " | ") } else { text })
}

/// Makes `Debug` of an error type that users return from `main` the line that [`fmt_error`] writes.
#[macro_export]
macro_rules! debug_by_display {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            /// The Display text in one line, with the rank if this process or thread has one: so `main` prints it.
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::report::fmt_error(self, f)
            }
        }
    };
}

/// The results of all ranks, by rank, or the error of the one that failed, with its rank.
///
/// Ranks that lost a peer, or whose peer aborted an operation, fail in consequence: any other error takes precedence.
///
/// ```
/// use treepie_base::{Error, all_ok};
///
/// assert_eq!(all_ok([Ok('a'), Ok('b')]), Ok(vec!['a', 'b']));
/// let failed = all_ok::<()>([Err(Error::PeerLost { rank: 1 }), Err(Error::BadTag { tag: u32::MAX })]);
/// assert_eq!(failed.unwrap_err().to_string(), "rank 1: tag 4294967295 is above the largest tag, 2147483647");
/// ```
pub fn all_ok<T>(results: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let mut values = Vec::new();
    let mut failed: Option<(Rank, Error)> = None;
    for (rank, result) in results.into_iter().enumerate() {
        match result {
            Ok(value) => values.push(value),
            Err(error) if failed.as_ref().is_none_or(|(_, first)| is_consequence(first) && !is_consequence(&error)) => {
                failed = Some((rank, error));
            }
            Err(_) => {}
        }
    }
    failed.map_or(Ok(values), |(rank, error)| Err(Error::Rank { rank, error: Box::new(error) }))
}

/// Whether an error is the consequence of another rank's failure.
fn is_consequence(error: &Error) -> bool {
    matches!(error, Error::PeerLost { .. } | Error::Aborted { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts writes, each of which would be one to standard error, which has no buffer.
    struct Writes(Vec<String>);

    impl fmt::Write for Writes {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.push(text.to_owned());
            Ok(())
        }
    }

    fn written(error: &Error) -> Vec<String> {
        let mut writes = Writes(Vec::new());
        fmt::Write::write_fmt(&mut writes, format_args!("{error:?}")).unwrap();
        writes.0
    }

    #[test]
    fn debug_is_the_text_in_one_write_with_the_rank() {
        let error = Error::Truncated { got: 8, room: 4 };
        let text = "a message of 8 bytes does not fit a receive of 4 bytes; it can still be received";
        assert_eq!(written(&error), [text]);
        assert_eq!(with_thread_rank(3, || written(&error)), [format!("rank 3: {text}")]);
        assert_eq!(written(&error), [text]);
        assert_eq!(written(&Error::Engine("one\ntwo".into())), ["one | two"]);
    }

    #[test]
    fn the_root_cause_is_reported_with_its_rank() {
        let lost = |rank| Err(Error::PeerLost { rank });
        let named = |results: Vec<Result<()>>| all_ok(results).unwrap_err().to_string();
        assert!(named(vec![Ok(()), lost(2), lost(1)]).starts_with("rank 1: rank 2 was lost"));
        assert_eq!(named(vec![lost(1), Err(Error::Cancelled), lost(1)]), "rank 1: the receive was cancelled");
        assert_eq!(named(vec![Err(Error::Cancelled), Err(Error::Cancelled)]), "rank 0: the receive was cancelled");
    }
}
