//! The bit of the rank in which partners differ in each stage of an exchange, the farthest partners first.
//!
//! On a grid whose sides are powers of two, half of the ranks may take the dimensions in another order than the others:
//! then an exchange over some distance loads twice as many links, each half as much. The two classes of ranks are the
//! parities of the sum of coordinates: an exchange over an even distance stays within a class. The last stages, with
//! neighbors, cross between the classes and are the same for both.

/// The bits of the stages.
#[derive(Clone, Debug)]
pub(crate) struct StageBits {
    /// The bits for each of the two classes.
    stages: [Vec<u32>; 2],
    /// Bits of the rank whose parity is the class.
    parity: u32,
}

impl StageBits {
    /// Over 2^stages ranks as they are numbered, all in one class.
    pub(crate) fn plain(stages: u32) -> Self {
        let bits: Vec<u32> = (0..stages).rev().collect();
        Self { stages: [bits.clone(), bits], parity: 0 }
    }

    /// Over a grid, its first dimension fastest. `None` if a side is not a power of two.
    pub(crate) fn grid(dims: &[u32]) -> Option<Self> {
        if !dims.iter().all(|size| size.is_power_of_two()) {
            return None;
        }
        let mut strides = Vec::new();
        dims.iter().fold(0, |stride, size| {
            strides.push(stride);
            stride + size.trailing_zeros()
        });
        let with_bit = |bit: u32| -> Vec<u32> {
            let long = dims.iter().zip(&strides).filter(|(size, _)| size.trailing_zeros() > bit);
            long.map(|(_, stride)| stride + bit).rev().collect()
        };
        let mut stages = [Vec::new(), Vec::new()];
        for bit in (0..u32::BITS).rev() {
            let mut bits = with_bit(bit);
            stages[0].extend(&bits);
            if bit > 0 && !bits.is_empty() {
                bits.rotate_left(1);
            }
            stages[1].extend(&bits);
        }
        Some(Self { stages, parity: with_bit(0).iter().map(|bit| 1 << bit).sum() })
    }

    /// The number of stages.
    pub(crate) fn len(&self) -> u32 {
        self.stages[0].len() as u32
    }

    fn stages_of(&self, rank: u32) -> &[u32] {
        &self.stages[(rank & self.parity).count_ones() as usize % 2]
    }

    /// The partner in a stage.
    pub(crate) fn partner(&self, rank: u32, stage: u32) -> u32 {
        rank ^ 1 << self.stages_of(rank)[stage as usize]
    }

    /// The rank's bits of the last `stages` stages as a number, the last one highest: ranks that agree in some of the
    /// last stages are then an interval.
    pub(crate) fn position(&self, rank: u32, stages: u32) -> u32 {
        let bits = &self.stages_of(rank)[(self.len() - stages) as usize..];
        bits.iter().zip(0..).map(|(bit, at)| (rank >> bit & 1) << at).sum()
    }
}
