//! All tests but that of memory, which replaces the allocator: one program, as each would compile the same generic code
//! again.

#[path = "deep/main.rs"]
mod deep;
#[path = "files/main.rs"]
mod files;
#[path = "deep/listed.rs"]
mod listed;
#[path = "readers/main.rs"]
mod readers;
#[path = "deep/worlds.rs"]
mod worlds;
