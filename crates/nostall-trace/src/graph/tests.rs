//! Pairing of entries and exits.
