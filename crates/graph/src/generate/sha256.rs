//! SHA-256, for golden values of long results in tests. [FIPS 180-4]

/// An incremental hash.
pub(super) struct Sha256 {
    state: [u32; 8],
    constants: [u32; 64],
    /// The partial block.
    block: Vec<u8>,
    bytes: u64,
}

impl Sha256 {
    pub(super) fn new() -> Self {
        let mut primes = (2u128..).filter(|number| (2..*number).all(|divisor| number % divisor != 0));
        let primes: [u128; 64] = std::array::from_fn(|_| primes.next().expect("there are enough primes"));
        // The first 32 bits of the fractional parts of their roots.
        let state = std::array::from_fn(|at| root(primes[at] << 64, 2) as u32);
        Self { state, constants: primes.map(|prime| root(prime << 96, 3) as u32), block: Vec::new(), bytes: 0 }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        for byte in bytes {
            self.block.push(*byte);
            if self.block.len() == 64 {
                self.digest();
            }
        }
    }

    /// The hash in hexadecimal digits.
    pub(super) fn finish(mut self) -> String {
        let bits = self.bytes * 8;
        self.write(&[0x80]);
        while self.block.len() != 56 {
            self.write(&[0]);
        }
        self.write(&bits.to_be_bytes());
        self.state.iter().map(|word| format!("{word:08x}")).collect()
    }

    fn digest(&mut self) {
        let mut words = [0u32; 64];
        for (word, bytes) in words.iter_mut().zip(self.block.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        self.block.clear();
        for at in 16..64 {
            let (sigma1, sigma0) = (words[at - 2], words[at - 15]);
            let sigma1 = sigma1.rotate_right(17) ^ sigma1.rotate_right(19) ^ sigma1 >> 10;
            let sigma0 = sigma0.rotate_right(7) ^ sigma0.rotate_right(18) ^ sigma0 >> 3;
            words[at] = sigma1.wrapping_add(words[at - 7]).wrapping_add(sigma0).wrapping_add(words[at - 16]);
        }
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = self.state;
        for (word, constant) in words.iter().zip(self.constants) {
            let sum = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let first = h.wrapping_add(sum).wrapping_add(e & f ^ !e & g).wrapping_add(constant).wrapping_add(*word);
            let sum = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = sum.wrapping_add(a & b ^ a & c ^ b & c);
            (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
        }
        for (word, add) in self.state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            *word = word.wrapping_add(add);
        }
    }
}

/// The integer part of a root, bit by bit.
fn root(number: u128, degree: u32) -> u128 {
    (0..40).rev().fold(0, |root: u128, bit| {
        let next = root | 1 << bit;
        if next.checked_pow(degree).is_some_and(|power| power <= number) { next } else { root }
    })
}

#[test]
fn known_hashes() {
    let hash = |text: &[u8]| {
        let mut hash = Sha256::new();
        hash.write(text);
        hash.finish()
    };
    assert_eq!(hash(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
