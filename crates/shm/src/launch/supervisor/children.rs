//! The children of this process, read from /proc without an allocation.

use std::ptr;

/// Offsets of the name and of the record length in a directory entry (`linux_dirent64`).
const NAME_OFFSET: usize = 19;
const RECLEN_OFFSET: usize = 16;

#[repr(align(8))]
struct DirentBuffer([u8; 8192]);

/// Calls `visit` for each child of this process with its pid and its state as in /proc: Z has exited.
pub(super) fn for_each_child(mut visit: impl FnMut(i32, u8)) {
    let mut entries = DirentBuffer([0; 8192]);
    // SAFETY: opens a directory by a constant name; asks for the pid.
    let (directory, this_pid) = unsafe {
        (libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC), libc::getpid())
    };
    if directory < 0 {
        return;
    }
    loop {
        // SAFETY: the kernel writes at most as many bytes as there are.
        let read =
            unsafe { libc::syscall(libc::SYS_getdents64, directory, entries.0.as_mut_ptr(), entries.0.len()) as isize };
        let Some(mut rest) = usize::try_from(read).ok().filter(|read| *read > 0).and_then(|read| entries.0.get(..read))
        else {
            break;
        };
        while let Some(&[low, high]) = rest.get(RECLEN_OFFSET..RECLEN_OFFSET + 2) {
            let length = usize::from(u16::from_ne_bytes([low, high]));
            let Some(entry) = rest.get(..length).filter(|entry| entry.len() > NAME_OFFSET) else { break };
            if let Some(pid) = parse_number(entry.get(NAME_OFFSET..).unwrap_or_default())
                && let Some((parent, state)) = parent_and_state(pid)
                && parent == this_pid
            {
                visit(pid, state);
            }
            rest = rest.get(length..).unwrap_or_default();
        }
    }
    // SAFETY: opened above.
    unsafe { libc::close(directory) };
}

/// The number at the beginning of a text, if it begins with one.
fn parse_number(text: &[u8]) -> Option<i32> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    let value = digits.fold(None, |value: Option<i32>, digit| {
        Some(value.unwrap_or(0).wrapping_mul(10).wrapping_add(i32::from(digit - b'0')))
    });
    value.filter(|value| *value > 0)
}

fn parent_and_state(pid: i32) -> Option<(i32, u8)> {
    let mut path = [0_u8; 32];
    let mut len = 0;
    let mut put = |bytes: &[u8]| {
        for &byte in bytes {
            if let Some(byte_slot) = path.get_mut(len) {
                *byte_slot = byte;
                len += 1;
            }
        }
    };
    let mut digits = [0_u8; 10];
    put(b"/proc/");
    put(format_decimal(pid as u32, &mut digits));
    put(b"/stat\0");
    let mut text = [0_u8; 512];
    // SAFETY: the path ends with a zero; the kernel writes at most as many bytes as there are; the file is closed.
    let read = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let read = libc::read(file, ptr::from_mut(&mut text).cast(), text.len());
        libc::close(file);
        read
    };
    parse_stat(text.get(..usize::try_from(read).ok()?)?)
}

/// Parses `1 (name) S 2 ...`, where the name may contain anything.
fn parse_stat(stat: &[u8]) -> Option<(i32, u8)> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let state = *stat.get(end + 2)?;
    Some((parse_number(stat.get(end + 4..)?)?, state))
}

/// Formats a number in decimal digits.
pub(super) fn format_decimal(mut number: u32, digits: &mut [u8; 10]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at = at.saturating_sub(1);
        if let Some(byte_slot) = digits.get_mut(at) {
            *byte_slot = b'0' + (number % 10) as u8;
        }
        number /= 10;
        if number == 0 {
            return digits.get(at..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_s_line_is_read_whatever_the_name() {
        assert_eq!(parse_stat(b"12 (a b) c) 7 (x) R 345 12 12 0"), Some((345, b'R')));
        assert_eq!(parse_stat(b"12 (sh) Z 1 12"), Some((1, b'Z')));
        assert_eq!(parse_stat(b"12 (sh"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn numbers_are_written() {
        let written = |number| String::from_utf8(format_decimal(number, &mut [0; 10]).to_vec()).unwrap();
        assert_eq!([0, 7, 10, 4_294_967_295].map(written), ["0", "7", "10", "4294967295"]);
    }

    #[test]
    fn children_are_found() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut found = Vec::new();
        for_each_child(|pid, _| found.push(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(found.contains(&(child.id() as i32)), "{found:?}");
        assert!(!found.contains(&(std::process::id() as i32)) && !found.contains(&1));
    }
}
