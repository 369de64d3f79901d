//! The mirror: the rank that answers the messages of a measurement.

use treepie_comm::{ANY_TAG, Comm, Rank, Tag};

use crate::Result;

/// The number of bytes of the next data messages; answered when there is memory for them.
pub(crate) const SIZE: Tag = 1;
/// Data, answered by an empty message.
pub(crate) const TRIP: Tag = 2;
/// An empty message, answered by data.
pub(crate) const RETURN: Tag = 3;
/// The number of messages of a train; answered when the mirror is ready for it, and at its end.
pub(crate) const TRAIN: Tag = 4;
/// A message of a train.
pub(crate) const CAR: Tag = 5;
/// Data that is not answered.
pub(crate) const SINK: Tag = 6;
/// The end of the measurement.
pub(crate) const STOP: Tag = 7;
/// All answers.
pub(crate) const REPLY: Tag = 8;

/// Bytes of a number in a command.
pub(crate) const NUMBER: usize = size_of::<u64>();

/// Answers a [`MessageProbe`](crate::MessageProbe) of rank `measuring`, until that is finished or dropped. An error of
/// its messages, such as the loss of that rank, ends it.
pub fn serve(comm: &Comm, measuring: Rank) -> Result<()> {
    let reply = |data: &[u8]| comm.send(data, measuring, REPLY);
    let (mut bytes, mut data) = (0, vec![0u8; NUMBER]);
    loop {
        let status = comm.recv(&mut data, measuring, ANY_TAG)?;
        match status.tag {
            SIZE => {
                bytes = number(&data) as usize;
                data.resize(bytes.max(NUMBER), 0);
                reply(&[])?;
            }
            TRIP => reply(&[])?,
            RETURN => reply(&data[..bytes])?,
            TRAIN => {
                let messages = number(&data);
                reply(&[])?;
                for _ in 0..messages {
                    comm.recv(&mut [0u8; 0], measuring, CAR)?;
                }
                reply(&[])?;
            }
            STOP => return Ok(()),
            _ => {}
        }
    }
}

fn number(data: &[u8]) -> u64 {
    let mut bytes = [0; NUMBER];
    bytes.copy_from_slice(&data[..NUMBER]);
    u64::from_le_bytes(bytes)
}
