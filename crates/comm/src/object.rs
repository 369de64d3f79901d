//! Messages and collective operations of any type that serde serializes, in the format of postcard: `comm.send_object(..)`.
//!
//! A collective operation consists of two: one of the lengths, one of the bytes. A rank whose object cannot be serialized
//! takes part in the first with `FAILED` for a length. It gets [`Error::Object`], the other ranks [`Error::Aborted`]. Every
//! call takes both instance numbers, however it ends, so that ranks stay in step (see `refused.rs`).

use serde::Serialize;
use serde::de::DeserializeOwned;
use treepie_base::memory::zeroed;
use treepie_base::{Error, Rank, Result, Source, Status, Tag, TagMatch};
use treepie_fabric::AbortReason;
use treepie_schedule::Operation;

use crate::comm::Comm;

/// Stands for the length of an object that could not be serialized.
const FAILED: u64 = u64::MAX;

/// The bytes of an object.
///
/// # Errors
/// [`Error::Object`] if it cannot be serialized.
pub fn encode<T: Serialize + ?Sized>(object: &T) -> Result<Vec<u8>> {
    postcard::to_stdvec(object).map_err(|error| Error::Object(format!("cannot be serialized: {error}")))
}

/// The object of these bytes.
///
/// # Errors
/// [`Error::Object`] if they are not those of an object of this type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    let name = std::any::type_name::<T>;
    match postcard::take_from_bytes(bytes) {
        Ok((object, [])) => Ok(object),
        Ok((_, rest)) => Err(Error::Object(format!("cannot be read as {}: {} bytes are left", name(), rest.len()))),
        Err(error) => Err(Error::Object(format!("cannot be read as {}: {error}", name()))),
    }
}

/// What the memory of received objects is for.
const PURPOSE: &str = "objects of other ranks";

impl Comm {
    /// Like [`send`](Self::send), of an object.
    pub fn send_object<T: Serialize + ?Sized>(&self, object: &T, to: Rank, tag: Tag) -> Result<()> {
        self.send(&encode(object)?, to, tag)
    }

    /// Receives an object that was sent by [`send_object`](Self::send_object).
    ///
    /// # Errors
    /// [`Error::Object`] if the message is not an object of this type; it is consumed.
    pub fn recv_object<T: DeserializeOwned>(
        &self,
        from: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<(T, Status)> {
        let (bytes, status) = self.recv_vec::<u8>(from, tag)?;
        Ok((decode(&bytes)?, status))
    }

    /// Broadcast of an object: returns the root's on every rank. Non-root ranks pass `None`.
    ///
    /// # Errors
    /// [`Error::Object`] on a root that passes `None`; the other ranks get [`Error::Aborted`].
    pub fn bcast_object<T: Serialize + DeserializeOwned>(&self, object: Option<T>, root: Rank) -> Result<T> {
        let _compared = self.compare_call(&[], || format!("bcast_object from rank {root}"))?;
        let is_root = self.rank() == root;
        let encoded = match &object {
            _ if !is_root => Ok(Vec::new()),
            Some(object) => encode(object),
            None => Err(Error::Object("is missing: the root of bcast_object passes None".to_owned())),
        };
        let length = self.bcast_one(length_of(&encoded), root).map(|length| vec![length]);
        let (encoded, lengths) = self.both(encoded, length, |_| root)?;
        let mut bytes = if is_root { encoded } else { self.or_abort(zeroed(lengths[0], PURPOSE))? };
        self.bcast(&mut bytes, root)?;
        match object.filter(|_| is_root) {
            Some(object) => Ok(object),
            None => decode(&bytes),
        }
    }

    /// Gather of objects: returns those of all ranks, by rank, on the root, and `None` elsewhere.
    pub fn gather_objects<T: Serialize + DeserializeOwned>(&self, object: &T, root: Rank) -> Result<Option<Vec<T>>> {
        let _compared = self.compare_call(&[Operation::Allgather], || format!("gather_objects to rank {root}"))?;
        let encoded = encode(object);
        let lengths = self.allgather_one(length_of(&encoded));
        let (bytes, counts) = self.both(encoded, lengths, |rank| rank)?;
        let is_root = self.rank() == root;
        let mut all = self.or_abort(zeroed(if is_root { counts.iter().sum() } else { 0 }, PURPOSE))?;
        self.gatherv(&bytes, &counts, &mut all, root)?;
        is_root.then(|| decode_all(&all, &counts)).transpose()
    }

    /// Allgather of objects: returns those of all ranks, by rank.
    pub fn allgather_objects<T: Serialize + DeserializeOwned>(&self, object: &T) -> Result<Vec<T>> {
        let _compared = self.compare_call(&[Operation::Allgather], || "allgather_objects".to_owned())?;
        let encoded = encode(object);
        let lengths = self.allgather_one(length_of(&encoded));
        let (bytes, counts) = self.both(encoded, lengths, |rank| rank)?;
        let mut all = self.or_abort(zeroed(counts.iter().sum(), PURPOSE))?;
        self.allgatherv(&bytes, &counts, &mut all)?;
        decode_all(&all, &counts)
    }

    /// This rank's bytes and the lengths of all, if the operation of the lengths succeeded here and no rank failed to
    /// serialize; `rank_of` is the rank of a length. Otherwise the second operation does not start on this rank: where all
    /// know that, they skip its number.
    fn both(
        &self,
        encoded: Result<Vec<u8>>,
        lengths: Result<Vec<u64>>,
        rank_of: impl Fn(usize) -> Rank,
    ) -> Result<(Vec<u8>, Vec<usize>)> {
        let lengths = self.or_abort(lengths)?;
        let Some(failed) = lengths.iter().position(|length| *length == FAILED) else {
            return Ok((encoded?, lengths.into_iter().map(|length| length as usize).collect()));
        };
        self.next_instance();
        encoded.and_then(|_| Err(Error::Aborted { rank: self.world_rank(rank_of(failed))? as Rank }))
    }

    /// If this rank cannot start the second operation, it aborts it: other ranks may be in it.
    fn or_abort<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.abort_operation(self.next_instance(), AbortReason::from_error(error));
        }
        result
    }
}

fn length_of(encoded: &Result<Vec<u8>>) -> u64 {
    encoded.as_ref().map_or(FAILED, |bytes| bytes.len() as u64)
}

/// The objects whose bytes stand one after the other.
fn decode_all<T: DeserializeOwned>(mut bytes: &[u8], counts: &[usize]) -> Result<Vec<T>> {
    let mut objects = Vec::with_capacity(counts.len());
    for count in counts {
        let (object, rest) = bytes.split_at(*count);
        objects.push(decode(object)?);
        bytes = rest;
    }
    Ok(objects)
}
