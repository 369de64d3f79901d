//! Parcels: variable-length messages, serialized by serde and postcard.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::{Error, Rank};

use crate::coalescing::MAX_BUFFER_BYTES;
use crate::context::Context;
use crate::handler::{Batch, Handler, batch_handler};
use crate::port::Parcel;
use crate::send_path::SendPath;
use crate::type_channel::split_u32;

/// Maximum bytes of the header of a message.
const MAX_HEADER_LEN: usize = 12;

impl<S> Context<S> {
    /// Sends a variable-length message. One that is longer than a buffer is sent alone.
    pub fn send_parcel<T: Serialize>(&mut self, parcel: Parcel<T>, to: Rank, message: &T) {
        self.sends.send_parcel(parcel, to, message);
    }
}

impl SendPath {
    pub(crate) fn send_parcel<T: Serialize>(&mut self, parcel: Parcel<T>, to: Rank, message: &T) {
        match postcard::to_stdvec(message) {
            Ok(mut bytes) if fits(bytes.len()) => self.send_bytes(parcel.index, to, &mut bytes),
            Ok(bytes) => self.refuse_parcel(parcel.index, format_args!("it has {} bytes", bytes.len())),
            Err(error) => self.refuse_parcel(parcel.index, format_args!("{error}")),
        }
    }

    fn refuse_parcel(&mut self, index: usize, why: fmt::Arguments<'_>) {
        let name = &self.channels[index].statistics.name;
        let error = Error::Algorithm(format!("a message of type `{name}` cannot be serialized: {why}"));
        self.error.get_or_insert(error);
    }
}

/// Whether a message of this length fits into a buffer.
fn fits(bytes: usize) -> bool {
    bytes <= MAX_BUFFER_BYTES - MAX_HEADER_LEN
}

/// The messages of a buffer with their sources.
pub(crate) fn messages(batch: Batch<'_>) -> impl Iterator<Item = (Rank, &[u8])> {
    let mut rest = batch.body;
    std::iter::from_fn(move || {
        let mut from = batch.from;
        if batch.has_origin {
            (from, rest) = split_u32(rest)?;
        }
        let (size, after) = split_u32(rest)?;
        let (bytes, after) = after.split_at_checked(size as usize)?;
        rest = after;
        Some((from as Rank, bytes))
    })
}

/// A handler of one message.
pub(crate) fn parcel_handler<S, T, F>(name: String, mut handle: F) -> Handler<S>
where
    T: DeserializeOwned,
    F: FnMut(&mut S, &mut Context<S>, T) + 'static,
{
    batch_handler(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in messages(batch) {
            count += 1;
            match postcard::from_bytes(bytes) {
                Ok(message) => handle(state, context, message),
                Err(error) => {
                    let error = format!("a message of type `{name}` from rank {from} cannot be deserialized: {error}");
                    context.sends.error.get_or_insert(Error::Algorithm(error));
                }
            }
        }
        count
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_is_longer_than_a_buffer() {
        let max = (2 << 30) - MAX_HEADER_LEN;
        assert_eq!((fits(max), fits(max + 1)), (true, false));
    }
}
