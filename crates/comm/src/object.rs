//! Messages and collective operations of any type that serde serializes, in the format of postcard:
//! `comm.send_object(..)`.
//!
//! A collective operation consists of two. In the first, all ranks get a head of each object: its length, and the
//! object itself if it is short. The second has the bytes of the others; if there are none, it does not take place. A
//! rank whose object cannot be serialized takes part in the first with `FAILED` for a length. It gets
//! [`Error::Object`], the other ranks [`Error::Aborted`]. Every call takes both instance numbers, however it ends, so
//! that ranks stay in step (see `refused.rs`).

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

/// The heads of objects: of each its length, and its bytes if they are at most [`Heads::short`]. All heads have one
/// length, so that the first operation is planned once.
struct Heads {
    bytes: Vec<u8>,
    /// Bytes of a head.
    len: usize,
}

/// Bytes of a head: so few that the first operation takes about as long as with lengths alone. All heads have at most
/// `ALL_HEADS` bytes, unless the lengths have more.
const MAX_HEAD: usize = 512;
const ALL_HEADS: usize = 8 << 10;
const LENGTH: usize = size_of::<u64>();

impl Heads {
    fn new(objects: usize) -> Self {
        let len = (ALL_HEADS / objects).clamp(LENGTH, MAX_HEAD);
        Self { bytes: vec![0; objects * len], len }
    }

    /// The longest object that is in its head.
    fn short(&self) -> usize {
        self.len - LENGTH
    }

    /// Sets the head of an object; `None` if it could not be serialized.
    fn set(&mut self, index: usize, object: Option<&[u8]>) {
        let short = self.short();
        let head = &mut self.bytes[index * self.len..][..self.len];
        head[..LENGTH].copy_from_slice(&object.map_or(FAILED, |bytes| bytes.len() as u64).to_le_bytes());
        if let Some(bytes) = object.filter(|bytes| bytes.len() <= short) {
            head[LENGTH..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    fn length(&self, index: usize) -> u64 {
        let head = &self.bytes[index * self.len..];
        u64::from_le_bytes(head[..LENGTH].try_into().expect("it has that length"))
    }

    fn lengths(&self) -> impl Iterator<Item = u64> {
        (0..self.bytes.len() / self.len).map(|index| self.length(index))
    }

    /// Bytes of the second operation for an object of this length: none if it is short, else rounded up to five
    /// significant bits, so that objects of similar lengths share a plan.
    fn count(&self, length: u64) -> usize {
        let length = length as usize;
        if length <= self.short() { 0 } else { length.next_multiple_of((length.next_power_of_two() / 32).max(1)) }
    }

    /// The bytes of an object; `long` begins with them if it is not short.
    fn object<'a>(&'a self, index: usize, long: &'a [u8]) -> &'a [u8] {
        let length = self.length(index) as usize;
        if length <= self.short() { &self.bytes[index * self.len + LENGTH..][..length] } else { &long[..length] }
    }

    /// The objects; `long` has those that are not short, one after the other.
    fn decode_all<T: DeserializeOwned>(&self, mut long: &[u8]) -> Result<Vec<T>> {
        let objects = self.lengths().enumerate().map(|(index, length)| {
            let object = decode(self.object(index, long));
            long = &long[self.count(length)..];
            object
        });
        objects.collect()
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
        let encoded = match &object {
            _ if self.rank() != root => Ok(Vec::new()),
            Some(object) => encode(object),
            None => Err(Error::Object("is missing: the root of bcast_object passes None".to_owned())),
        };
        let mut heads = Heads::new(1);
        heads.set(0, encoded.as_deref().ok());
        let first = self.bcast(&mut heads.bytes, root);
        let (mut bytes, counts) = self.between(first, encoded, &heads, |_| root)?;
        if let Some(counts) = counts {
            if self.rank() != root {
                bytes = self.or_abort(zeroed(counts[0], PURPOSE))?;
            }
            bytes.resize(counts[0], 0);
            self.bcast(&mut bytes, root)?;
        }
        match object.filter(|_| self.rank() == root) {
            Some(object) => Ok(object),
            None => decode(heads.object(0, &bytes)),
        }
    }

    /// Scatter of objects: returns `objects[rank]` of the root. Non-root ranks pass an empty slice.
    ///
    /// # Errors
    /// [`Error::BadLength`] on a root that does not pass an object for each rank; the other ranks get
    /// [`Error::Aborted`].
    pub fn scatter_objects<T: Serialize + DeserializeOwned>(&self, objects: &[T], root: Rank) -> Result<T> {
        let _compared = self.compare_call(&[], || format!("scatter_objects from rank {root}"))?;
        let (me, got, expected) = (self.rank(), objects.len(), self.size());
        let encoded: Result<Vec<_>> = match got == expected {
            _ if me != root => Ok(Vec::new()),
            true => objects.iter().map(encode).collect(),
            false => Err(Error::BadLength { what: "the list of objects", got, expected }),
        };
        let mut heads = Heads::new(expected);
        match &encoded {
            Ok(encoded) => encoded.iter().enumerate().for_each(|(rank, bytes)| heads.set(rank, Some(bytes))),
            Err(_) => heads.set(0, None),
        }
        let first = self.bcast(&mut heads.bytes, root);
        let (encoded, counts) = self.between(first, encoded, &heads, |_| root)?;
        let mut own = Vec::new();
        if let Some(counts) = counts {
            own = self.or_abort(zeroed(counts[me], PURPOSE))?;
            let mut all = self.or_abort(zeroed(if me == root { counts.iter().sum() } else { 0 }, PURPOSE))?;
            let mut rest = &mut all[..];
            for (bytes, count) in encoded.iter().zip(&counts).filter(|(_, count)| **count > 0) {
                let (block, after) = rest.split_at_mut(*count);
                block[..bytes.len()].copy_from_slice(bytes);
                rest = after;
            }
            self.scatterv(&all, &counts, &mut own, root)?;
        }
        decode(heads.object(me, &own))
    }

    /// Gather of objects: returns those of all ranks, by rank, on the root, and `None` elsewhere.
    pub fn gather_objects<T: Serialize + DeserializeOwned>(&self, object: &T, root: Rank) -> Result<Option<Vec<T>>> {
        let _compared = self.compare_call(&[Operation::Allgather], || format!("gather_objects to rank {root}"))?;
        let allowed = self.accept_blocking(self.check_rank(root));
        let (heads, bytes, counts) = self.allgather_heads(encode(object), allowed.map(drop))?;
        let is_root = self.rank() == root;
        let mut all = Vec::new();
        if let Some(counts) = &counts {
            all = self.or_abort(zeroed(if is_root { counts.iter().sum() } else { 0 }, PURPOSE))?;
            self.gatherv(&bytes, counts, &mut all, root)?;
        }
        is_root.then(|| heads.decode_all(&all)).transpose()
    }

    /// Allgather of objects: returns those of all ranks, by rank.
    pub fn allgather_objects<T: Serialize + DeserializeOwned>(&self, object: &T) -> Result<Vec<T>> {
        let _compared = self.compare_call(&[Operation::Allgather], || "allgather_objects".to_owned())?;
        let (heads, bytes, counts) = self.allgather_heads(encode(object), Ok(()))?;
        let mut all = Vec::new();
        if let Some(counts) = &counts {
            all = self.or_abort(zeroed(counts.iter().sum(), PURPOSE))?;
            self.allgatherv(&bytes, counts, &mut all)?;
        }
        heads.decode_all(&all)
    }

    /// The first operation where each rank has an object, if the call is allowed: the heads, and what this rank passes
    /// to the second operation.
    fn allgather_heads(
        &self,
        encoded: Result<Vec<u8>>,
        allowed: Result<()>,
    ) -> Result<(Heads, Vec<u8>, Option<Vec<usize>>)> {
        let mut heads = Heads::new(self.size());
        let mut own = Heads { bytes: vec![0; heads.len], ..heads };
        own.set(0, encoded.as_deref().ok());
        let first = allowed.and_then(|()| self.allgather_into(&own.bytes, &mut heads.bytes));
        let (mut bytes, counts) = self.between(first, encoded, &heads, |rank| rank)?;
        if let Some(counts) = &counts {
            bytes.resize(counts[self.rank()], 0);
        }
        Ok((heads, bytes, counts))
    }

    /// After the first operation: this rank's bytes, and the counts of the second operation if there is one; `rank_of`
    /// is the rank of an object. An error if the first has failed here, or a rank could not serialize. Where all know
    /// that there is no second operation, they skip its number.
    fn between<E>(
        &self,
        first: Result<()>,
        encoded: Result<E>,
        heads: &Heads,
        rank_of: impl Fn(usize) -> Rank,
    ) -> Result<(E, Option<Vec<usize>>)> {
        self.or_abort(first)?;
        if let Some(failed) = heads.lengths().position(|length| length == FAILED) {
            self.skip_blocking();
            return encoded.and_then(|_| Err(Error::Aborted { rank: self.world_rank(rank_of(failed))? as Rank }));
        }
        let counts: Vec<usize> = heads.lengths().map(|length| heads.count(length)).collect();
        if counts.iter().any(|count| *count > 0) {
            return Ok((encoded?, Some(counts)));
        }
        self.skip_blocking();
        Ok((encoded?, None))
    }

    /// If this rank cannot start the second operation, it aborts it: other ranks may be in it.
    fn or_abort<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.abort_operation(self.skip_blocking(), AbortReason::from_error(error));
        }
        result
    }
}
