//! Compressed files: gzip (RFC 1952), bzip2, and Zstandard (RFC 8878).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Bzip2,
    Zstandard,
}

/// All of them, their extensions, and how their files begin.
const COMPRESSIONS: [(Compression, &str, &[u8]); 3] = [
    (Compression::Gzip, "gz", b"\x1f\x8b"),
    (Compression::Bzip2, "bz2", b"BZh"),
    (Compression::Zstandard, "zst", b"\x28\xb5\x2f\xfd"),
];

impl Compression {
    /// By the extension of a file, or by its first bytes if it has none.
    pub(super) fn of(file: &Path) -> Option<Self> {
        if file.extension().is_some() {
            return Self::of_extension(file);
        }
        let mut begin = [0; 4];
        let read = File::open(file).and_then(|mut file| file.read(&mut begin)).unwrap_or(0);
        let found = COMPRESSIONS.iter().find(|(.., magic)| begin[..read].starts_with(magic));
        found.map(|(compression, ..)| *compression)
    }

    pub(super) fn of_extension(file: &Path) -> Option<Self> {
        let extension = file.extension()?.to_str()?.to_ascii_lowercase();
        COMPRESSIONS.iter().find(|(_, known, _)| *known == extension).map(|(compression, ..)| *compression)
    }

    /// The name of a file without the extension of its compression.
    pub(super) fn strip_extension(file: &Path) -> &Path {
        match (Self::of_extension(file), file.file_stem()) {
            (Some(_), Some(stem)) => Path::new(stem),
            _ => file,
        }
    }

    /// The extension of its files.
    pub(super) fn extension(self) -> &'static str {
        COMPRESSIONS.iter().find(|(known, ..)| *known == self).map_or("", |(_, extension, _)| extension)
    }

    /// A reader of the decompressed bytes.
    pub(super) fn reader(self, file: File) -> Box<dyn Read> {
        let bytes = BufReader::with_capacity(1 << 16, file);
        match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(bytes)),
            Self::Bzip2 => Box::new(MultiBzDecoder::new(bytes)),
            Self::Zstandard => Box::new(ZstandardFrames::new(bytes)),
        }
    }

    /// A bound of the compression ratio.
    pub(super) fn max_ratio(self) -> u64 {
        match self {
            // At least two bits for 258 bytes.
            Self::Gzip => 1040,
            // A block of 900,000 bytes, each five of which are a run of 255, takes some 40.
            Self::Bzip2 => 1 << 21,
            // A block of 128 KiB of one byte takes four.
            Self::Zstandard => 1 << 16,
        }
    }
}

/// The largest window of a frame, as the zstd command accepts it: memory that a file asks for.
const MAX_WINDOW_BYTES: u64 = 1 << 27;

/// The frames of a Zstandard file, one after the other.
struct ZstandardFrames<R> {
    bytes: R,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<R: BufRead> ZstandardFrames<R> {
    fn new(bytes: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW_BYTES);
        Self { bytes, decoder, is_in_frame: false }
    }

    /// Reads the header of the next frame, or skips one without data.
    fn begin_frame(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.bytes) {
            Ok(()) => self.is_in_frame = true,
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let length = u64::from(length);
                if io::copy(&mut self.bytes.by_ref().take(length), &mut io::sink())? < length {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(_) => return Err(io::Error::other("a frame has no valid header")),
        }
        Ok(())
    }
}

impl<R: BufRead> Read for ZstandardFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_in_frame {
                if self.bytes.fill_buf()?.is_empty() {
                    return Ok(0);
                }
                self.begin_frame()?;
                continue;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let decoded = self.decoder.decode_blocks(&mut self.bytes, BlockDecodingStrategy::UptoBlocks(1));
                // Its text is for those who write decoders.
                decoded.map_err(|_| io::Error::other("a frame is broken or incomplete"))?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 {
                return Ok(read);
            }
            let declared = self.decoder.get_checksum_from_data();
            if declared.is_some() && declared != self.decoder.get_calculated_checksum() {
                return Err(io::Error::other("the checksum of a frame differs"));
            }
            self.is_in_frame = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST_FRAME: &[u8] = b"\x28\xb5\x2f\xfd\x04\x58\x21\x00\x00\x31\x20\x32\x0a\xd4\xdd\xb5\x12";
    const SECOND_FRAME: &[u8] = b"\x28\xb5\x2f\xfd\x00\x58\x21\x00\x00\x33\x20\x34\x0a";

    /// Two frames of `zstd` with a skippable one between them: "1 2\n" with a checksum, and "3 4\n" without.
    fn frames() -> Vec<u8> {
        let mut bytes = FIRST_FRAME.to_vec();
        bytes.extend(b"\x50\x2a\x4d\x18\x03\0\0\0xyz");
        bytes.extend(SECOND_FRAME);
        bytes
    }

    #[test]
    fn frames_follow_each_other() {
        let read = |bytes: &[u8]| {
            let mut text = String::new();
            ZstandardFrames::new(bytes).read_to_string(&mut text).map(|_| text)
        };
        let bytes = frames();
        assert_eq!(read(&bytes).unwrap(), "1 2\n3 4\n");
        let ends = [0, FIRST_FRAME.len(), FIRST_FRAME.len() + 11, bytes.len()];
        for end in 0..=bytes.len() {
            assert_eq!(read(&bytes[..end]).is_ok(), ends.contains(&end), "{end} bytes");
        }
        // After the magic number, the descriptor and the window size, which may be larger than needed.
        for at in 6..FIRST_FRAME.len() {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            assert_ne!(read(&bytes).ok().as_deref(), Some("1 2\n3 4\n"), "byte {at}");
        }
    }

    #[test]
    fn the_extension_says_how_a_file_is_compressed() {
        for (compression, extension, _) in COMPRESSIONS {
            for name in [format!("a.txt.{extension}"), format!("a.{}", extension.to_uppercase())] {
                let file = Path::new(&name);
                assert_eq!(Compression::of(file), Some(compression), "{name}");
                assert_eq!(file.with_extension(""), Compression::strip_extension(file), "{name}");
            }
        }
        for name in ["a.gz.txt", "no-such-file", "a.x"] {
            assert_eq!(Compression::of(Path::new(name)), None, "{name}");
            assert_eq!(Compression::strip_extension(Path::new(name)), Path::new(name));
        }
    }
}
