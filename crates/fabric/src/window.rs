//! One-sided communication (windows) over records, for engines without a shared heap: the target handles put, get and
//! fetch-and-add records whenever it makes progress.

mod endpoint;

use std::collections::{HashMap, HashSet};

/// The local parts of windows, and replies to requests of this rank.
#[derive(Default)]
pub(crate) struct WindowMemory {
    parts: HashMap<u32, Vec<u8>>,
    /// Read-only windows, which others may read until they are freed.
    read_only: HashSet<u32>,
    /// Puts of this rank that their targets have not acknowledged.
    unacked_puts: usize,
    /// The reply to the request with number `request`, the only outstanding one. Replies to abandoned requests may
    /// arrive later.
    reply: Option<Vec<u8>>,
    request: u32,
    /// Gets from windows that this rank has not created yet.
    deferred_gets: Vec<GetRequest>,
}

/// A get request of a peer.
struct GetRequest {
    from: u32,
    window: u32,
    number: u32,
    at: u64,
    len: usize,
}

impl WindowMemory {
    pub(crate) fn has_read_only(&self) -> bool {
        !self.read_only.is_empty()
    }

    fn part(&mut self, window: u32) -> &mut Vec<u8> {
        self.parts.get_mut(&window).expect("a window is used between its creation and its release")
    }

    fn read(&mut self, window: u32, at: u64, len: usize) -> &[u8] {
        &self.part(window)[at as usize..at as usize + len]
    }

    fn write(&mut self, window: u32, at: u64, data: &[u8]) {
        self.part(window)[at as usize..at as usize + data.len()].copy_from_slice(data);
    }

    fn fetch_add(&mut self, window: u32, at: u64, value: u64) -> u64 {
        let word: &mut [u8] = &mut self.part(window)[at as usize..at as usize + 8];
        let old = u64::from_ne_bytes((&*word).try_into().expect("8 bytes"));
        word.copy_from_slice(&old.wrapping_add(value).to_ne_bytes());
        old
    }
}
