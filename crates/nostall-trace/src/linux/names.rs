//! Names of a kernel's functions.

/// A function, and a place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Function's name.
    pub name: &'a str,
    /// Its module; `None` for the kernel proper.
    pub module: Option<&'a str>,
    /// Offset of the place in the function.
    pub offset: u64,
    /// Function's size.
    pub size: u64,
}

/// Names the addresses in a trace.
pub trait Names {
    /// Returns the function that an address is in.
    fn place(&self, address: u64) -> Option<Place<'_>>;

    /// Returns the kernel's constant bytes from an address on, if they are known.
    fn constant(&self, _address: u64) -> Option<&[u8]> {
        None
    }
}

/// No names.
impl Names for () {
    fn place(&self, _: u64) -> Option<Place<'_>> {
        None
    }
}
