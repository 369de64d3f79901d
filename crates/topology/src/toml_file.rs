//! Reading TOML files, for networks and for profiles of machines.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a regular file of limited length. A device may never end, and opening a FIFO may block.
pub fn read_regular_file(path: &Path, max_bytes: u64) -> io::Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    // The length in the metadata may be wrong (`/proc`), and the file may grow.
    let read = File::open(path)?.take(max_bytes + 1).read_to_string(&mut text)?;
    if read as u64 > max_bytes {
        return Err(io::Error::other(format!("it has more than {} MiB", max_bytes >> 20)));
    }
    Ok(text)
}

/// An error of a parser in one line, with the number of the line.
pub fn format_error(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join(", ");
    match error.span() {
        Some(span) if !text.is_empty() => {
            let line = 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count();
            format!("line {line}: {message}")
        }
        _ => message,
    }
}
