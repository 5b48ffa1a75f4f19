//! Identity and load address of the running program.

use std::ffi::{c_int, c_void};

/// Identity of the executable, and its load address.
#[derive(Clone, Debug, Default)]
pub(super) struct Executable {
    /// Build ID from its ELF note; empty if it has none.
    pub(super) build_id: Vec<u8>,
    /// Difference between running and linked addresses.
    pub(super) bias: u64,
}

/// Returns the running program's executable.
pub(super) fn running() -> Executable {
    let mut executable = Executable::default();
    // SAFETY: the callback receives a pointer to `executable`, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut executable).cast()) };
    executable
}

/// Reads the first object, which is the program itself, and stops.
unsafe extern "C" fn first(info: *mut libc::dl_phdr_info, _: usize, into: *mut c_void) -> c_int {
    // SAFETY: the first pointer is the loader's object, the second the caller's `Executable`.
    let (info, executable) = unsafe { (&*info, &mut *into.cast::<Executable>()) };
    executable.bias = info.dlpi_addr;
    // SAFETY: the loader provides this number of headers.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers.iter().filter(|it| it.p_type == libc::PT_NOTE) {
        let at = info.dlpi_addr.wrapping_add(header.p_vaddr) as *const u8;
        // SAFETY: the loader maps segments of notes permanently.
        let notes = unsafe { std::slice::from_raw_parts(at, header.p_memsz as usize) };
        if let Some(id) = build_id(notes) {
            executable.build_id = id.to_vec();
        }
    }
    1
}

/// Type of a note with a build ID.
const NT_GNU_BUILD_ID: u32 = 3;

/// Finds the build ID in notes: {u32 length of the name, u32 length of the value, u32 type}, name
/// and value. Name and value are padded to 4 bytes.
fn build_id(mut notes: &[u8]) -> Option<&[u8]> {
    loop {
        let (head, rest) = notes.split_first_chunk::<12>()?;
        let word =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (name_len, len) = (word(0) as usize, word(4) as usize);
        let name = rest.get(..name_len)?;
        let rest = rest.get(name_len.next_multiple_of(4)..)?;
        if word(8) == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return rest.get(..len);
        }
        notes = rest.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_after_other_notes_and_a_truncated_note_has_none() {
        let mut notes = Vec::new();
        for (kind, value) in [(1u32, &[1u8, 2, 3][..]), (3, &[9; 20])] {
            for word in [4, value.len() as u32, kind] {
                notes.extend(word.to_ne_bytes());
            }
            notes.extend(b"GNU\0");
            notes.extend(value);
            notes.resize(notes.len().next_multiple_of(4), 0);
        }
        assert_eq!(build_id(&notes), Some(&[9; 20][..]));
        for len in 0..notes.len() {
            assert_eq!(build_id(&notes[..len]), None);
        }
    }

    #[test]
    fn the_bias_leads_from_the_running_address_to_that_of_the_symbol_in_the_file() {
        let file = std::fs::read("/proc/self/exe").unwrap();
        let executable = running();
        let linked = (running as fn() -> Executable as usize as u64) - executable.bias;
        // A program that is linked for any address starts at 0.
        assert!(linked < file.len() as u64 * 4, "{linked:#x}");
    }
}
