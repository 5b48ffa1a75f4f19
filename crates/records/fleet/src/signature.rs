//! The signature of a crash, which is the same for every build and load address.

use sha2::{Digest, Sha256};

/// Returns the signature of the functions from [`Crash::frames`], 16 hexadecimal digits; `None`
/// without functions. It is the start of the SHA-256 of the names, each with a line feed.
///
/// [`Crash::frames`]: nostall_postmortem::kernel::Crash::frames
pub fn signature(frames: &[String]) -> Option<String> {
    let mut hash = Sha256::new();
    for frame in frames {
        hash.update(frame);
        hash.update("\n");
    }
    let hash = hash.finalize();
    let digits = hash[..8].iter().map(|byte| format!("{byte:02x}"));
    (!frames.is_empty()).then(|| digits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_depends_on_each_name_and_its_end() {
        let of = |names: &[&str]| {
            let frames: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
            signature(&frames)
        };
        assert_eq!(of(&[]), None);
        // `printf 'panic\nschedule\n' | sha256sum`
        assert_eq!(
            of(&["panic", "schedule"]).as_deref(),
            Some("37b9364cd03932e7")
        );
        assert_ne!(of(&["panicschedule"]), of(&["panic", "schedule"]));
    }
}
