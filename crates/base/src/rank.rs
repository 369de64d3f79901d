//! Ranks, tags, and the status of messages.

/// A process of a communicator: 0 to size - 1.
pub type Rank = usize;

/// A number that the sender attaches to a message and the receiver matches: 0 to [`MAX_TAG`].
pub type Tag = u32;

/// The largest tag a program may use; those above belong to the library.
pub const MAX_TAG: Tag = 0x7fff_ffff;

/// The source that a receive matches. A plain rank converts into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Only this rank.
    Rank(Rank),
    /// Any rank.
    Any,
}

/// Receive from any source.
pub const ANY_SOURCE: Source = Source::Any;

impl From<Rank> for Source {
    fn from(rank: Rank) -> Self {
        Source::Rank(rank)
    }
}

/// The tag that a receive matches. A plain tag converts into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TagMatch {
    /// Only this tag.
    Tag(Tag),
    /// Any tag.
    Any,
}

/// Receive any tag.
pub const ANY_TAG: TagMatch = TagMatch::Any;

impl From<Tag> for TagMatch {
    fn from(tag: Tag) -> Self {
        TagMatch::Tag(tag)
    }
}

/// The status of a message that was received or probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// The sender, as a rank of the communicator it came on.
    pub source: Rank,
    /// The tag it carries.
    pub tag: Tag,
    /// Its length in bytes.
    pub bytes: u64,
}

impl Status {
    /// Its length in elements of `T`, rounded down.
    pub fn count<T>(&self) -> usize {
        match size_of::<T>() {
            0 => 0,
            size => (self.bytes / size as u64) as usize,
        }
    }
}
