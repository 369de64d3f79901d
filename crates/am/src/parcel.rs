//! Messages of any length: whatever serde can write, by postcard.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::{Error, Rank};

use crate::coalescing::MOST_ROOM;
use crate::context::{Context, word};
use crate::handler::{Batch, Handler, whole};
use crate::port::Parcel;

/// Bytes that stand before a message, at most.
const MOST_HEAD: usize = 12;

impl<S> Context<S> {
    /// Sends a message of any length. One that is longer than a buffer travels alone.
    pub fn post<T: Serialize>(&mut self, parcel: Parcel<T>, to: Rank, message: &T) {
        match postcard::to_stdvec(message) {
            Ok(mut bytes) if fits(bytes.len()) => self.send_bytes(parcel.index, to, &mut bytes),
            Ok(bytes) => self.refuse_parcel(parcel.index, format_args!("it has {} bytes", bytes.len())),
            Err(error) => self.refuse_parcel(parcel.index, format_args!("{error}")),
        }
    }

    fn refuse_parcel(&mut self, index: usize, why: fmt::Arguments<'_>) {
        let name = &self.lanes[index].statistics.name;
        let error = Error::Algorithm(format!("a message of type `{name}` cannot be written: {why}"));
        self.fault.get_or_insert(error);
    }
}

/// Whether a buffer can have a message of so many bytes.
fn fits(bytes: usize) -> bool {
    bytes <= MOST_ROOM - MOST_HEAD
}

/// Each message of a buffer: who sent it, and its bytes.
pub(crate) fn each(batch: Batch<'_>) -> impl Iterator<Item = (Rank, &[u8])> {
    let mut rest = batch.body;
    std::iter::from_fn(move || {
        let mut from = batch.from;
        if batch.has_origin {
            (from, rest) = word(rest)?;
        }
        let (size, after) = word(rest)?;
        let (bytes, after) = after.split_at_checked(size as usize)?;
        rest = after;
        Some((from as Rank, bytes))
    })
}

/// A handler of one message.
pub(crate) fn parcels<S, T, F>(name: String, mut handle: F) -> Handler<S>
where
    T: DeserializeOwned,
    F: FnMut(&mut S, &mut Context<S>, T) + 'static,
{
    whole(move |state, context, batch| {
        let mut count = 0;
        for (from, bytes) in each(batch) {
            count += 1;
            match postcard::from_bytes(bytes) {
                Ok(message) => handle(state, context, message),
                Err(error) => {
                    let error = format!("a message of type `{name}` from rank {from} cannot be read: {error}");
                    context.fault.get_or_insert(Error::Algorithm(error));
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
        let longest = (2 << 30) - MOST_HEAD;
        assert_eq!((fits(longest), fits(longest + 1)), (true, false));
    }
}
