//! The engine interface, and matching and protocols above every engine.
#![forbid(unsafe_code)]

pub mod engine;

pub use engine::{Event, Fabric, Head, Invite, Life, SharedHeap, SharedMemory};
