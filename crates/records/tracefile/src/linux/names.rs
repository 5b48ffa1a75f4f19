//! Names of a kernel's functions.

/// A function, and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// Function's name.
    pub name: &'a str,
    /// Module of the function; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Offset in the function.
    pub offset: u64,
    /// Function's size.
    pub size: u64,
}

/// Names the addresses in a trace.
pub trait Names {
    /// Returns the function that contains an address.
    fn place(&self, address: u64) -> Option<Place<'_>>;

    /// Returns the kernel's constant data from an address on, if known.
    fn constant(&self, _address: u64) -> Option<&[u8]> {
        None
    }
}

/// No address has a name.
impl Names for () {
    fn place(&self, _: u64) -> Option<Place<'_>> {
        None
    }
}
