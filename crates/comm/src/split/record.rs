//! Messages of one value.

use bytemuck::{bytes_of, pod_read_unaligned};
use treepie_base::{Bytes, Error, Pod, Result};

/// Encodes a value.
pub(super) fn write(value: &impl Pod) -> Bytes {
    Bytes::copy_of(bytes_of(value), align_of::<u64>())
}

/// Decodes a value.
pub(super) fn read<T: Pod>(bytes: &Bytes) -> Result<T> {
    let bytes = bytes.as_slice();
    if bytes.len() != size_of::<T>() {
        return Err(refused(bytes.len(), size_of::<T>()));
    }
    Ok(pod_read_unaligned(bytes))
}

/// Decodes a list of values.
pub(super) fn read_all<T: Pod>(bytes: Bytes) -> Result<Vec<T>> {
    bytes.into_vec().map_err(|bytes| refused(bytes.as_slice().len(), size_of::<T>()))
}

/// The error for a message of another operation.
pub(super) fn refused(got: usize, expected: usize) -> Error {
    Error::LengthMismatch { got: got as u64, expected: expected as u64 }
}
