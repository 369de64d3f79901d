//! The object file that this code was loaded from: its addresses and its contents.

use std::fs::File;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

/// An executable or a shared library, loaded.
pub(super) struct Image {
    /// Its addresses; none of its code lies elsewhere.
    pub(super) addresses: Range<usize>,
    /// The same for all processes that loaded the same file, and for no others.
    pub(super) fingerprint: u64,
    /// A second such hash, which is kept secret.
    pub(super) key: u64,
}

impl Image {
    /// The image that contains [`super::ANCHOR`]. If the system does not tell, it is unlike any other process's.
    pub(super) fn current() -> &'static Self {
        static CURRENT: OnceLock<Image> = OnceLock::new();
        CURRENT.get_or_init(|| {
            Self::containing(super::anchor()).unwrap_or_else(|_| {
                let random = RandomState::new();
                Self { addresses: 0..usize::MAX, fingerprint: random.hash_one(1), key: random.hash_one(2) }
            })
        })
    }

    fn containing(address: usize) -> io::Result<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let (addresses, path) = find_mapping(&maps, address).ok_or(io::ErrorKind::NotFound)?;
        // The link leads to the file that was loaded even if its path now names another one.
        let link = Path::new("/proc/self/exe");
        let is_executable = std::fs::read_link(link).is_ok_and(|executable| executable == Path::new(path));
        let (fingerprint, key) = hashes(File::open(if is_executable { link } else { Path::new(path) })?)?;
        Ok(Self { addresses, fingerprint, key })
    }
}

/// From lines of `/proc/self/maps`: the addresses from the first to the last segment of the file that contains
/// `address`, and its path. These lines are consecutive.
fn find_mapping(maps: &str, address: usize) -> Option<(Range<usize>, &str)> {
    let mut found: Option<(Range<usize>, &str)> = None;
    for line in maps.lines() {
        // Addresses, permissions, offset, device, inode; then blanks and the path, in which there may be blanks too.
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let path = fields.nth(4).unwrap_or("").trim_start();
        match &mut found {
            Some((addresses, of)) if *of == path => addresses.end = end,
            Some((addresses, _)) if addresses.contains(&address) => break,
            _ => found = Some((start..end, path)),
        }
    }
    found.filter(|(addresses, path)| addresses.contains(&address) && path.starts_with('/'))
}

/// Two independent hashes of all bytes.
fn hashes(mut file: File) -> io::Result<(u64, u64)> {
    const READ_CHUNK: u64 = 1 << 16;
    let mut hasher = DefaultHasher::new();
    let mut piece = Vec::with_capacity(READ_CHUNK as usize);
    while file.by_ref().take(READ_CHUNK).read_to_end(&mut piece)? > 0 {
        hasher.write(&piece);
        piece.clear();
    }
    let fingerprint = hasher.finish();
    hasher.write(b"key");
    Ok((fingerprint, hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
5000-6000 r--p 00000000 fe:00 42                         /opt/a program
6000-8000 r-xp 00001000 fe:00 42                         /opt/a program
9000-a000 rw-p 00003000 fe:00 42                         /opt/a program
a000-b000 rw-p 00000000 00:00 0 
b000-c000 rw-p 00000000 00:00 0                          [heap]
d000-e000 r-xp 00000000 fe:00 43                         /lib/b.so
f000-ff00 r--p 00000000 fe:00 42                         /opt/a program
";

    #[test]
    fn all_segments_around_an_address_are_found() {
        for address in [0x5000, 0x6001, 0x9fff] {
            assert_eq!(find_mapping(MAPS, address), Some((0x5000..0xa000, "/opt/a program")), "{address:x}");
        }
        assert_eq!(find_mapping(MAPS, 0xd000), Some((0xd000..0xe000, "/lib/b.so")));
        assert_eq!(find_mapping(MAPS, 0xf000), Some((0xf000..0xff00, "/opt/a program")));
        for nowhere in [0, 0x4fff, 0xa000, 0xb000, 0xc000, 0xff00] {
            assert_eq!(find_mapping(MAPS, nowhere), None, "{nowhere:x}");
        }
        assert_eq!(find_mapping("not a map", 0), None);
    }

    #[test]
    fn this_image_has_this_code_and_no_memory() {
        let image = Image::current();
        assert!(image.addresses.contains(&(find_mapping as fn(_, _) -> _ as usize)));
        assert!(!image.addresses.contains(&Box::into_raw(Box::new(7u64)).addr()));
        assert!(image.addresses.end < usize::MAX, "the system says where it lies");
        assert_ne!(image.fingerprint, image.key);
    }

    #[test]
    fn files_that_differ_anywhere_have_other_hashes() {
        let path = std::env::temp_dir().join(format!("treepie-image-{}", std::process::id()));
        let of = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            hashes(File::open(&path).unwrap()).unwrap()
        };
        let mut bytes = vec![3; 200_001];
        let first = of(&bytes);
        assert_eq!(of(&bytes), first);
        for at in [0, 65_535, 65_536, 200_000] {
            bytes[at] ^= 128;
            let other = of(&bytes);
            assert!(other.0 != first.0 && other.1 != first.1, "byte {at} was changed");
            bytes[at] ^= 128;
        }
        assert_ne!(of(&bytes[1..]), first);
        std::fs::remove_file(&path).unwrap();
    }
}
