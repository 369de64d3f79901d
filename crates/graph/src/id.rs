//! Numbers of vertices in results and messages: 32 bits where all vertices have such numbers, else 64.

use bytemuck::Pod;

/// A vertex's number in a result.
pub trait Id: Copy + Eq + Ord + std::fmt::Debug + 'static {
    /// A message to one vertex about another.
    type About: Pod;
    /// No vertex.
    const NONE: Self;

    /// From a number. It must fit.
    fn new(number: u64) -> Self;

    /// As a number.
    fn number(self) -> u64;

    /// A message to a vertex of the destination's about this one.
    fn about(self, place: u32) -> Self::About;

    /// What such a message says.
    fn parts(about: Self::About) -> (u32, Self);
}

impl Id for u32 {
    type About = [u32; 2];
    const NONE: Self = u32::MAX;

    #[inline]
    fn new(number: u64) -> Self {
        number as u32
    }

    #[inline]
    fn number(self) -> u64 {
        self.into()
    }

    #[inline]
    fn about(self, place: u32) -> [u32; 2] {
        [place, self]
    }

    #[inline]
    fn parts([place, id]: [u32; 2]) -> (u32, Self) {
        (place, id)
    }
}

impl Id for u64 {
    type About = [u32; 3];
    const NONE: Self = u64::MAX;

    #[inline]
    fn new(number: u64) -> Self {
        number
    }

    #[inline]
    fn number(self) -> u64 {
        self
    }

    #[inline]
    fn about(self, place: u32) -> [u32; 3] {
        let [low, high] = halves(self);
        [place, low, high]
    }

    #[inline]
    fn parts([place, low, high]: [u32; 3]) -> (u32, Self) {
        (place, whole([low, high]))
    }
}

/// A number in two halves, as messages carry it that begin with 32 bits.
#[inline]
pub(crate) fn halves(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// A number of its halves.
#[inline]
pub(crate) fn whole([low, high]: [u32; 2]) -> u64 {
    u64::from(low) | u64::from(high) << 32
}
